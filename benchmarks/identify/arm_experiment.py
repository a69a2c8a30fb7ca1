"""Simulated arm experiments: limits, and motions that are optimized for their information."""

import mujoco
import numpy as np

from emppi_ros.identification.rigid_body import excitation_trajectory
from emppi_ros.identification.rigid_body.excitation import typical_prior
from emppi_ros.identification.rigid_body.excitation_trajectory import FourierMotion, MotionLimits
from emppi_ros.robots.robot import load_robot

STIFFNESS, DAMPING = 100.0, 20.0  # 1/s^2, 1/s: critically damped; soft, so that the model matters
PERIOD_S, _TRIALS = 10.0, 150  # of an optimized motion


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
