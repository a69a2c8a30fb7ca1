"""
Excitation trajectories: Fourier series within limits (Swevers et al. 1997), without collisions.

The optimized motion has the largest log det of the information X'X over the variance of torques
(Bayesian D-optimality): a prior keeps that finite, and sets the scale of all parameters.

The trajectory moves from rest in a straight line from home to the start of the motion. Then the
phase of the motion accelerates, so that positions and velocities stay within those of the motion.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body import arm
from emppi_ros.identification.rigid_body.arm import ARMATURE
from emppi_ros.identification.rigid_body.body_posterior import PRIOR
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task

HARMONICS = 5
_GRID = 100  # samples per period for finding peaks
# bound of largest sample to peak of a Fourier series (Ehlich and Zeller 1964)
_PEAK_FACTOR = np.cos(np.pi * HARMONICS / _GRID)
_SAMPLES = 40  # per period, for the information
_DRAWS = 30  # initial random motions
_FIRST_STEP, _GROW, _SHRINK = 0.3, 1.5, 0.93  # like the 1/5 rule: constant if one in six succeeds
_PEAK_VELOCITY, _PEAK_ACCELERATION = 1.875, 10.0 / np.sqrt(3.0)  # of the minimum-jerk step
_MIN_DURATION_S = 0.5
_TORQUE_SD = 0.5  # N m, noise of all joints assumed for the optimization
_CHECK_STEP_S = 0.01  # of a trajectory
_SHOWN_SAMPLES = 100  # per period, for the condition number
_RANK = 1e-8  # relative to the largest singular value: smaller ones are unexcited


class MotionLimits(NamedTuple):
    """Limits of a motion; (nv,) each, in rad (m), rad/s and rad/s^2."""

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array


class FourierMotion(NamedTuple):
    """A periodic motion of all joints."""

    centre: Array  # (nv,)
    sine: Array  # (HARMONICS, nv)
    cosine: Array
    period: float  # s


def evaluate_motion(motion: FourierMotion, time: Array) -> Array:
    """Return positions, velocities and accelerations (3, n, nv) at times (n,)."""
    rates = 2.0 * np.pi / motion.period * np.arange(1, HARMONICS + 1)
    sine, cosine = np.sin(np.outer(time, rates)), np.cos(np.outer(time, rates))
    a, b = motion.sine, motion.cosine
    first, second = rates[:, None], rates[:, None] ** 2
    return np.stack(
        [
            motion.centre + sine @ a + cosine @ b,
            cosine @ (first * a) - sine @ (first * b),
            -sine @ (second * a) - cosine @ (second * b),
        ]
    )


def scale_to_limits(free: Array, limits: MotionLimits, period: float) -> FourierMotion:
    """
    Return the largest motion of a given shape within limits at every instant.

    `free` (2 HARMONICS + 1, nv) is unconstrained: weights of sines and cosines, and the position
    of the motion in the range if it does not fill it, as the logit of the share below.
    """
    shape = FourierMotion(np.zeros(free.shape[1]), free[:HARMONICS], free[HARMONICS:-1], period)
    wave, speed, rise = evaluate_motion(shape, period * np.arange(_GRID) / _GRID)
    high, low = wave.max(axis=0), wave.min(axis=0)
    width = (high - low) / _PEAK_FACTOR
    by_velocity = limits.velocity / np.abs(speed).max(axis=0)
    by_acceleration = limits.acceleration / np.abs(rise).max(axis=0)
    by_peaks = _PEAK_FACTOR * np.minimum(by_velocity, by_acceleration)
    size = np.minimum((limits.upper - limits.lower) / width, by_peaks)
    spare = limits.upper - limits.lower - size * width
    middle = limits.lower + 0.5 * size * width + spare / (1.0 + np.exp(-free[-1]))
    return FourierMotion(
        middle - 0.5 * size * (high + low), size * shape.sine, size * shape.cosine, period
    )


def _random_shape(joints: int, rng: np.random.Generator) -> Array:
    harmonic = np.r_[np.tile(np.arange(1, HARMONICS + 1), 2), 1]
    return rng.standard_normal((2 * HARMONICS + 1, joints)) / harmonic[:, None]


def random_motion(limits: MotionLimits, period: float, rng: np.random.Generator) -> FourierMotion:
    """Return a random motion within limits; the k-th harmonic has weight 1 / k."""
    return scale_to_limits(_random_shape(len(limits.lower), rng), limits, period)


def information(
    model: mujoco.MjModel, motion: FourierMotion, torque_sd: Array, prior_sd: Array
) -> float:
    """Return the decrease of entropy [nats] by a period, for noise (nv,) [N m] and prior (p,)."""
    rows = scaled_regressor(model, motion, torque_sd, prior_sd, _SAMPLES)
    return 0.5 * float(np.linalg.slogdet(np.eye(len(prior_sd)) + rows.T @ rows)[1])


def scaled_regressor(
    model: mujoco.MjModel, motion: FourierMotion, torque_sd: Array, prior_sd: Array, samples: int
) -> Array:
    """Return the regressor of a period, in units of the noise and of the prior's spread."""
    states = evaluate_motion(motion, motion.period * np.arange(samples) / samples)
    return arm.regressor(model, *states) * prior_sd / np.tile(torque_sd, samples)[:, None]


