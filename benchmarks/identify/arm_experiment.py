"""Simulated arm experiments: limits, optimized motions, and computed-torque tracking."""

import copy
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.rigid_body import arm, excitation_trajectory
from emppi_ros.identify.rigid_body.excitation import typical_prior
from emppi_ros.identify.rigid_body.excitation_trajectory import FourierMotion, MotionLimits
from emppi_ros.robots.robot import load_robot

Array = npt.NDArray[np.float64]
STIFFNESS, DAMPING = 100.0, 20.0  # 1/s^2, 1/s: critically damped; soft, so that the model matters
_PHYSICS_S, _CYCLE = 1e-3, 4  # physics steps per control cycle
_MAX_ERROR = 1.0  # rad: the motion is lost
PERIOD_S, _TRIALS = 10.0, 150  # of an optimized motion


def tracking_error(model: mujoco.MjModel, motion: FourierMotion, parameters: Array) -> float:
    """
    Return the rms tracking error in rad; infinite if the arm leaves the motion.

    Computed-torque control: the torque of the identified bodies, at the measured position and
    velocity, for the desired acceleration plus that of a PD controller, the same for all joints.
    The simulated arm is `model`; it starts on the motion and follows it for one period.
    """
    plant = copy.copy(model)
    plant.opt.timestep = _PHYSICS_S
    belief = arm.with_parameters(model, parameters)
    data, scratch = mujoco.MjData(plant), mujoco.MjData(belief)
    cycles = round(motion.period / (_PHYSICS_S * _CYCLE))
    times = _PHYSICS_S * _CYCLE * np.arange(cycles, dtype=np.float64)
    wanted = excitation_trajectory.evaluate_motion(motion, times)
    data.qpos[:], data.qvel[:] = wanted[0, 0], wanted[1, 0]
    total = 0.0
    for position, velocity, acceleration in np.swapaxes(wanted, 0, 1):
        error = position - data.qpos
        if not np.abs(error).max() < _MAX_ERROR:
            return np.inf
        total += float(error @ error)
        wish = acceleration + STIFFNESS * error + DAMPING * (velocity - data.qvel)
        data.qfrc_applied[:] = arm.inverse_dynamics(belief, scratch, data.qpos, data.qvel, wish)
        mujoco.mj_step(plant, data, _CYCLE)
    return float(np.sqrt(total / (cycles * model.nv)))


class ArmStudySetup(NamedTuple):
    """Size of a study of an arm."""

    excitation: str  # 'drawn' or 'chosen'
    trials: int
    seed: int


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


def optimized_motion(model: mujoco.MjModel, limits: MotionLimits, seed: int) -> FourierMotion:
    """Return a motion optimized for its information."""
    rng, prior = np.random.default_rng([seed, 1]), typical_prior(model)
    return excitation_trajectory.optimize_motion(model, limits, PERIOD_S, prior, rng, _TRIALS)
