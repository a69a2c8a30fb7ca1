"""`emppi bench identify --method rigid-body`: a Panda's bodies, by all methods, and what for."""

from collections.abc import Callable
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.bench.identify import rigid_body_methods, tracking
from emppi_ros.core.paths import ASSETS
from emppi_ros.identify.rigid_body import arm, excitation_trajectory
from emppi_ros.identify.rigid_body.body_posterior import InertialPrior
from emppi_ros.identify.rigid_body.excitation import TORQUE_SD
from emppi_ros.identify.rigid_body.excitation_trajectory import FourierMotion, MotionLimits
from emppi_ros.identify.rigid_body.motion_samples import MotionSamples, add_noise
from emppi_ros.identify.rigid_body.regressor import model_parameters, regressor
from emppi_ros.robots.robot import load_robot

Array = npt.NDArray[np.float64]
LEVELS = (0.02, 0.1, 0.3)
TORQUE_NOISE = 0.05
PERIOD_S, PERIODS, ROWS = 10.0, 2, 400
_TEST = 200  # samples of the motion that torques are predicted for
RIDGES = ('ridge', 'ridge, projected')  # that tracking is compared with


class Setup(NamedTuple):
    """What is held against one another, and with how much effort."""

    excitation: str  # drawn, or chosen
    trials: int
    seed: int


def limits_of(robot: str) -> MotionLimits:
    """Return a robot's limits; of velocity and acceleration the share that the planner uses."""
    found = load_robot(robot)
    share, limits = found.dynamics_factor, found.limits
    return MotionLimits(
        np.array(limits.position.lower),
        np.array(limits.position.upper),
        share * np.array(limits.velocity),
        share * np.array(limits.acceleration),
    )


def chosen(
    model: mujoco.MjModel, limits: MotionLimits, seed: int, trials: int = 150
) -> FourierMotion:
    """Return a motion that was chosen for its information."""
    prior = np.full(model.nv, TORQUE_SD), np.tile(InertialPrior().spread(), model.nbody - 1)
    rng = np.random.default_rng([seed, 1])
    return excitation_trajectory.optimize_motion(model, limits, PERIOD_S, prior, rng, trials)


def record(
    model: mujoco.MjModel, motion: FourierMotion, noise: float, rng: np.random.Generator
) -> MotionSamples:
    """Return what sensors see of a motion."""
    states = excitation_trajectory.evaluate_motion(
        motion, PERIOD_S * PERIODS * np.arange(ROWS) / ROWS
    )
    clean = MotionSamples(states, arm.motion_torques(model, states))
    return add_noise(clean, noise, TORQUE_NOISE, rng)[0]


def measure(setup: Setup, advance: Callable[[], None]) -> list[dict[str, Any]]:
    """Return a row for each level of noise; `advance` is called after each trial."""
    model, limits = arm.load(ASSETS / 'panda.xml'), limits_of('panda')
    best = chosen(model, limits, setup.seed) if setup.excitation == 'chosen' else None
    rows = []
    for noise in LEVELS:
        trials = []
        for trial in range(setup.trials):
            rng = np.random.default_rng([setup.seed, trial, round(1000 * noise)])
            held_out = excitation_trajectory.random_motion(limits, PERIOD_S, rng)
            motion = best or excitation_trajectory.random_motion(limits, PERIOD_S, rng)
            found = rigid_body_methods.identify(model, record(model, motion, noise, rng))
            found[rigid_body_methods.TRUTH] = model_parameters(model)
            trials.append({name: judge(model, held_out, b) for name, b in found.items()})
            advance()
        rows.append({'noise': noise, 'methods': _summarize(trials)})
    return rows


def judge(model: mujoco.MjModel, held_out: FourierMotion, found: Array) -> dict[str, float]:
    """
    Return what parameters are worth on another motion.

    `torque_error` is the squared error of torques over each joint's variance, the mean of all
    joints; `possible` the share of bodies that can be; `tracking_rad` the rms off the motion.
    """
    rows = regressor(
        model,
        *excitation_trajectory.evaluate_motion(held_out, PERIOD_S * np.arange(_TEST) / _TEST),
    )
    true = (rows @ model_parameters(model)).reshape(-1, model.nv)
    off = (rows @ found).reshape(-1, model.nv) - true
    return {
        'torque_error': float(np.mean(np.mean(off**2, axis=0) / true.var(axis=0))),
        'possible': float(rigid_body_methods.possible(found).mean()),
        'tracking_rad': tracking.deviation(model, held_out, found),
    }


def _summarize(trials: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, Any]]:
    """Return means over trials; a motion that was lost is counted, and is no number."""
    found = {}
    for name in trials[0]:
        each = {key: np.array([trial[name][key] for trial in trials]) for key in trials[0][name]}
        off = each['tracking_rad']
        kept = off[np.isfinite(off)]
        found[name] = {
            'torque_error': float(each['torque_error'].mean()),
            'possible': float(each['possible'].mean()),
            'tracking_rad': float(kept.mean()) if len(kept) else np.nan,
            'lost': len(off) - len(kept),
            'below_percent': {
                other: _below(off, np.array([trial[other]['tracking_rad'] for trial in trials]))
                for other in RIDGES
                if other in trials[0]
            },
        }
    return found


def _below(off: Array, other: Array) -> float:
    """Return by how much less an arm strays, in percent, where neither is lost."""
    both = np.isfinite(off) & np.isfinite(other)
    return float(100.0 * (1.0 - off[both].mean() / other[both].mean())) if both.any() else np.nan
