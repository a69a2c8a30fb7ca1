"""Which part carries another one, after motions that are hardly larger than the noise."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.articulation import fitting, mjcf, smoothing, topology, tracks
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


# white errors of the given size or three times as large are noise: another motion would be smooth
@pytest.mark.parametrize('carried', [True, False])
def test_a_tree_does_not_change_where_noise_is_three_times_as_large_as_given(carried):
    film = swing(1.0, np.random.default_rng(3), carried)
    less = tuple(replace(part, covariance=part.covariance / 9.0) for part in film.parts)
    trees = topology.infer(film), topology.infer(Tracks(film.time, less))
    found = [{(one.parent, one.child, one.kind) for one in tree.joints} for tree in trees]
    expected = {('world', 'frame', 'revolute')}
    assert found == [expected | {('frame' if carried else 'world', 'bob', 'revolute')}] * 2


# angles of 0.07 degrees root mean square are half of the noise of a frame, but wander slowly
@pytest.mark.parametrize('carried', [True, False])
def test_a_motion_that_is_lost_in_noise_leaves_type_and_parent_undecided(carried):
    tree = topology.infer(swing(0.3, np.random.default_rng(1), carried))
    frame, bob = tree.joint('frame'), tree.joint('bob')
    assert frame.kind == bob.kind == 'undecided'
    assert {'static', 'revolute'} <= set(frame.candidates)
    assert bob.description == 'undecided (revolute or revolute on frame)'
    assert bob.description in mjcf.to_text(tree)
    assert any('bob' in words and 'move' in words for words in tree.warnings)


@pytest.mark.slow
@pytest.mark.parametrize('turn_deg', [0.3, 0.5, 0.7, 1.0])
@pytest.mark.parametrize('carried', [True, False])
def test_what_is_decided_after_a_small_motion_is_right(turn_deg, carried):
    tree = topology.infer(swing(turn_deg, np.random.default_rng(2), carried))
    true = {'frame': 'world', 'bob': 'frame' if carried else 'world'}
    for joint in tree.joints:
        if joint.kind != 'undecided':
            assert (joint.parent, joint.kind) == (true[joint.child], 'revolute')


def test_a_turn_of_less_than_a_degree_has_a_hinge():
    rng, angle = np.random.default_rng(7), np.radians(np.linspace(0.0, 0.8, COUNT))
    door = noisy('door', angle, about_y(angle).apply(ARM), rng)
    joint = topology.infer(Tracks(np.linspace(0.0, 1.0, COUNT), (door,))).joint('door')
    assert joint.kind == 'revolute'


@pytest.mark.parametrize(('frames', 'kind'), [(1, 'static'), (10, 'undecided')])
def test_errors_that_last_for_frames_leave_a_part_at_rest_undecided(frames, kind):
    rng, alike = np.random.default_rng(8), np.arange(COUNT) // frames
    still = noisy('part', np.zeros(COUNT), np.zeros((COUNT, 3)), rng)
    poses = still.poses.at(frames * alike)  # errors of as many frames in a row are the same
    part = tracks.PartTrack('part', poses, still.covariance, still.seen)
    joint = topology.infer(Tracks(np.linspace(0.0, 1.0, COUNT), (part,))).joint('part')
    assert joint.kind == kind


def test_units_of_noise_change_as_little_as_covariances_do():
    angle = np.linspace(0.0, np.pi, 200)
    turn = Rotation.from_rotvec(angle[:, None] * [0.6, 0.0, 0.8]).as_matrix()
    turns = np.zeros((200, 6, 6))
    turns[:, :3, :3] = turns[:, 3:, 3:] = turn
    sd = np.array([1.0, 1.1, 1.3, 0.01, 0.012, 0.013])
    covariance = turns @ np.diag(sd**2) @ np.swapaxes(turns, -1, -2)
    whitening = fitting.observe(Poses(np.zeros((200, 3)), turn), covariance).whitening
    unit = whitening @ covariance @ np.swapaxes(whitening, -1, -2)
    np.testing.assert_allclose(unit, np.broadcast_to(np.eye(6), unit.shape), atol=1e-9)
    # a step is 1/200 of half a turn: 1.6 % of a whitening; the sign of an eigenvector is 200 %
    steps = np.linalg.norm(np.diff(whitening, axis=0), axis=(1, 2))
    assert np.all(steps < 0.05 * np.linalg.norm(whitening[0]))


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