def optimize_motion(
    model: mujoco.MjModel,
    limits: MotionLimits,
    period: float,
    prior: tuple[Array, Array],
    rng: np.random.Generator,
    trials: int = 400,
    allowed: Callable[[FourierMotion], bool] = lambda _: True,
) -> FourierMotion:
    """
    Return a motion with large information by random search among `allowed` motions.

    `prior` is `torque_sd` and `prior_sd` of `information`. IdentificationError if none of the
    initial motions is allowed.
    """
    draws = (_random_shape(len(limits.lower), rng) for _ in range(_DRAWS))
    best = next((free for free in draws if allowed(scale_to_limits(free, limits, period))), None)
    if best is None:
        raise IdentificationError(f'none of {_DRAWS} random motions is allowed')
    most = information(model, scale_to_limits(best, limits, period), *prior)
    size = _FIRST_STEP
    for _ in range(trials):
        other = best + size * _random_shape(len(limits.lower), rng)
        motion = scale_to_limits(other, limits, period)
        value = information(model, motion, *prior)
        better = value > most and allowed(motion)
        size *= _GROW if better else _SHRINK
        if better:
            best, most = other, value
    return scale_to_limits(best, limits, period)


class ExcitationTrajectory(NamedTuple):
    """A periodic motion with approach from home and return to it."""

    home: Array  # (nv,)
    motion: FourierMotion
    periods: int
    ramp_s: float
    approach_s: float

    @property
    def moving_s(self) -> float:
        """Duration from rest to rest at the start of the motion."""
        return self.periods * self.motion.period + self.ramp_s

    @property
    def duration_s(self) -> float:
        """Total duration."""
        return self.moving_s + 2.0 * self.approach_s


def ramp_duration(limits: MotionLimits) -> float:
    """Return the duration of the ramp, which uses at most half of each acceleration."""
    most = 2.0 * _PEAK_VELOCITY * limits.velocity / limits.acceleration
    return max(float(most.max()), _MIN_DURATION_S)


def motion_limits(limits: MotionLimits) -> MotionLimits:
    """Return the limits of a motion that leave room for the acceleration of the ramp."""
    taken = _PEAK_VELOCITY * limits.velocity / ramp_duration(limits)
    return limits._replace(acceleration=limits.acceleration - taken)


def plan_trajectory(
    home: Array, motion: FourierMotion, periods: int, limits: MotionLimits
) -> ExcitationTrajectory:
    """Return the trajectory of a motion within `motion_limits(limits)`."""
    distance = np.abs(evaluate_motion(motion, np.zeros(1))[0, 0] - home)
    steep = _PEAK_VELOCITY * distance / limits.velocity
    sharp = _PEAK_ACCELERATION * distance / limits.acceleration
    approach = max(float(steep.max()), float(np.sqrt(sharp.max())), _MIN_DURATION_S)
    return ExcitationTrajectory(home, motion, periods, ramp_duration(limits), approach)


