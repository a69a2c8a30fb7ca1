"""
The type of a joint: the cheapest explanation of the frames, or `undecided`.

The cost is the Bayesian information criterion, with the evidence of the joint position of each
frame and corrections for the errors of real trackers (docs/articulation.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emppi_ros.articulation import fitting
from emppi_ros.articulation.fitting import FittedJoint
from emppi_ros.articulation.joint_models import AXIAL, DOF, Observations
from emppi_ros.core.arrays import Array
from emppi_ros.recordings.noise import correlation_time

# a hinge farther from the child looks like a slide with play, unless it turned by more than a
# slide bends whose deviations are 3 % of its travel
_MAX_RADIUS_M, _LEAST_FAR_TURN_RAD = 1.2, 0.48  # half of it where rotations show it
_LEAST_SCREW_TURN_RAD = float(np.pi)  # of a screw: sag of a hinge looks the same
_MAX_PITCH = 0.05  # m/rad
_SCREW_COST = 9.2  # a screw is rarer than a hinge or a slide: twice the log odds
MARGIN = 6.0  # of costs, below which the type is undecided: odds of 20 to 1
_FARTHEST_HINGE_M = 3.0  # a slide is undecided as long as the motion may be that of a nearer hinge
_UPPER = 1.645  # standard deviations of the bend above it, up to its 95 % bound
_BLOCKS = 10  # of frames, within which a part at rest drifts
_ORDERS, _DRIFTS_BY_CHANCE = 400, 0.01  # of frames, and how many of them drift more by chance
_SECTORS = 24  # of a turn


@dataclass(frozen=True)
class TypeFit:
    """One type of joint for a pair of bodies."""

    joint: FittedJoint  # its best fit
    cost: float  # only differences have a meaning
    reason: str = ''  # why the type is no candidate; '' if it is one


@dataclass(frozen=True)
class Selection:
    """The joint of a pair of bodies."""

    candidates: tuple[str, ...]  # the type; if undecided, all that are possible, cheapest first
    fits: dict[str, TypeFit]  # by type, of all that could be fitted
    scale: float  # squared noise of the frames, in units of their covariances; at least 1
    correlation: float  # correlation time of the residuals, in frames

    @property
    def kind(self) -> str:
        """The type, or `undecided`."""
        return self.candidates[0] if len(self.candidates) == 1 else 'undecided'

    @property
    def best(self) -> FittedJoint:
        """The joint of the cheapest type."""
        return self.fits[self.candidates[0]].joint


def select(seen: Observations, rng: np.random.Generator) -> Selection:
    """Return the type of joint between two bodies, as far as their frames show it."""
    kinds = ['static', 'prismatic', 'revolute'] + ['screw'] * seen.oriented
    found = {kind: fit for kind in kinds if (fit := fitting.fit(kind, seen, rng)) is not None}
    reference = min(found.values(), key=lambda one: one.scale)
    scale = max(reference.scale, 1.0)
    correlation = _correlation(reference.values[reference.inliers(seen.dimensions)])
    squares = {
        kind: float(np.sum(fitting.truncated(joint.squares / scale, seen)))
        for kind, joint in found.items()
    }
    gain = (squares['static'] - min(squares.values())) / len(seen.dimensions)
    fits = {
        kind: TypeFit(
            joint, _cost(joint, seen, squares[kind], gain, correlation), _exclusion(joint, seen)
        )
        for kind, joint in found.items()
    }
    return Selection(_decide(fits, seen, scale * correlation, rng), fits, scale, correlation)


def _decide(
    fits: dict[str, TypeFit], seen: Observations, inflation: float, rng: np.random.Generator
) -> tuple[str, ...]:
    """Return the possible types, the cheapest first."""
    allowed = sorted(
        (kind for kind, fit in fits.items() if not fit.reason), key=lambda kind: fits[kind].cost
    )
    best = fits[allowed[0]].cost
    close = [kind for kind in allowed if fits[kind].cost - best < MARGIN]
    if allowed[0] == 'static' and _drifts(fits['static'].joint, seen, rng):
        close = allowed
    if allowed[0] == 'prismatic' and 'revolute' not in close:
        hinge = fits.get('revolute')
        if _may_be_hinge(fits['prismatic'], hinge, seen, inflation):
            first = hinge is not None and hinge.cost < best
            close = ['revolute', *close] if first else [*close, 'revolute']
    return tuple(close)


def _drifts(static: FittedJoint, seen: Observations, rng: np.random.Generator) -> bool:
    """
    Return whether a part at rest drifts along some direction, more than in frames of random order.

    It may move by less than its noise, or its errors are correlated: these look the same.
    """
    values = static.values[static.inliers(seen.dimensions)]
    values = values - values.mean(axis=0)
    last = np.arange(len(values))
    first = np.maximum(last - max(len(values) // _BLOCKS, 1), 0)

    def drift(moved: Array) -> float:
        """Return the largest sum of products of frames with those shortly before."""
        total = np.concatenate([np.zeros((1, 6)), np.cumsum(moved, axis=0)])
        product = moved.T @ (total[last] - total[first])
        return float(np.linalg.eigvalsh(product + product.T)[-1])

    by_chance = [drift(rng.permutation(values)) for _ in range(_ORDERS)]
    return drift(values) > float(np.quantile(by_chance, 1.0 - _DRIFTS_BY_CHANCE))


def _may_be_hinge(
    slide: TypeFit, hinge: TypeFit | None, seen: Observations, inflation: float
) -> bool:
    """Return whether a slide bends more than its noise, or perhaps as much as a far hinge."""
    bend = 0.0 if hinge is None else 1.0 / _radius(hinge.joint)
    information = _bend_information(slide.joint, seen) / inflation
    if bend + _UPPER / np.sqrt(max(information, 1e-12)) > 1.0 / _FARTHEST_HINGE_M:
        return True
    cheaper = hinge is not None and hinge.cost < slide.cost - MARGIN
    return cheaper and slide.joint.scale > 1.0


def _cost(
    joint: FittedJoint, seen: Observations, squares: float, gain: float, correlation: float
) -> float:
    """
    Return the criterion of a joint with a sum of squares.

    Joint positions are normal, with a mean and a variance that the frames determine. `gain` is
    this variance with that of the noise, in units of the latter.
    """
    kind, count = joint.model.kind, len(seen.dimensions)
    positions = DOF[kind] * count * (1.0 + np.log(max(gain, 1.0)))
    independent = float(np.sum(seen.dimensions)) / correlation
    parameters = (joint.parameters + 2 * DOF[kind]) * np.log(max(independent, 2.0))
    return float(
        (squares + positions) / correlation + parameters + _SCREW_COST * (kind == 'screw')
    )


def _exclusion(joint: FittedJoint, seen: Observations) -> str:
    """Return why a joint is no candidate, or ''."""
    model = joint.model
    if model.kind not in ('revolute', 'screw'):
        return ''
    radius, least = _radius(joint), _LEAST_FAR_TURN_RAD * (0.5 if seen.oriented else 1.0)
    if radius > _MAX_RADIUS_M and (model.kind == 'screw' or travel(joint) < least):
        return f'axis {radius:.2g} m away'
    if model.kind == 'screw':
        turn = _turn(joint)
        if turn < _LEAST_SCREW_TURN_RAD:
            return f'turned {np.degrees(turn):.0f} degrees only'
        if abs(float(model.pitch)) > _MAX_PITCH:
            return f'pitch of {abs(float(model.pitch)):.2g} m/rad'
    return ''


def _radius(joint: FittedJoint) -> float:
    """Return the distance of the child's origin from the axis [m]."""
    return max(float(np.hypot(*joint.model.child.position[:2])), 1e-6)


