"""
Fit one type of joint to the relative poses of two bodies: RANSAC, then robust least squares.

A candidate's score grows with the logarithm of its residuals, so that outliers, and a wrong noise
level, do not matter. Joint positions of all frames are unknowns that are eliminated.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from emppi_ros.articulation import joint_models, rigid_motion
from emppi_ros.articulation.joint_models import AXIAL, DOF, JointModel, Observations
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.pose import Poses

CANDIDATES = 40
_SCORED_FRAMES = 60  # by which candidates are compared
FITTED_FRAMES = 300  # more are thinned out for the parameters; positions are those of all
_REFINED = 2  # candidates
_ROUNDS = 3  # of weights
_ITERATIONS = 12  # of least squares in a round
_ENOUGH = 1e-4  # relative decrease of the cost that ends a round
_UNSEEN_SD = 0.5  # m or rad: directions with more noise do not count as measured
_WIDE = 3.0  # Tukey's weights end at this times the 99 % quantile of squares
INLIER = 0.999  # quantile of squares up to which a frame counts as explained
_LEAST_SCALE = 1e-4
_LEAST_TURN_RAD = float(np.radians(1.0))  # of a hinge from two poses
_INNER = 0.8  # share of frames, without outliers, that show the largest motion


class FittedJoint(NamedTuple):
    """A joint, and how well it explains the frames."""

    model: JointModel
    q: Array  # (T, k), joint positions, m and rad
    squares: Array  # (T,), squared Mahalanobis distances of the frames
    scale: float  # squared noise in units of the given covariances, a robust estimate
    # (P, P), of the changes of `joint_models.derivatives`, with the given covariances
    information: Array
    values: Array  # (T, 6), whitened residuals
    spread: Array  # (T,), standard deviation of the position (geometric mean of k), at scale 1

    @property
    def parameters(self) -> int:
        """Number of parameters that the frames determine: to better than 1 m or 1 rad."""
        return int(np.sum(np.linalg.eigvalsh(self.information) > 1.0))

    def inliers(self, dimensions: Array) -> Bools:
        """Return which frames (T,) the joint explains."""
        freedom = np.maximum(dimensions - DOF[self.model.kind], 1)
        return self.squares <= self.scale * stats.chi2.ppf(INLIER, freedom)


def observe(poses: Poses, covariance: Array) -> Observations:
    """Return observations from relative poses (T) and their covariances (T, 6, 6)."""
    # as continuous over time as covariances are, which eigenvectors are not
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    measured = np.sum(np.linalg.eigvalsh(covariance) < _UNSEEN_SD**2, axis=-1)
    oriented = bool(np.any(measured > 3))
    return Observations(poses, whitening, measured.astype(np.float64), oriented)


def fit(kind: str, seen: Observations, rng: np.random.Generator) -> FittedJoint | None:
    """Return the best joint of a type; None if no candidate exists, as of frames at one place."""
    count = len(seen.dimensions)
    some, few = (
        seen.at(np.linspace(0, count - 1, min(count, most)).astype(int))
        for most in (FITTED_FRAMES, _SCORED_FRAMES)
    )
    candidates = propose(kind, some, rng)
    if candidates is None:
        return None
    _, found = joint_models.fit_positions(candidates, few)
    score = np.sum(np.log1p(found.squares / (5.0 * few.dimensions)), axis=-1)  # robust
    refined = [
        evaluate(refine(candidates.at(int(index)), some), seen)
        for index in np.argsort(score)[:_REFINED]
    ]
    scale = max(min(one.scale for one in refined), 1.0)
    return min(refined, key=lambda one: float(np.sum(truncated(one.squares / scale, seen))))


def evaluate(model: JointModel, seen: Observations) -> FittedJoint:
    """Return how well a given joint explains all frames."""
    q, found = joint_models.fit_positions(model, seen)
    scale, weights = _scale_and_weights(found, seen, DOF[model.kind])
    slope, own = found.slope(joint_models.derivatives(model, q)), found.slope(found.directions)
    normal, _ = _reduced(slope, own, found.values, weights)
    spread = np.linalg.det(np.swapaxes(own, -1, -2) @ own) + 1e-12
    spread = spread ** (-0.5 / max(DOF[model.kind], 1))
    return FittedJoint(model, q, found.squares, scale, normal, found.values, spread)


def refine(model: JointModel, seen: Observations) -> JointModel:
    """Return the joint after robust least squares."""
    for _ in range(_ROUNDS):
        q, found = joint_models.fit_positions(model, seen)
        _, weights = _scale_and_weights(found, seen, DOF[model.kind])
        model, moved = _least_squares(model, q, seen, weights)
        if moved < _ENOUGH:
            break
    return model


def truncated(squares: Array, seen: Observations) -> Array:
    """Return squares (T,), in units of the noise, of which those of outliers are all the same."""
    return np.minimum(squares, 2.0 * stats.chi2.ppf(INLIER, seen.dimensions))


def inverted(joint: FittedJoint) -> FittedJoint:
    """Return a fitted joint with parent and child exchanged; its residuals stay the same."""
    model = joint.model
    # a twist of the new joint frame is one of the old child, and the other way round
    turn = np.zeros(joint.information.shape)
    turn[6:12, :6] = -rigid_motion.adjoint(model.child)
    turn[:6, 6:12] = -rigid_motion.adjoint(model.frame @ joint_models.FLIP)
    turn[12:, 12:] = np.eye(len(turn) - 12)
    return joint._replace(
        model=joint_models.inverted(model), information=turn.T @ joint.information @ turn
    )


def covariance(joint: FittedJoint, scale: float = 1.0) -> Array:
    """
    Return the covariance (12, 12) of two motions of a joint, without that of the pitch of a screw.

    The first is a twist of the joint in the frame of its parent, the second one of the child on
    its joint, in the frame of the child. Motions along the joint, which its position makes up for,
    have no variance.
    """
    found = scale * np.linalg.pinv(joint.information, rcond=1e-10, hermitian=True)[:12, :12]
    turn = np.eye(12)
    turn[6:, 6:] = rigid_motion.adjoint(joint.model.child.inverse())
    return turn @ found @ turn.T


def uncertainty(joint: FittedJoint, scale: float = 1.0) -> tuple[float, float]:
    """
    Return the standard deviations of axis [rad] and pivot [m], NaN if there is none.

    That of the axis is the root mean square of the angle; that of the pivot is the root mean
    square of the distance of the axis at the joint frame, across it.
    """
    kind = joint.model.kind
    if kind not in AXIAL:
        return float('nan'), float('nan')
    covariance = scale * np.linalg.pinv(joint.information, rcond=1e-10, hermitian=True)[:6, :6]
    axis, origin = joint.model.axis, joint.model.frame.position
    turn = np.zeros((3, 6))
    turn[:, 3:] = -rigid_motion.skew(axis)
    move = np.concatenate([np.eye(3), -rigid_motion.skew(origin)], axis=1)
    across = np.eye(3) - np.outer(axis, axis)
    moved = across @ move
    axis_sd = float(np.sqrt(np.trace(turn @ covariance @ turn.T)))
    pivot_sd = float(np.sqrt(np.trace(moved @ covariance @ moved.T)))
    return axis_sd, pivot_sd if kind != 'prismatic' else float('nan')


def _least_squares(
    model: JointModel, q: Array, seen: Observations, weights: Array
) -> tuple[JointModel, float]:
    """Return the joint after Levenberg-Marquardt, and the relative decrease of its cost."""
    found = joint_models.residuals(model, q, seen)
    basis = _about_child(model)
    first = cost = float(np.sum(weights * found.squares))
    damping = 1e-4
    for _ in range(_ITERATIONS):
        slope, own = found.slope(joint_models.derivatives(model, q)), found.slope(found.directions)
        normal, gradient = _reduced(slope @ basis, own, found.values, weights)
        ridge = damping * (np.diag(normal) + 1.0) + 1e-6
        step = -basis @ np.linalg.solve(normal + np.diag(ridge), gradient)
        tried = joint_models.changed(model, step)
        error = (found.values + slope @ step)[..., None]
        moved = q - joint_models.solve_positions(own, error)[..., 0]
        new_q, new = joint_models.improve_positions(tried, moved, seen, 1)
        new_cost = float(np.sum(weights * new.squares))
        if new_cost < cost:
            done = cost - new_cost < 0.1 * _ENOUGH * cost
            model, q, found, cost = tried, new_q, new, new_cost
            damping = max(0.1 * damping, 1e-9)
            if done:
                break
        else:
            damping *= 10.0
            if damping > 1e4:  # noqa: PLR2004  (steps are zero)
                break
    return model, (first - cost) / max(first, 1e-12)


def _about_child(model: JointModel) -> Array:
    """Return the parameters (P, P) by twists about the child, which are hardly correlated."""
    child = model.frame @ model.child
    basis = np.eye(13 if model.kind == 'screw' else 12)
    basis[:6, :6] = rigid_motion.shift(-child.position)
    basis[6:12, 6:12] = rigid_motion.shift(-model.child.position)
    return basis


def _reduced(slope: Array, own: Array, values: Array, weights: Array) -> tuple[Array, Array]:
    """Return normal matrix (P, P) and gradient (P,) without the joint positions."""
    column = values[..., None]
    rest = slope - own @ joint_models.solve_positions(own, slope)
    error = column - own @ joint_models.solve_positions(own, column)
    turned = np.swapaxes(rest, -1, -2) * weights[:, None, None]
    return np.sum(turned @ rest, axis=0), np.sum(turned @ error, axis=0)[:, 0]


def _scale_and_weights(
    found: joint_models.PoseResiduals, seen: Observations, dof: int
) -> tuple[float, Array]:
    """Return the noise level, from the median of squares, and Tukey's weights (T,) of frames."""
    freedom = max(float(np.median(seen.dimensions)) - dof, 1.0)
    scale = max(float(np.median(found.squares) / stats.chi2.median(freedom)), _LEAST_SCALE)
    ratio = found.squares / (_WIDE * max(scale, 1.0) * stats.chi2.ppf(0.99, seen.dimensions))
    return scale, np.where(ratio < 1.0, (1.0 - ratio) ** 2, 0.0)