def sample_trajectory(course: ExcitationTrajectory, time: Array) -> Array:
    """Return positions, velocities and accelerations (3, n, nv) at times (n,)."""
    moving, began = course.moving_s, time - course.approach_s
    up = _minimum_jerk_ramp(began, course.ramp_s)
    down = _minimum_jerk_ramp(began - (moving - course.ramp_s), course.ramp_s)
    phase, rate, push = (a - b for a, b in zip(up, down, strict=True))
    states = evaluate_motion(course.motion, phase)
    first = evaluate_motion(course.motion, np.zeros(1))[0, 0] - course.home
    states[2] = states[2] * rate[:, None] ** 2 + states[1] * push[:, None]
    states[1] *= rate[:, None]
    # approach and return, on the line between home and the start of the motion
    there = _minimum_jerk_step(time, course.approach_s)
    back = _minimum_jerk_step(began - moving, course.approach_s)
    outside = (began < 0.0) | (began > moving)
    line = np.stack([a - b for a, b in zip(there, back, strict=True)])[:, outside, None] * first
    line[0] += course.home
    states[:, outside] = line
    return states


def _minimum_jerk_step(time: Array, length: float) -> tuple[Array, Array, Array]:
    """Return a minimum-jerk step from 0 to 1 and two derivatives, (n,) each."""
    u = np.clip(time / length, 0.0, 1.0)
    return (
        u**3 * (10.0 - 15.0 * u + 6.0 * u**2),
        30.0 * (u * (1.0 - u)) ** 2 / length,
        60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / length**2,
    )


def _minimum_jerk_ramp(time: Array, length: float) -> tuple[Array, Array, Array]:
    """Return the integral of that step, the step, and its derivative, (n,) each."""
    u = np.clip(time / length, 0.0, 1.0)
    step, slope, _ = _minimum_jerk_step(time, length)
    whole = length * u**4 * (2.5 - 3.0 * u + u**2) + np.maximum(time - length, 0.0)
    return whole, step, slope


class ClearanceChecker:
    """Checks distances of links from each other and the scene, but of pairs near at home."""

    def __init__(
        self, path: Path, root: Path | None, joints: Sequence[str], home: Array, least_m: float
    ) -> None:
        """Load the scene; `home` (nv,) are positions of the arm's `joints`."""
        spec = arm.load_spec(path, root)  # includes drawers and doors at their initial positions
        for geom in spec.geoms:
            geom.contype = geom.conaffinity = 1
            geom.margin = least_m
        self._model, self._least = spec.compile(), least_m
        self._model.opt.disableflags = 0
        self._data = mujoco.MjData(self._model)
        self._names = scene.names(self._model, 'body')
        places = [scene.find(self._model, 'joint', name) for name in joints]
        self._where = self._model.jnt_qposadr[places]
        self.near_at_home = frozenset(self._near(home))

    def first_violation(self, positions: Array) -> tuple[str, str] | None:
        """Return two bodies that come too close along positions (n, nv), or None."""
        for position in positions:
            if pairs := self._near(position) - self.near_at_home:
                return min(pairs)
        return None

    def _near(self, position: Array) -> set[tuple[str, str]]:
        self._data.qpos[self._where] = position
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_comPos(self._model, self._data)
        mujoco.mj_collision(self._model, self._data)
        contact = self._data.contact
        near = contact.geom[contact.dist < self._least]
        pairs = np.sort(self._model.geom_bodyid[near], axis=1)
        return {(self._names[a], self._names[b]) for a, b in pairs.tolist()}


class ExcitationConfig(NamedTuple):
    """Options of an excitation trajectory."""

    period_s: float
    periods: int
    share: float  # of the distance from home to the joint limits
    clearance_m: float
    trials: int
    seed: int


class ExcitationResult(NamedTuple):
    """An excitation trajectory and its summary."""

    joints: tuple[str, ...]
    trajectory: ExcitationTrajectory
    summary: dict[str, Any]


