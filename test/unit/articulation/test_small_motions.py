"""Which part carries another one, after motions that are hardly larger than the noise."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.articulation import mjcf, smoothing, topology, tracks
from emppi_ros.articulation.joint_models import JointModel
from emppi_ros.articulation.tracks import Tracks
from emppi_ros.core.pose import Poses

SD_M, SD_RAD = 0.0005, float(np.radians(0.15))  # of a depth camera near to the parts
ARM = np.array([0.22, 0.0, 0.0])  # from the hinge of the frame to that of the bob
COUNT = 100


def about_y(angle):
    """Return rotations about y by angles (T,)."""
    return Rotation.from_rotvec(angle[:, None] * [0.0, 1.0, 0.0])


def noisy(name, angle, place, rng):
    """Return the track of a part that turned about y by angles (T,), at places (T, 3)."""
    turn = Rotation.from_rotvec(SD_RAD * rng.standard_normal((len(angle), 3)))
    turn = turn * about_y(angle)
    place = place + SD_M * rng.standard_normal(place.shape)
    covariance = np.tile(np.diag([SD_M**2] * 3 + [SD_RAD**2] * 3), (len(angle), 1, 1))
    return tracks.from_arrays(name, place, turn.as_quat()[:, [3, 0, 1, 2]], covariance)


def swing(turn_deg, rng, carried=True):
    """Return tracks of a frame that turns by an angle, and of a bob that it carries, or not."""
    time = np.linspace(0.0, 1.0, COUNT)
    frame = np.radians(turn_deg) * np.sin(3.0 * np.pi * time) / 2.0
    bob = 0.7 * np.sin(7.0 * np.pi * time)
    hinge = about_y(frame if carried else 0.0 * frame).apply(ARM)
    hangs = hinge + about_y(bob + carried * frame).apply([0.0, 0.0, -0.1])
    parts = (
        noisy('frame', frame, np.zeros((COUNT, 3)), rng),
        noisy('bob', bob + carried * frame, hangs, rng),
    )
    return Tracks(time, parts)


# the hinge of the bob moves by 4 mm, eight standard deviations of the noise; the whole noise of
# the frame makes the world the cheaper parent with seed 1
@pytest.mark.parametrize('seed', [0, 1])
def test_a_part_hangs_on_the_one_that_carries_it_after_a_motion_of_one_degree(seed):
    tree = topology.infer(swing(1.0, np.random.default_rng(seed)))
    assert (tree.joint('bob').parent, tree.joint('bob').kind) == ('frame', 'revolute')


# the angles of the frame, of 0.25 degrees root mean square, may be noise, but not those of the bob
def test_a_part_is_undecided_if_it_shows_a_motion_of_its_parent_that_is_lost_in_noise():
    tree = topology.infer(swing(0.7, np.random.default_rng(1)))
    bob = tree.joint('bob')
    assert (tree.joint('frame').kind, bob.parent) == ('static', 'world')
    assert bob.description == 'undecided (revolute or revolute on frame)'
    assert bob.description in mjcf.to_text(tree)


@pytest.mark.parametrize('turn_deg', [0.7, 1.0])
def test_a_part_on_the_world_does_not_hang_on_one_that_moves(turn_deg):
    tree = topology.infer(swing(turn_deg, np.random.default_rng(4), carried=False))
    assert (tree.joint('bob').parent, tree.joint('bob').kind) == ('world', 'revolute')


def test_errors_of_poses_on_a_hinge_are_as_large_as_their_covariances():
    rng, angle = np.random.default_rng(5), np.linspace(0.0, 1.0, 400)
    measured = noisy('part', angle, about_y(angle).apply([0.3, 0.0, 0.0]), rng)
    hinge = Rotation.from_euler('x', -90.0, degrees=True).as_matrix()  # its z axis along y
    child = Poses(hinge.T @ [0.3, 0.0, 0.0], hinge.T)
    model = JointModel('revolute', Poses(np.zeros(3), hinge), child, np.array(0.0))
    q = angle[:, None] + 0.01  # a wrong guess: only the joint counts
    near = smoothing.onto_joints(measured, [(model, q)])
    turned = Rotation.from_matrix(near.poses.rotation).as_rotvec() - angle[:, None] * [0, 1, 0]
    variance = near.covariance[:, 4, 4]
    # of a chi-square of 400 the mean has a standard deviation of 7 %
    assert np.mean(turned[:, 1] ** 2 / variance) == pytest.approx(1.0, abs=0.21)
    # a position at 0.3 m shows the angle, too
    expected = 1.0 / (1.0 / SD_RAD**2 + (0.3 / SD_M) ** 2)
    np.testing.assert_allclose(variance, expected, rtol=1e-3)
    np.testing.assert_allclose(turned[:, [0, 2]], 0.0, atol=1e-9)


def test_poses_stay_as_measured_where_a_joint_does_not_explain_them():
    rng, angle = np.random.default_rng(6), np.linspace(0.0, 1.0, 5)
    measured = noisy('part', angle, np.zeros((5, 3)), rng)
    here = Poses(np.zeros(3), np.eye(3))
    model = JointModel('static', here, here, np.array(0.0))
    q = np.full((5, 0), np.nan)
    held = smoothing.onto_joints(measured, [(model, q)])
    assert np.all(held.covariance == 0.0)
    slide = model._replace(kind='prismatic')
    lost = smoothing.onto_joints(measured, [(slide, np.full((5, 1), np.nan))])
    np.testing.assert_array_equal(lost.poses.position, measured.poses.position)
    np.testing.assert_array_equal(lost.covariance, measured.covariance)
