"""The estimator puts joints and tracks together, or says what is missing."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import PoseError, StaleInputError
from emppi_ros.core.pose import Pose, to_quaternion
from emppi_ros.model.ensemble import State
from emppi_ros.state.estimator import Estimator, JumpDetector
from emppi_ros.tasks.task import load_task

UNIT = np.array([1.0, 0.0, 0.0, 0.0])


def _pose(x=0.0, y=0.0, z=0.05):
    return Pose(np.array([x, y, z]), UNIT)


@pytest.fixture
def estimator(make_task):
    return Estimator(make_task('block'))


def _joints(estimator, stamp, position=0.1, velocity=0.2):
    estimator.add_joints(stamp, np.array([position]), np.array([velocity]))


def test_without_poses_or_joints_the_error_names_what_is_missing(estimator):
    assert estimator.stamp == -math.inf
    with pytest.raises(StaleInputError, match='no pose received yet of: block'):
        estimator.state(0.0)
    estimator.add_pose('block', 0.0, _pose())
    assert estimator.stamp == -math.inf
    with pytest.raises(StaleInputError, match='joint states: none received yet'):
        estimator.state(0.0)


def test_recent_tracks_are_those_whose_last_pose_is_not_too_old(estimator):
    _joints(estimator, 0.1, position=0.3)
    np.testing.assert_array_equal(estimator.joint_positions, [0.3])
    assert estimator.recent_tracks(0.1, 0.5) == {}
    estimator.add_pose('block', 0.1, _pose(x=0.2))
    assert estimator.recent_tracks(0.6, 0.5)['block'].position[0] == 0.2
    assert estimator.recent_tracks(0.7, 0.5) == {}


def test_poses_of_a_flipped_tag_are_dropped_also_two_in_a_row(estimator, rng):
    flip = Rotation.from_rotvec([0.66, 0.35, 0.44])
    dropped = 0
    for k in range(400):
        turn = Rotation.from_rotvec([0.0, 0.0, 0.3 * 0.02 * k])
        pose = Pose(np.array([0.001 * k, 0.0, 0.0]), to_quaternion(turn))
        if k % 40 in (20, 35, 36):  # one, and two in a row
            wrong = Pose(pose.position, to_quaternion(flip * turn))
            assert estimator.add_pose('block', 0.02 * k, wrong) is None
            dropped += 1
        else:
            assert estimator.add_pose('block', 0.02 * k, pose) is not None
        track = estimator.recent_tracks(0.02 * k, 1.0)['block']
        # of constant velocity, which it has learned after half a second
        if k > 25:
            assert (track.rotation * turn.inv()).magnitude() < 0.02
            assert abs(track.angular_velocity[2] - 0.3) < 0.1
    assert estimator.outliers == dropped


def test_an_object_that_was_moved_has_a_new_track_after_three_poses_that_agree(estimator):
    for k in range(50):
        estimator.add_pose('block', 0.02 * k, _pose())
    taken = [estimator.add_pose('block', 1.0 + 0.02 * k, _pose(x=0.5)) for k in range(4)]
    assert [pose is not None for pose in taken] == [False, False, True, True]
    track = estimator.recent_tracks(1.06, 1.0)['block']
    np.testing.assert_allclose(track.position[0], 0.5, atol=1e-12)
    np.testing.assert_allclose(track.velocity, 0.0, atol=1e-9)


def test_the_stamp_is_that_of_the_input_which_is_furthest_behind(estimator):
    _joints(estimator, 0.10)
    estimator.add_pose('block', 0.07, _pose())
    assert estimator.stamp == 0.07
    estimator.add_pose('block', 0.12, _pose())
    assert estimator.stamp == 0.10


def test_joints_are_interpolated_and_objects_predicted_to_one_moment(estimator):
    for i in range(101):
        _joints(estimator, 0.02 * i, 0.5 * i, 25.0)
        estimator.add_pose('block', 0.02 * i, _pose(x=0.002 * i))
    state = estimator.state(1.99)
    # a track of exact poses has its velocity, 0.1 m/s, to 1e-9; positions of joints are linear
    assert state.qpos[0] == pytest.approx(0.5 * 99.5, rel=1e-12) and state.qvel[0] == 25.0
    np.testing.assert_allclose(state.qpos[1:4], [0.199, 0.0, 0.05], rtol=0, atol=1e-8)
    np.testing.assert_allclose(state.qvel[1:4], [0.1, 0.0, 0.0], rtol=0, atol=1e-7)


def test_planar_objects_keep_their_height_and_tilt(estimator):
    tilt = np.array([np.cos(0.05), np.sin(0.05), 0.0, 0.0])
    seen = estimator.add_pose('block', 0.0, Pose(np.array([0.3, 0.1, 0.08]), tilt))
    assert seen.position.tolist() == [0.3, 0.1, 0.05]
    np.testing.assert_allclose(seen.quaternion, UNIT, rtol=0, atol=1e-15)


def test_old_measurements_are_left_out(estimator):
    for stamp, position in ((0.1, 0.3), (0.1, 9.0), (0.0, 9.0)):
        _joints(estimator, stamp, position)
    assert estimator.joint_positions == [0.3] and estimator.joints_stamp == 0.1
    assert estimator.add_pose('block', 0.1, _pose()) is not None
    assert estimator.add_pose('block', 0.1, _pose(x=1.0)) is None
    assert estimator.state(0.1).qpos[1] == 0.0


def test_wrong_poses_are_errors_and_leave_no_trace(estimator):
    with pytest.raises(PoseError, match="unknown object 'blok' .did you mean 'block'"):
        estimator.add_pose('blok', 0.0, _pose())
    with pytest.raises(PoseError, match="pose of 'block' is not finite"):
        estimator.add_pose('block', 0.0, _pose(x=np.nan))
    with pytest.raises(StaleInputError, match='no pose received yet'):
        estimator.state(0.0)


def test_joints_that_are_too_old_or_too_new_are_errors(estimator):
    estimator.add_pose('block', 0.5, _pose())
    _joints(estimator, 0.5)
    with pytest.raises(StaleInputError, match='the oldest is .* too new'):
        estimator.state(0.3)
    with pytest.raises(StaleInputError, match='too old'):
        estimator.state(0.6)


def test_a_cleared_estimator_is_as_new(estimator):
    estimator.add_pose('block', 5.0, _pose())
    _joints(estimator, 5.0)
    estimator.clear()
    assert estimator.stamp == -math.inf
    _joints(estimator, 1.0)
    assert estimator.joints_stamp == 1.0 and estimator.add_pose('block', 1.0, _pose()) is not None


def test_an_answer_shares_nothing_with_the_next(estimator):
    estimator.add_pose('block', 0.0, _pose())
    _joints(estimator, 0.0)
    estimator.state(0.0).qpos[:] = 9.0
    assert estimator.state(0.0).qpos[0] == 0.1


def test_an_observation_puts_an_object_where_it_was_measured_and_changes_nothing_else(estimator):
    estimator.add_pose('block', 0.0, _pose())
    _joints(estimator, 0.0)
    moved, start, _ = estimator.observation(0.0, 'block', _pose(0.3, 0.4, 0.5))
    assert moved.qpos[1:4].tolist() == [0.3, 0.4, 0.5] and moved.qpos[0] == start.qpos[0]
    assert start.qpos[1] == 0.0 and moved.qvel is start.qvel


def test_positions_carried_by_velocities_are_surer_than_measured_ones(make_task, task_data, rng):
    data = {**task_data('slider'), 'joint_position_gain': 0.1}
    carried = Estimator(make_task('slider', data))
    errors = []
    for i in range(4000):
        time = 0.01 * i
        measured = np.sin(time) + 0.03 * rng.standard_normal()
        _joints(carried, time, measured, np.cos(time))
        errors.append(carried.state(time).qpos[0] - np.sin(time))
    # of white noise a gain g leaves g / (2 - g) of the variance; 4000 errors, each alike to its
    # next twenty, know their spread to some 5 %; three of these
    assert np.std(errors[200:]) == pytest.approx(0.03 * np.sqrt(0.1 / 1.9), rel=0.15)


def test_positions_are_not_carried_over_a_gap(make_task, task_data):
    data = {**task_data('slider'), 'joint_position_gain': 0.1}
    carried = Estimator(make_task('slider', data))
    _joints(carried, 0.0, 0.1, 1.0)
    _joints(carried, 0.1, 0.1, 1.0)
    assert carried.state(0.1).qpos[0] == pytest.approx(0.2 - 0.1 * 0.1)  # a tenth of the way back
    _joints(carried, 0.7, 0.5, 1.0)
    assert carried.state(0.7).qpos[0] == 0.5


def test_motion_that_velocities_explain_is_no_jump():
    model = load_task('cartpole_swingup').model
    here = State(np.zeros(2), np.zeros(2))
    detector = JumpDetector(model)
    assert not detector.update(0.02, here, State(np.array([0.0, 0.04]), np.array([0.0, 2.0])))
    assert detector.update(0.02, here, State(np.array([0.0, 3.0]), np.array([0.0, 2.0])))


@pytest.mark.parametrize('sd', [0.001, 0.03, 0.1])
def test_noise_is_no_jump_and_a_reset_is_one(sd):
    model, rng = load_task('fr3_follow').model, np.random.default_rng(0)
    detector, rest, turned = JumpDetector(model), np.zeros(model.nq), 1.5 * np.ones(model.nq)
    states = [State(rest + sd * rng.standard_normal(model.nq), np.zeros(model.nv))
              for _ in range(2000)]  # fmt: skip
    found = [detector.update(0.02, a, b) for a, b in zip(states, states[1:], strict=False)]
    # the noise is unknown at first; later, 7 joints x 2000 x P(6 sd) is 3e-5
    assert not any(found[20:])
    # a robot that was reset is found even if that happens again and again
    moved = [s._replace(qpos=s.qpos + turned) for s in states[:3]]
    for before, after in zip(states[:3], moved, strict=True):
        assert detector.update(0.02, before, after)


def test_an_object_without_poses_is_not_carried_on_by_its_velocity_for_long(estimator):
    for k in range(100):
        estimator.add_pose('block', 0.02 * k, _pose(x=0.01 * k))  # 0.5 m/s, up to 1.98 s
    places = []
    for stamp in (1.98, 2.08, 2.18, 3.0):
        _joints(estimator, stamp)
        places.append(estimator.state(stamp).qpos[estimator._task.objects['block'].qpos])
    np.testing.assert_allclose(np.diff(places), [0.05, 0.05, 0.0], atol=2e-3)