def excite(task: Task, config: ExcitationConfig) -> ExcitationResult:
    """Return an excitation trajectory; IdentificationError if there is none."""
    robot, file = task.robot, task.scene_file
    model = arm.load(file.path, file.root, robot.commanded)
    joints = tuple(scene.names(model, 'joint'))
    if set(joints) != set(robot.commanded):
        raise IdentificationError(
            f'{task.where}: the arm of {robot.name!r} in its scene has the joints '
            f'{", ".join(joints)}, of which {", ".join(robot.commanded)} are commanded: expected '
            'an arm on a fixed base with all joints commanded'
        )
    home = np.array([robot.home[robot.joints.index(name)] for name in joints])
    limits = _limits(task, joints, home, config.share)
    checker = ClearanceChecker(file.path, file.root, joints, home, config.clearance_m)
    inner = motion_limits(limits)
    ramp_s = ramp_duration(limits)
    if ramp_s >= config.periods * config.period_s:
        raise IdentificationError(
            f'--period: found {config.period_s:g} s, but this arm needs {ramp_s:.2g} s to '
            'accelerate: use a longer period'
        )
    violations = []

    def clear(motion: FourierMotion) -> bool:
        course = plan_trajectory(home, motion, 1, limits)
        violation = checker.first_violation(_sample(course)[0])
        violations.extend([violation] if violation else [])
        return violation is None

    prior = typical_prior(model)
    try:
        motion = optimize_motion(
            model, inner, config.period_s, prior, np.random.default_rng(config.seed),
            config.trials, clear,
        )  # fmt: skip
    except IdentificationError:
        if not violations:  # the error has another cause
            raise
        first, second = max(violations, key=violations.count)
        raise IdentificationError(
            f'--range {config.share:g}: no motion without collision: most come within '
            f'{config.clearance_m:g} m of {first!r} and {second!r}: use a smaller --range or '
            '--clearance, or remove the obstacle'
        ) from None
    trajectory = plan_trajectory(home, motion, config.periods, limits)
    rng = np.random.default_rng(config.seed)
    drawn = random_motion(inner, config.period_s, rng)
    demands = _peak_demands(model, joints, _sample(trajectory))
    _check_efforts(task, demands['torque'])
    summary = {
        'duration_s': trajectory.duration_s,
        'at_random': _information_summary(model, drawn, prior),
        'chosen': _information_summary(model, motion, prior),
        **demands,
        'near_at_home': ', '.join(' - '.join(p) for p in sorted(checker.near_at_home)) or 'none',
    }
    return ExcitationResult(joints, trajectory, summary)


def _sample(trajectory: ExcitationTrajectory) -> Array:
    """Return the states (3, n, nv) along a trajectory."""
    times = np.arange(0.0, trajectory.duration_s, _CHECK_STEP_S)
    return sample_trajectory(trajectory, times)


def typical_prior(model: mujoco.MjModel) -> tuple[Array, Array]:
    """Return the noise of torques (nv,), and the spread (12 B,) of typical bodies."""
    spread = PRIOR.spread()
    spread[ARMATURE] = 0.0  # the motion is for the bodies
    return np.full(model.nv, _TORQUE_SD), np.tile(spread, model.nbody - 1)


def _limits(task: Task, joints: tuple[str, ...], home: Array, share: float) -> MotionLimits:
    robot, limits = task.robot, task.robot.limits
    order = [robot.commanded.index(name) for name in joints]
    lower, upper = (np.array(row)[order] for row in (limits.position.lower, limits.position.upper))
    return MotionLimits(
        home + share * (lower - home),
        home + share * (upper - home),
        robot.dynamics_factor * np.array(limits.velocity)[order],
        robot.dynamics_factor * np.array(limits.acceleration)[order],
    )


def _information_summary(
    model: mujoco.MjModel, motion: FourierMotion, prior: tuple[Array, Array]
) -> dict[str, float | int]:
    """Return information and conditioning of one period of a motion."""
    rows = scaled_regressor(model, motion, *prior, _SHOWN_SAMPLES)
    sizes = np.linalg.svd(rows, compute_uv=False)
    shown = sizes[sizes > _RANK * sizes[0]]
    return {
        'information_nats': information(model, motion, *prior),
        'parameters_shown': len(shown),
        'condition_number': float(shown[0] / shown[-1]),
    }


def _peak_demands(
    model: mujoco.MjModel, joints: tuple[str, ...], states: Array
) -> dict[str, dict[str, float]]:
    rows = [states[1], states[2], arm.motion_torques(model, states)]
    return {
        key: dict(zip(joints, np.abs(values).max(axis=0).tolist(), strict=True))
        for key, values in zip(('velocity', 'acceleration', 'torque'), rows, strict=True)
    }


def _check_efforts(task: Task, torque: dict[str, float]) -> None:
    """Raise if the motion exceeds the effort limits of the robot, where known."""
    for name, limit in zip(task.robot.commanded, task.robot.limits.effort, strict=False):
        if torque[name] > limit:
            raise IdentificationError(
                f'joint {name!r}: this motion needs {torque[name]:.3g} N m (or N), the limit is '
                f'{limit:g}: use a smaller --range, or a smaller dynamics_factor of the robot'
            )
