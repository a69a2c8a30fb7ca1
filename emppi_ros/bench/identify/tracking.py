"""Computed torque in simulation: how far an arm strays with what was identified."""

import copy

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.rigid_body import arm, excitation_trajectory

Array = npt.NDArray[np.float64]
STIFFNESS, DAMPING = 100.0, 20.0  # 1/s^2, 1/s: critical, and soft so that the model matters
_PHYSICS_S, _CYCLE = 1e-3, 4  # steps of physics a cycle of control
_LOST = 1.0  # rad: no tracking any more


def deviation(
    model: mujoco.MjModel, motion: excitation_trajectory.FourierMotion, parameters: Array
) -> float:
    """
    Return the rms of what positions differ by from a motion, in rad; infinite if it is lost.

    Torque is what the identified bodies need, at the measured position and velocity, for the
    wanted acceleration plus that of a spring and a damper, the same for all joints. The arm
    itself is `model`; it starts on the motion, and does one period.
    """
    plant = copy.copy(model)
    plant.opt.timestep = _PHYSICS_S
    belief = arm.with_parameters(model, parameters)
    data, scratch = mujoco.MjData(plant), mujoco.MjData(belief)
    cycles = round(motion.period / (_PHYSICS_S * _CYCLE))
    wanted = excitation_trajectory.evaluate_motion(motion, _PHYSICS_S * _CYCLE * np.arange(cycles))
    data.qpos[:], data.qvel[:] = wanted[0, 0], wanted[1, 0]
    total = 0.0
    for position, velocity, acceleration in np.swapaxes(wanted, 0, 1):
        off = position - data.qpos
        if not np.abs(off).max() < _LOST:
            return np.inf
        total += float(off @ off)
        wish = acceleration + STIFFNESS * off + DAMPING * (velocity - data.qvel)
        data.qfrc_applied[:] = arm.inverse_dynamics(belief, scratch, data.qpos, data.qvel, wish)
        mujoco.mj_step(plant, data, _CYCLE)
    return float(np.sqrt(total / (cycles * model.nv)))
