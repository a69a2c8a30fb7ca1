"""Excitation trajectory for the arm of a task: within limits, and without collisions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body import arm, excitation_trajectory
from emppi_ros.identification.rigid_body.arm import ARMATURE
from emppi_ros.identification.rigid_body.body_posterior import InertialPrior
from emppi_ros.identification.rigid_body.excitation_trajectory import (
    ExcitationTrajectory,
    FourierMotion,
    MotionLimits,
)
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task

_TORQUE_SD = 0.5  # N m, noise of all joints assumed for the optimization
_CHECK_STEP_S, _SAMPLES = 0.01, 100  # of a trajectory; samples per period
_RANK = 1e-8  # relative to the largest singular value: smaller ones are unexcited


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
    inner = excitation_trajectory.motion_limits(limits)
    ramp_s = excitation_trajectory.ramp_duration(limits)
    if ramp_s >= config.periods * config.period_s:
        raise IdentificationError(
            f'--period: found {config.period_s:g} s, but this arm needs {ramp_s:.2g} s to '
            'accelerate: use a longer period'
        )
    violations = []

    def clear(motion: FourierMotion) -> bool:
        course = excitation_trajectory.plan_trajectory(home, motion, 1, limits)
        violation = checker.first_violation(_sample(course)[0])
        violations.extend([violation] if violation else [])
        return violation is None

    prior = typical_prior(model)
    try:
        motion = excitation_trajectory.optimize_motion(
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
    trajectory = excitation_trajectory.plan_trajectory(home, motion, config.periods, limits)
    rng = np.random.default_rng(config.seed)
    drawn = excitation_trajectory.random_motion(inner, config.period_s, rng)
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
    return excitation_trajectory.sample_trajectory(trajectory, times)


def typical_prior(model: mujoco.MjModel) -> tuple[Array, Array]:
    """Return the noise of torques (nv,), and the spread (12 B,) of typical bodies."""
    spread = InertialPrior().spread()
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
    rows = excitation_trajectory.scaled_regressor(model, motion, *prior, _SAMPLES)
    sizes = np.linalg.svd(rows, compute_uv=False)
    shown = sizes[sizes > _RANK * sizes[0]]
    return {
        'information_nats': excitation_trajectory.information(model, motion, *prior),
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
