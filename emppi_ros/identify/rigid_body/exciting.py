"""A motion that shows the bodies of a task's arm: within limits, and clear of all else."""

from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body import arm, course, excitation
from emppi_ros.identify.rigid_body.bodies import Everyday
from emppi_ros.identify.rigid_body.clearance import Surroundings
from emppi_ros.identify.rigid_body.course import Course
from emppi_ros.identify.rigid_body.excitation import Fourier, Limits
from emppi_ros.identify.rigid_body.regressor import regressor
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
TORQUE_SD = 0.5  # N m, of all joints, for the choice of a motion
_LOOK_S, _SAMPLES = 0.01, 100  # of a course, and of a period
_RANK = 1e-8  # of the largest singular value: what no motion shows


class Wanted(NamedTuple):
    """What motion is wanted."""

    period_s: float
    periods: int
    share: float  # of the way from home to the joints' limits
    clearance_m: float
    trials: int
    seed: int


class Excited(NamedTuple):
    """A course, and what is said of it."""

    joints: tuple[str, ...]
    course: Course
    summary: dict[str, Any]


def excite(task: Task, wanted: Wanted) -> Excited:
    """Return a course; IdentificationError if there is none."""
    robot, file = task.robot, task.scene_file
    model = arm.load(file.path, file.root, robot.commanded)
    joints = tuple(scene.names(model, 'joint'))
    if set(joints) != set(robot.commanded):
        raise IdentificationError(
            f'{task.where}: the arm of {robot.name!r} in its scene has the joints '
            f'{", ".join(joints)}, of which {", ".join(robot.commanded)} are commanded: expected '
            'an arm on a fixed base, all of whose hinges and slides are'
        )
    home = np.array([robot.home[robot.joints.index(name)] for name in joints])
    limits = _limits(task, joints, home, wanted.share)
    around = Surroundings(file.path, file.root, joints, home, wanted.clearance_m)
    inner = course.of_motion(limits)
    if course.ramp_of(limits) >= wanted.periods * wanted.period_s:
        raise IdentificationError(
            f'--period: found {wanted.period_s:g} s, but this arm needs '
            f'{course.ramp_of(limits):.2g} s to gather speed: give a longer one'
        )
    met: list[tuple[str, str]] = []

    def clear(motion: Fourier) -> bool:
        one = course.plan(home, motion, 1, limits)
        time = np.arange(0.0, one.duration_s, _LOOK_S)
        found = around.meeting(course.along(one, time)[0])
        met.extend([found] if found else [])
        return found is None

    prior = np.full(model.nv, TORQUE_SD), np.tile(Everyday().spread(), model.nbody - 1)
    rng = np.random.default_rng(wanted.seed)
    try:
        motion = excitation.choose(model, inner, wanted.period_s, prior, rng, wanted.trials, clear)
    except IdentificationError:
        if not met:  # it is about something else
            raise
        first, second = max(met, key=met.count)
        raise IdentificationError(
            f'--range {wanted.share:g}: no motion is clear of everything: most come within '
            f'{wanted.clearance_m:g} m of {first!r} and {second!r}: give a smaller --range or '
            '--clearance, or take away what stands there'
        ) from None
    found = course.plan(home, motion, wanted.periods, limits)
    drawn = excitation.draw(inner, wanted.period_s, np.random.default_rng(wanted.seed))
    summary = {
        'duration_s': found.duration_s,
        'at_random': _told(model, drawn, prior),
        'chosen': _told(model, motion, prior),
        **_needs(model, joints, found),
        'near_at_home': ', '.join(' - '.join(p) for p in sorted(around.near_at_home)) or 'none',
    }
    _check_efforts(task, summary['torque'])
    return Excited(joints, found, summary)


def _limits(task: Task, joints: tuple[str, ...], home: Array, share: float) -> Limits:
    robot, limits = task.robot, task.robot.limits
    order = [robot.commanded.index(name) for name in joints]
    lower, upper, velocity, acceleration = (
        np.array(row)[order]
        for row in (
            limits.position.lower,
            limits.position.upper,
            limits.velocity,
            limits.acceleration,
        )
    )
    used = robot.dynamics_factor
    return Limits(
        home + share * (lower - home),
        home + share * (upper - home),
        used * velocity,
        used * acceleration,
    )


def _told(
    model: mujoco.MjModel, motion: Fourier, prior: tuple[Array, Array]
) -> dict[str, float | int]:
    """Return what a period tells: nats, and of what shows how many numbers, how unevenly."""
    torque_sd, prior_sd = prior
    states = excitation.along(motion, motion.period * np.arange(_SAMPLES) / _SAMPLES)
    rows = regressor(model, *states) * prior_sd / np.tile(torque_sd, _SAMPLES)[:, None]
    sizes = np.linalg.svd(rows, compute_uv=False)
    shown = sizes[sizes > _RANK * sizes[0]]
    return {
        'information_nats': excitation.information(model, motion, *prior),
        'parameters_shown': len(shown),
        'condition_number': float(shown[0] / shown[-1]),
    }


def _needs(
    model: mujoco.MjModel, joints: tuple[str, ...], found: Course
) -> dict[str, dict[str, float]]:
    states = course.along(found, np.arange(0.0, found.duration_s, _LOOK_S))
    torque = arm.torques(model, states)
    most = {'velocity': states[1], 'acceleration': states[2], 'torque': torque}
    return {
        key: dict(zip(joints, np.abs(values).max(axis=0).tolist(), strict=True))
        for key, values in most.items()
    }


def _check_efforts(task: Task, torque: dict[str, float]) -> None:
    """Raise if the scene's arm needs more than its joints have, where that is known."""
    for name, limit in zip(task.robot.commanded, task.robot.limits.effort, strict=False):
        if torque[name] > limit:
            raise IdentificationError(
                f'joint {name!r}: this motion needs {torque[name]:.3g} N m (or N), and has '
                f'{limit:g}: give a smaller --range, or a smaller dynamics_factor of the robot'
            )
