"""Poses that the joints of a part allow, nearest to the measured ones, and their noise."""

from collections.abc import Sequence

import numpy as np

from emppi_ros.articulation import joint_models, rigid_motion
from emppi_ros.articulation.joint_models import JointModel
from emppi_ros.articulation.tracks import PartTrack
from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Poses

_RIDGE = 1e-9  # of an information: keeps directions apart that two joints share


def onto_joints(part: PartTrack, chain: Sequence[tuple[JointModel, Array]]) -> PartTrack:
    """
    Return a track whose poses a chain of joints allows, from the world to the part.

    Each joint has its positions (T, k), NaN where it does not explain a frame: there, poses and
    covariances stay as measured. Elsewhere errors across the joints are gone, and the covariance
    is that of least squares along them.
    """
    count = len(part.seen)
    place = Poses(np.zeros((count, 3)), np.broadcast_to(np.eye(3), (count, 3, 3)))
    twists, held = np.zeros((count, 6, 0)), part.seen.copy()
    for model, q in chain:
        held &= np.isfinite(q).all(axis=1)
        known = np.where(np.isfinite(q), q, 0.0)
        allowed = joint_models.directions(model, known)
        turn = rigid_motion.adjoint(place) @ rigid_motion.adjoint(model.frame)
        twists = np.concatenate([twists, turn @ allowed], axis=-1)
        place = place @ joint_models.predict(model, known)
    shift = rigid_motion.shift(place.position)
    moves = shift @ twists
    apart = shift @ rigid_motion.log(part.poses @ place.inverse())[..., None]
    weighed = np.swapaxes(np.linalg.solve(part.covariance, moves), -1, -2)
    left = np.linalg.inv(weighed @ moves + _RIDGE * np.eye(moves.shape[-1]))
    near = rigid_motion.exp((twists @ left @ weighed @ apart)[..., 0]) @ place
    position = np.where(held[:, None], near.position, part.poses.position)
    rotation = np.where(held[:, None, None], near.rotation, part.poses.rotation)
    covariance = moves @ left @ np.swapaxes(moves, -1, -2)
    covariance = np.where(held[:, None, None], covariance, part.covariance)
    return PartTrack(part.name, Poses(position, rotation), covariance, part.seen)
