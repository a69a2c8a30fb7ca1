"""Arms that follow motions, and limits of these motions."""

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.rigid_body.excitation import MotionLimits
from emppi_ros.robots.robot import load_robot

STIFFNESS, DAMPING = 100.0, 20.0  # 1/s^2, 1/s: critically damped; soft, so that the model matters


def limits_of(robot: str) -> MotionLimits:
    """Return a robot's limits, with its dynamics factor applied."""
    config = load_robot(robot)
    share, limits = config.dynamics_factor, config.limits
    return MotionLimits(
        np.array(limits.position.lower),
        np.array(limits.position.upper),
        share * np.array(limits.velocity),
        share * np.array(limits.acceleration),
    )


def simulate(model: mujoco.MjModel, wanted: Array) -> Array:
    """Return positions and torques (2, n, nv) of physics steps along a motion (3, n, nv)."""
    data, scratch = mujoco.MjData(model), mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = wanted[0, 0], wanted[1, 0]
    rows = np.empty((2, *wanted.shape[1:]))
    for k, (place, rate, rise) in enumerate(np.swapaxes(wanted, 0, 1)):
        scratch.qpos[:], scratch.qvel[:] = data.qpos, data.qvel
        feedback, slow = place - data.qpos, rate - data.qvel
        scratch.qacc[:] = rise + STIFFNESS * feedback + DAMPING * slow
        mujoco.mj_inverse(model, scratch)
        data.qfrc_applied[:] = scratch.qfrc_inverse
        rows[:, k] = data.qpos, data.qfrc_applied
        mujoco.mj_step(model, data)
    return rows
