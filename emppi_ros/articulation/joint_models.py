"""
Types of joints: poses of a child in its parent at given joint positions, and their residuals.

A joint has a frame in the parent, whose z axis is the axis of the joint (the normal of a planar
one), and a pose of the child in that frame at joint position 0. All functions broadcast leading
axes, so that many candidates are compared at once.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import ndimage

from emppi_ros.articulation import rigid_motion
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.pose import Poses

DOF = {'static': 0, 'prismatic': 1, 'revolute': 1, 'screw': 1, 'planar': 3}
AXIAL = ('prismatic', 'revolute', 'screw')
FREE = 'free'  # any motion: it has no parameters
FLIP = Poses(np.zeros(3), np.diag([1.0, -1.0, -1.0]))  # turns an axis over
_STEPS = 3  # Gauss-Newton steps for the joint position of a frame
_RIDGE = 1e-9
_CLEAR_TURN = 6.0  # standard deviations of the height, above which turns of a screw are counted
_SMOOTHED = 9  # frames, for the count of turns


class JointModel(NamedTuple):
    """A joint between two bodies."""

    kind: str  # a type of `DOF`
    frame: Poses  # joint frame in the parent
    child: Poses  # child in the joint frame at joint position 0
    pitch: Array  # (...), translation along the axis per angle [m/rad]; 0 but for a screw

    @property
    def axis(self) -> Array:
        """The unit vector (..., 3) of the axis in the parent."""
        return self.frame.rotation[..., :, 2]

    def at(self, index: Any) -> 'JointModel':
        """Return some of several joints: an index or a mask."""
        places = self.frame.at(index), self.child.at(index)
        return JointModel(self.kind, *places, self.pitch[index])


class Observations(NamedTuple):
    """Relative poses of two bodies in T frames in which both were seen."""

    poses: Poses  # child in the frame of its parent
    # (T, 6, 6): takes displacements of the child, in the frame of its parent, to units of noise
    whitening: Array
    dimensions: Array  # (T,), directions that were measured: 6, or 3 without rotations
    oriented: bool  # whether rotations were measured at all

    @property
    def position_sd(self) -> float:
        """Typical noise of positions, per axis [m]."""
        square = np.sum(self.whitening[:, :, :3] ** 2, axis=1)
        return float(1.0 / np.sqrt(np.median(square)))

    def at(self, index: Any) -> 'Observations':
        """Return some of the frames: an index, a slice or a mask."""
        chosen = self.whitening[index], self.dimensions[index]
        return Observations(self.poses.at(index), *chosen, self.oriented)


class PoseResiduals(NamedTuple):
    """Displacements from the model to the measured poses, in units of their noise."""

    values: Array  # (..., T, 6), whitened displacements
    to_noise: Array  # (..., T, 6, 6): takes twists that move the child to whitened displacements
    twist: Array  # (..., T, 6), from the model to the measured poses
    directions: Array  # (..., T, 6, k), twists in the parent that the joint allows

    @property
    def squares(self) -> Array:
        """The squared Mahalanobis distance (..., T) of each frame."""
        return np.sum(self.values**2, axis=-1)

    def slope(self, twists: Array) -> Array:
        """Return derivatives (..., T, 6, n) of the values by twists of the model, likewise."""
        lie = rigid_motion.bracket(self.twist)
        once = lie @ twists
        return -self.to_noise @ (twists + 0.5 * once + lie @ once / 12.0)

    def where(self, better: Bools, other: 'PoseResiduals') -> 'PoseResiduals':
        """Return these residuals in the frames `better` (..., T), others elsewhere."""
        vectors, matrices = better[..., None], better[..., None, None]
        chosen = (vectors, matrices, vectors, matrices)  # of the four fields
        return PoseResiduals(*map(np.where, chosen, self, other))


def motion(model: JointModel, q: Array) -> Poses:
    """Return the motions in the joint frame at joint positions (..., T, k)."""
    position, angle = np.zeros((*q.shape[:-1], 3)), np.zeros(q.shape[:-1])
    if model.kind == 'prismatic':
        position[..., 2] = q[..., 0]
    elif model.kind in ('revolute', 'screw'):
        angle = q[..., 0]
        position[..., 2] = model.pitch[..., None] * angle
    elif model.kind == 'planar':
        position[..., :2], angle = q[..., :2], q[..., 2]
    return Poses(position, rigid_motion.rotations_about_z(angle))


def predict(model: JointModel, q: Array) -> Poses:
    """Return the poses of the child in its parent at joint positions (..., T, k)."""
    frame, child = _over_frames(model)
    return frame @ (motion(model, q) @ child)


def residuals(model: JointModel, q: Array, seen: Observations) -> PoseResiduals:
    """Return the residuals of measured poses (T) at joint positions (..., T, k)."""
    expected = predict(model, q)
    frame, _ = _over_frames(model)
    allowed = rigid_motion.adjoint(frame) @ directions(model, q)
    if seen.oriented:
        off = seen.poses @ expected.inverse()
        twist = rigid_motion.log(off)
        to_noise = seen.whitening @ rigid_motion.shift(seen.poses.position)
        return PoseResiduals(
            np.einsum('...ij,...j->...i', to_noise, twist), to_noise, twist, allowed
        )
    apart = np.zeros((*q.shape[:-1], 6))
    apart[..., :3] = seen.poses.position - expected.position
    to_noise = seen.whitening @ rigid_motion.shift(expected.position)
    to_noise[..., :, 3:] -= seen.whitening[..., :, 3:]  # no effect of rotations as such
    values = np.einsum('...ij,...j->...i', seen.whitening, apart)
    return PoseResiduals(values, to_noise, np.zeros_like(apart), allowed)


def fit_positions(model: JointModel, seen: Observations) -> tuple[Array, PoseResiduals]:
    """Return the joint positions (..., T, k) that fit measured poses best, and the residuals."""
    first, *others = guess_positions(model, seen)
    q, best = improve_positions(model, first, seen)
    for guess in others:
        other, found = improve_positions(model, guess, seen)
        better = found.squares < best.squares
        q, best = np.where(better[..., None], other, q), found.where(better, best)
    return q, best


def improve_positions(
    model: JointModel, q: Array, seen: Observations, steps: int = _STEPS
) -> tuple[Array, PoseResiduals]:
    """Return better joint positions after a few Gauss-Newton steps, and their residuals."""
    found = residuals(model, q, seen)
    if q.shape[-1] == 0:
        return q, found
    for _ in range(steps):
        new = q - solve_positions(found.slope(found.directions), found.values[..., None])[..., 0]
        tried = residuals(model, new, seen)
        better = tried.squares < found.squares
        q, found = np.where(better[..., None], new, q), tried.where(better, found)
        if not better.any():
            break
    return q, found


def solve_positions(slope: Array, values: Array) -> Array:
    """Return least-squares solutions (..., T, k, n) for slopes (..., T, 6, k) of each frame."""
    turned = np.swapaxes(slope, -1, -2)
    if slope.shape[-1] == 1:
        square = np.sum(slope**2, axis=-2, keepdims=True) + _RIDGE
        return (turned @ values) / square
    normal = turned @ slope + _RIDGE * np.eye(slope.shape[-1])
    return np.asarray(np.linalg.solve(normal, turned @ values), np.float64)


def guess_positions(model: JointModel, seen: Observations) -> list[Array]:
    """Return first guesses (..., T, k) of joint positions: from rotations, and from positions."""
    frame, child = _over_frames(model)
    inside = frame.inverse() @ seen.poses
    height = inside.position[..., 2] - child.position[..., 2]
    if model.kind == 'static':
        return [np.zeros((*height.shape, 0))]
    if model.kind == 'prismatic':
        return [height[..., None]]
    turned = inside.rotation @ np.swapaxes(child.rotation, -1, -2)
    by_rotation = np.arctan2(
        turned[..., 1, 0] - turned[..., 0, 1], turned[..., 0, 0] + turned[..., 1, 1]
    )
    if model.kind == 'planar':
        turns = rigid_motion.rotations_about_z(by_rotation)
        moved = np.einsum('...ij,...j->...i', turns, child.position)
        xy = inside.position[..., :2] - moved[..., :2]
        return [np.concatenate([xy, by_rotation[..., None]], axis=-1)]
    by_position = np.arctan2(inside.position[..., 1], inside.position[..., 0]) - np.arctan2(
        child.position[..., 1], child.position[..., 0]
    )
    # in the same turn: with several, noise along a screw would choose among them
    by_position += 2.0 * np.pi * np.round((by_rotation - by_position) / (2.0 * np.pi))
    guesses = [by_rotation, by_position] if seen.oriented else [by_position]
    if model.kind == 'screw':
        guesses = [_add_turns(one, height, model.pitch[..., None], seen) for one in guesses]
    return [one[..., None] for one in guesses]


def _add_turns(angle: Array, height: Array, pitch: Array, seen: Observations) -> Array:
    """Return angles with the whole turns that heights show, smoothed so that noise adds none."""
    clear = 2.0 * np.pi * np.abs(pitch) > _CLEAR_TURN * seen.position_sd
    safe = np.where(clear, pitch, np.inf)
    size = (*(1,) * (height.ndim - 1), _SMOOTHED)
    smooth = ndimage.median_filter(height, size, mode='nearest')
    return angle + 2.0 * np.pi * np.round((smooth / safe - angle * clear) / (2.0 * np.pi))


def derivatives(model: JointModel, q: Array) -> Array:
    """
    Return twists (T, 6, P) in the parent from changes of the joint.

    P are a twist of the joint frame in the parent (6), one of the child in the joint frame (6),
    and for a screw its pitch.
    """
    frame, _ = _over_frames(model)
    own = rigid_motion.adjoint(frame @ motion(model, q))
    parts = [np.broadcast_to(np.eye(6), own.shape), own]
    if model.kind == 'screw':
        along = np.zeros((*own.shape[:-1], 1))
        along[..., :3, 0] = model.axis[..., None, :] * q
        parts.append(along)
    return np.concatenate(parts, axis=-1)


def changed(model: JointModel, step: Array) -> JointModel:
    """Return the joint after a step (P,) along `derivatives`."""
    frame = rigid_motion.exp(step[:6]) @ model.frame
    child = rigid_motion.exp(step[6:12]) @ model.child
    pitch = model.pitch + step[12] if model.kind == 'screw' else model.pitch
    return JointModel(model.kind, frame, child, pitch)


def with_zero_at(model: JointModel, q: Array) -> JointModel:
    """Return the same joint with position 0 where it was q (k,)."""
    moved = motion(model, q[None]).at(0)
    return model._replace(child=moved @ model.child)


def inverted(model: JointModel) -> JointModel:
    """Return the joint with parent and child exchanged; joint positions stay, but for planar."""
    # the axis turns over, so that joint positions do not
    frame = model.child.inverse() @ FLIP
    child = FLIP @ model.frame.inverse()
    return JointModel(model.kind, frame, child, model.pitch)


def with_axis_convention(model: JointModel) -> tuple[JointModel, float]:
    """Return the joint with its largest component of the axis positive, and the sign of q."""
    axis = model.axis
    if model.kind not in AXIAL or axis[np.argmax(np.abs(axis))] > 0.0:
        return model, 1.0
    return model._replace(frame=model.frame @ FLIP, child=FLIP @ model.child), -1.0


def _over_frames(model: JointModel) -> tuple[Poses, Poses]:
    """Return joint frame and child with an axis of length 1 for the T frames."""
    frame, child = (
        Poses(one.position[..., None, :], one.rotation[..., None, :, :])
        for one in (model.frame, model.child)
    )
    return frame, child


def directions(model: JointModel, q: Array) -> Array:
    """Return the twists (..., T, 6, k) of joint positions in the joint frame."""
    result = np.zeros((*q.shape[:-1], 6, q.shape[-1]))
    if model.kind == 'prismatic':
        result[..., 2, 0] = 1.0
    elif model.kind in ('revolute', 'screw'):
        result[..., 5, 0] = 1.0
        result[..., 2, 0] = model.pitch[..., None]
    elif model.kind == 'planar':
        result[..., 0, 0] = result[..., 1, 1] = result[..., 5, 2] = 1.0
        # a rotation about the point (x, y) of the plane
        result[..., 0, 2], result[..., 1, 2] = q[..., 1], -q[..., 0]
    return result