def travel(joint: FittedJoint) -> float:
    """Return the range of positions of an axis, m or rad, without the outer 2 % on each side."""
    if joint.model.kind not in AXIAL:
        return 0.0 if joint.model.kind == 'static' else float('nan')
    low, high = np.quantile(joint.q[:, 0], [0.02, 0.98])
    return float(high - low)


def _turn(screw: FittedJoint) -> float:
    """Return the angle [rad] that a screw turned, at most one turn: noise may add whole ones."""
    good = screw.inliers(np.array(6.0))
    angles = np.mod(screw.q[good, 0], 2.0 * np.pi)
    counts, _ = np.histogram(angles, _SECTORS, (0.0, 2.0 * np.pi))
    return float(np.sum(counts > 0.01 * np.sum(good)) * 2.0 * np.pi / _SECTORS)


def _bend_information(slide: FittedJoint, seen: Observations) -> float:
    """Return the increase of squares if the slide were a hinge at 1 m [m^2]."""
    q = slide.q[:, 0] - np.median(slide.q[:, 0])
    limit = 2.0 * max(travel(slide), 1e-6)
    q = q[np.abs(q) < limit]
    sagitta = 0.5 * q**2
    line = np.polynomial.polynomial.polyfit(q, sagitta, 1)
    bent = sagitta - np.polynomial.polynomial.polyval(q, line)
    noise = np.median(np.linalg.inv(np.einsum('tij,tik->tjk', seen.whitening, seen.whitening)), 0)
    position, rotation = (np.trace(noise[part, part]) / 3.0 for part in (slice(3), slice(3, 6)))
    return float(np.sum(bent**2) / position + np.sum((q - q.mean()) ** 2) / rotation)


def _correlation(values: Array) -> float:
    """Return the mean correlation time of whitened residuals (T, 6), in frames; at least 1."""
    varying: Sequence[Array] = [one for one in values.T if np.std(one) > 0.1]  # noqa: PLR2004
    times = [correlation_time(one - one.mean()) for one in varying]
    longest = max(len(values) / 10.0, 1.0)
    return float(np.clip(np.mean(times), 1.0, longest)) if times else 1.0
