"""
Positions of joints in depth images, by the same inverse rendering as poses of free parts.

The equations of all parts are projected on the few coordinates of their joints, so that what one
part does not show, another one does, and parts stay on their joints.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.tracking import equations, fitting, tracker
from emppi_ros.tracking.equations import Displacement, PoseEquations
from emppi_ros.tracking.fitting import Evidence, PartEquations
from emppi_ros.tracking.jointed_parts import JointedParts, JointedPoses
from emppi_ros.tracking.parts import TrackedParts
from emppi_ros.tracking.tracker import TRACKED, PartEstimate

_LEAST_M, _LEAST_RAD = 1e-5, 1e-5  # standard deviations of poses: none is exact


class JointState(NamedTuple):
    """
    What the tracker of joints remembers from one image to the next.

    Attributes
    ----------
    time : float
        Of the last image [s]; NaN before the first.
    qpos : (nq,) array
        Positions of the joints.
    velocity : (k,) array
        Of the coordinates.

    """

    time: float
    qpos: Array
    velocity: Array


class JointEstimate(NamedTuple):
    """
    Positions of joints in one image.

    Attributes
    ----------
    qpos : (nq,) array
        Positions of the joints.
    covariance : (k, k) array
        Of the coordinates.
    parts : list of PartEstimate
        Poses of the parts.

    """

    qpos: Array
    covariance: Array
    parts: list[PartEstimate]


class _JointedFit(NamedTuple):
    """Joints that were fitted to an image."""

    qpos: Array
    places: JointedPoses
    found: list[PartEquations | None]
    evidence: Evidence


def start(jointed: JointedParts, qpos: Array | None = None) -> JointState:
    """Return the state before the first image, at rest; by default where the model starts."""
    qpos = jointed.model.qpos0.copy() if qpos is None else qpos
    return JointState(np.nan, qpos, np.zeros(len(jointed.free)))


def track(
    tracked: TrackedParts,
    jointed: JointedParts,
    state: JointState,
    time: float,
    image: Array,
    mask: Bools | None = None,
) -> tuple[JointState, JointEstimate]:
    """
    Return the state and the estimate after an image, as `tracker.track` does for free parts.

    If no part is tracked, the joints stay where they were.
    """
    image = tracker.prepare(tracked, state.time, time, image, mask)
    dt = 0.0 if np.isnan(state.time) else time - state.time
    guess = jointed.moved(state.qpos, dt * state.velocity)
    fitted = _fit_from(tracked, jointed, guess, image)
    status = tracker.judge(tracked, fitted.evidence)
    step = _solve(tracked, fitted.places, fitted.found, fitted.evidence.scale)
    estimate = JointEstimate(fitted.qpos, step.covariance, _parts(fitted, step, status))
    if TRACKED not in status:
        return JointState(time, state.qpos, np.zeros_like(state.velocity)), estimate
    velocity = np.zeros_like(state.velocity)
    if dt > 0.0:
        velocity = step.seen @ jointed.step_between(state.qpos, fitted.qpos) / dt
    return JointState(time, fitted.qpos, velocity), estimate


def _fit_from(
    tracked: TrackedParts, jointed: JointedParts, guess: Array, image: Array
) -> _JointedFit:
    """Return the fit from a guess; joints are aligned first if that fits better."""
    fitted = _fit(tracked, jointed, guess, image)
    bad = tracker.fits_badly(fitted.evidence)
    if not bad.any() or not tracked.settings.alignment_steps:
        return fitted
    aligned = _align(tracked, jointed, guess, image)
    wide = _fit(tracked, jointed, aligned, image, tracker.FARTHER)
    other = _fit(tracked, jointed, wide.qpos, image)
    better = tracker.quality(other.evidence, bad) > tracker.quality(fitted.evidence, bad)
    return other if better else fitted


def _fit(
    tracked: TrackedParts, jointed: JointedParts, qpos: Array, image: Array, farther: int = 1
) -> _JointedFit:
    """Return the joints after Gauss-Newton steps, as `fitting.fit` does for free parts."""
    moved = np.inf
    for i in range(tracked.settings.iterations + 1):
        places = jointed.places(qpos)
        shown = fitting.linearize(tracked, places.poses, image, i, farther)
        if fitting.is_last(tracked, i, moved):
            break
        qpos, moved = _move(tracked, jointed, qpos, places, shown.equations)
    return _JointedFit(qpos, places, shown.equations, fitting.assess(tracked, image, shown))


def _align(tracked: TrackedParts, jointed: JointedParts, qpos: Array, image: Array) -> Array:
    """Return the joints after steps of alignment, as `fitting.align` does for free parts."""
    reach = tracked.settings.reach_m
    points, sd = fitting.foreground(tracked, jointed.places(qpos).poses, image, reach)
    for i in range(tracked.settings.alignment_steps if len(points) else 0):
        places = jointed.places(qpos)
        nearer = reach * fitting.NARROWER**i
        found = fitting.alignment_equations(tracked, places.poses, points, sd, nearer)
        qpos, moved = _move(tracked, jointed, qpos, places, found)
        if moved < fitting.ALIGNED:
            break
    return qpos


def _move(
    tracked: TrackedParts, jointed: JointedParts, qpos: Array, places: JointedPoses,
    found: Sequence[PartEquations | None],
) -> tuple[Array, float]:  # fmt: skip
    """Return the joints after a step, and how far it moved the surface of any part [m]."""
    step = _solve(tracked, places, found, np.ones(len(found))).step
    return jointed.moved(qpos, step), float(_surface_motion(tracked, places, step[:, None]).max())


def _solve(
    tracked: TrackedParts, places: JointedPoses, found: Sequence[PartEquations | None],
    scale: Array,
) -> Displacement:  # fmt: skip
    """Return the step of the coordinates; `scale` (B,) is the squared noise of the parts."""
    count = places.jacobian.shape[-1]
    known, step = (
        np.zeros((count, count)),
        PoseEquations(np.zeros((count, count)), np.zeros(count)),
    )
    for slopes, one, noise in zip(places.jacobian, found, scale, strict=True):
        if one is not None:
            known += slopes.T @ one.known @ slopes / noise
            step = step + PoseEquations(
                slopes.T @ one.step.information @ slopes, slopes.T @ one.step.gradient
            )
    moved = _surface_motion(tracked, places, np.eye(count)).max(axis=0)
    basis = np.diag(1.0 / np.where(moved > 0.0, moved, 1.0))
    radius = min(shape.radius for shape in tracked.shapes)
    return equations.solve_along(step, known, basis, radius)


def _surface_motion(tracked: TrackedParts, places: JointedPoses, steps: Array) -> Array:
    """Return how far the surfaces of parts move (B, n) [m] by steps of the coordinates (k, n)."""
    result = []
    for part, shape in enumerate(tracked.shapes):
        centre = places.poses.rotation[part] @ shape.centre
        from_origin = np.linalg.inv(equations.centred(centre, shape.radius))
        result.append(np.linalg.norm(from_origin @ places.jacobian[part] @ steps, axis=0))
    return np.array(result)


def _pose_covariances(fitted: _JointedFit, step: Displacement) -> Array:
    """
    Return the covariances (B, 6, 6) of the poses.

    An error of where the joints are moves the parts, less what the coordinates make up for.
    """
    count = len(fitted.found)
    slopes = fitted.places.jacobian.reshape(6 * count, -1)
    weights = np.zeros((6 * count, 6 * count))
    for part, one in enumerate(fitted.found):
        if one is not None:
            own = slice(6 * part, 6 * part + 6)
            weights[own, own] = one.known / fitted.evidence.scale[part]
    seen = step.seen @ step.covariance @ step.seen.T
    rest = np.eye(6 * count) - slopes @ seen @ slopes.T @ weights
    total = slopes @ step.covariance @ slopes.T + rest @ fitted.places.covariance @ rest.T
    least = np.diag([_LEAST_M**2] * 3 + [_LEAST_RAD**2] * 3)
    blocks = total.reshape(count, 6, count, 6)
    return np.array([blocks[part, :, part] + least for part in range(count)])


def _parts(fitted: _JointedFit, step: Displacement, status: Sequence[str]) -> list[PartEstimate]:
    """Return the poses of the parts."""
    position, rotation = fitted.places.poses
    covariance = _pose_covariances(fitted, step)
    return [
        PartEstimate(
            position[part], rotation[part], covariance[part], what,
            float(fitted.evidence.fits[part]),
        )
        for part, what in enumerate(status)
    ]  # fmt: skip