def propose(kind: str, seen: Observations, rng: np.random.Generator) -> JointModel | None:
    """Return candidates (M) of a type from frames drawn at random, or None."""
    count = len(seen.dimensions)
    draws = np.array([rng.choice(count, 3, replace=False) for _ in range(CANDIDATES)])
    first, second, third = (seen.poses.at(draws[:, i]) for i in range(3))
    pitch, valid = np.zeros(CANDIDATES), np.ones(CANDIDATES, bool)
    if kind == 'static':
        frame = Poses(first.position, np.broadcast_to(np.eye(3), (CANDIDATES, 3, 3)))
    elif kind == 'prismatic':
        chord = second.position - first.position
        frame = _frames(chord, first.position)
        valid = np.linalg.norm(chord, axis=1) > 1e-4  # noqa: PLR2004
    else:
        # half of the candidates from two poses, half from three positions
        twist = rigid_motion.log(second @ first.inverse())
        centre, normal, round_ = _circles(first.position, second.position, third.position)
        by_circle = np.arange(CANDIDATES) % 2 == 1
        if kind == 'planar':
            normal = np.where(by_circle[:, None], normal, twist[:, 3:])
            frame = _frames(normal, first.position)
            valid = np.linalg.norm(normal, axis=1) > 1e-6  # noqa: PLR2004
        else:
            least = np.full(CANDIDATES, _LEAST_TURN_RAD)
            if seen.oriented:  # whatever its size
                middle = seen.poses.at(count // 2)
                first.position[0], first.rotation[0] = middle.position, middle.rotation
                twist[0], least[0] = _principal_twist(seen, middle), 0.0
            angle = np.linalg.norm(twist[:, 3:], axis=1)
            safe = np.maximum(angle, 1e-6)[:, None]
            if kind == 'screw':
                pitch = np.sum(twist[:, :3] * twist[:, 3:], axis=1) / safe[:, 0] ** 2
            pivot = np.cross(twist[:, 3:], twist[:, :3]) / safe**2
            pivot = np.where(by_circle[:, None], centre, pivot)
            against = np.sum(normal * twist[:, 3:], axis=1)[:, None] < 0.0
            axis = np.where(against, -normal, normal)
            axis = np.where(by_circle[:, None], axis, twist[:, 3:] / safe)
            is_unit = np.linalg.norm(axis, axis=1)[:, None] > 0.5  # noqa: PLR2004
            axis = np.where(is_unit, axis, [0.0, 0.0, 1.0])
            along = np.sum(axis * (first.position - pivot), axis=1)[:, None]
            frame = _frames(axis, pivot + axis * along)  # near the child
            valid = np.where(by_circle, round_, angle > least)
    if not valid.any():
        return None
    return JointModel(kind, frame, frame.inverse() @ first, pitch).at(valid)


def _principal_twist(seen: Observations, middle: Poses) -> Array:
    """Return the twist (6,) along which poses vary most in units of noise, to first order."""
    at_child = rigid_motion.shift(middle.position)
    moved = rigid_motion.log(seen.poses @ middle.inverse()) @ at_child.T
    moved -= np.median(moved, axis=0)
    information = np.einsum('tij,tik->jk', seen.whitening, seen.whitening) / len(moved)
    root = np.linalg.cholesky(information)
    values = moved @ root
    size = np.sum(values**2, axis=1)
    _, _, directions = np.linalg.svd(values[size <= np.quantile(size, _INNER)])
    twist = np.linalg.solve(at_child, np.linalg.solve(root.T, directions[0]))
    return np.asarray(twist, np.float64)


def _frames(axes: Array, origins: Array) -> Poses:
    """Return frames (M) at origins with their z axes along given vectors."""
    z = axes / np.maximum(np.linalg.norm(axes, axis=1), 1e-12)[:, None]
    helper = np.eye(3)[np.argmin(np.abs(z), axis=1)]
    x = np.cross(helper, z)
    x /= np.maximum(np.linalg.norm(x, axis=1), 1e-12)[:, None]
    return Poses(origins, np.stack([x, np.cross(z, x), z], axis=-1))


def _circles(a: Array, b: Array, c: Array) -> tuple[Array, Array, Bools]:
    """Return centres, unit normals (M, 3) of circles through three points, and which exist."""
    u, v = b - a, c - a
    normal = np.cross(u, v)
    square = np.sum(normal**2, axis=1)
    valid = square > 1e-10  # noqa: PLR2004  (m^4: not on a line)
    safe = np.where(valid, square, 1.0)[:, None]
    uu, vv = np.sum(u**2, axis=1)[:, None], np.sum(v**2, axis=1)[:, None]
    centre = a + (vv * np.cross(normal, u) - uu * np.cross(normal, v)) / (2.0 * safe)
    return centre, normal / np.sqrt(safe), valid
