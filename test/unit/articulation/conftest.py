"""Tracks of parts on known joints."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.articulation import fitting, tracks
from emppi_ros.articulation.tracks import Tracks

AXIS = np.array([0.2, -0.3, 0.9]) / np.linalg.norm([0.2, -0.3, 0.9])
PIVOT = np.array([0.6, 0.2, 0.3])


SD = (0.002, float(np.radians(1.0)))


def part(name, rotation, position, rng, sd=SD, oriented=True):
    """Return the noisy track of a part."""
    count = len(position)
    turned = Rotation.from_rotvec(sd[1] * rng.standard_normal((count, 3))) * rotation
    place = position + sd[0] * rng.standard_normal((count, 3))
    quaternion = turned.as_quat()[:, [3, 0, 1, 2]] if oriented else None
    return tracks.from_arrays(name, place, quaternion)


def on_hinge(q, arm=(0.4, 0.1, 0.0)):
    """Return rotations and positions of a part on a hinge at angles q."""
    turn = Rotation.from_rotvec(np.asarray(q)[:, None] * AXIS)
    return turn * Rotation.from_euler('xyz', [0.1, 0.2, 0.3]), PIVOT + turn.apply(arm)


def on_slide(q):
    """Return rotations and positions of a part on a slide at positions q."""
    rotation = Rotation.from_rotvec(np.zeros((len(q), 3))) * Rotation.from_euler(
        'xyz', [1.0, 0, 0]
    )
    return rotation, PIVOT + np.asarray(q)[:, None] * AXIS


def as_tracks(*parts):
    return Tracks(np.arange(len(parts[0].seen)) / 30.0, parts)


def observe(one):
    poses, covariance, _ = tracks.pair(tracks.world(len(one.seen)), one)
    return fitting.observe(poses, covariance)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
