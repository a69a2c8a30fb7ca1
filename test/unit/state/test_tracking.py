"""Tracking agrees with a textbook Kalman filter, and is not misled by how poses are written."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from transforms3d import quaternions

from emppi_ros.core.errors import PoseError
from emppi_ros.core.pose import Pose, to_quaternion, to_rotation
from emppi_ros.state import tracking
from emppi_ros.tasks.schema import TrackedObjectConfig

SETTINGS = TrackedObjectConfig('block', position_sd_m=0.002, rotation_sd_rad=0.0175)
UNIT = np.array([1.0, 0.0, 0.0, 0.0])


def _pose(position=(0.0, 0.0, 0.0), rotation=None):
    return Pose(
        np.array(position, dtype=float),
        UNIT if rotation is None else to_quaternion(rotation),
    )


def _track(poses, stamps, settings=SETTINGS):
    track = tracking.start(settings, stamps[0], poses[0])
    for stamp, pose in zip(stamps[1:], poses[1:], strict=True):
        track = tracking.update(settings, track, stamp, pose)
    return track


def _textbook(stamps, measured):
    """Kalman filter with full 6 x 6 matrices: position and velocity of three axes."""
    identity, zero = np.eye(3), np.zeros((3, 3))
    x = np.concatenate([measured[0], np.zeros(3)])
    covariance = np.block([[0.002**2 * identity, zero], [zero, 0.1**2 * identity]])
    observe = np.hstack([identity, zero])
    for i in range(1, len(stamps)):
        dt = stamps[i] - stamps[i - 1]
        transition = np.block([[identity, dt * identity], [zero, identity]])
        effect = np.vstack([0.5 * dt**2 * identity, dt * identity])
        x = transition @ x
        covariance = transition @ covariance @ transition.T
        covariance = covariance + SETTINGS.acceleration_sd**2 * effect @ effect.T
        spread = observe @ covariance @ observe.T + 0.002**2 * identity
        gain = covariance @ observe.T @ np.linalg.inv(spread)
        x = x + gain @ (measured[i] - observe @ x)
        covariance = (np.eye(6) - gain @ observe) @ covariance
    return x, covariance


@pytest.mark.parametrize('seed', range(4))
def test_position_and_velocity_are_those_of_a_textbook_kalman_filter(seed):
    rng = np.random.default_rng(seed)
    stamps = np.cumsum(rng.uniform(0.01, 0.04, 60))
    path = np.cumsum(rng.normal(0.0, 0.003, (60, 3)), axis=0)  # far below a jump
    measured = path + rng.normal(0.0, 0.002, (60, 3))
    track = _track([_pose(p) for p in measured], stamps)
    x, covariance = _textbook(stamps, measured)
    # 60 steps of the same arithmetic with other matrices, on numbers of order 1
    np.testing.assert_allclose(track.position, x[:3], rtol=0, atol=1e-12)
    np.testing.assert_allclose(track.velocity, x[3:], rtol=0, atol=1e-10)
    for axis in range(3):
        rows = [axis, axis + 3]
        np.testing.assert_allclose(
            track.linear_covariance, covariance[np.ix_(rows, rows)], rtol=1e-8
        )


def test_constant_velocity_is_tracked_without_bias():
    stamps = np.arange(200) * 0.02
    velocity, spin = np.array([0.2, -0.1, 0.0]), np.array([0.0, 0.3, 1.0])
    poses = [_pose(velocity * t, Rotation.from_rotvec(spin * t)) for t in stamps]
    track = _track(poses, stamps)
    # a Kalman filter of this model has no steady error; its start decays below rounding by now
    np.testing.assert_allclose(track.velocity, velocity, rtol=0, atol=1e-9)
    np.testing.assert_allclose(track.angular_velocity, spin, rtol=0, atol=1e-9)
    np.testing.assert_allclose(track.position, velocity * stamps[-1], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_noise_leaves_no_bias_in_velocity(rng):
    stamps = np.arange(3000) * 0.02
    velocity = np.array([0.2, -0.1, 0.05])
    track = tracking.start(SETTINGS, 0.0, _pose())
    errors = []
    for stamp in stamps[1:]:
        position = velocity * stamp + rng.normal(0.0, 0.002, 3)
        turn = Rotation.from_rotvec(rng.normal(0.0, 0.0175, 3))
        track = tracking.update(SETTINGS, track, stamp, _pose(position, turn))
        errors.append(track.velocity - velocity)
    errors = np.array(errors[100:])
    # errors are correlated over some 10 samples: the mean errs by sd / sqrt(2900 / 10), four times
    assert np.all(np.abs(errors.mean(axis=0)) < 4.0 * errors.std(axis=0) / np.sqrt(290))
    # its own variance is for objects that accelerate by 3 m/s^2; this one does not, so it is less
    assert np.all(errors.std(axis=0) < np.sqrt(track.linear_covariance[1, 1]))


@pytest.mark.slow
@given(st.lists(st.booleans(), min_size=20, max_size=20))
def test_sign_flips_of_quaternions_change_nothing(flips):
    stamps = np.arange(20) * 0.02
    rng = np.random.default_rng(0)
    turns = [Rotation.from_rotvec([0.0, 0.4 * t, 2.0 * t]) for t in stamps]
    poses = [_pose(rng.normal(0.0, 0.002, 3), turn) for turn in turns]
    flipped = [
        Pose(p.position, -p.quaternion if flip else p.quaternion)
        for p, flip in zip(poses, flips, strict=True)
    ]
    ours, theirs = _track(flipped, stamps), _track(poses, stamps)
    # the same rotations from other quaternions: rounding of 20 products
    np.testing.assert_allclose(ours.angular_velocity, theirs.angular_velocity, rtol=0, atol=1e-10)
    assert (ours.rotation * theirs.rotation.inv()).magnitude() < 1e-12


@given(st.floats(-3.1, 3.1), st.integers(0, 1000))
def test_projection_keeps_the_turn_about_the_vertical_and_nothing_else(yaw, seed):
    rng = np.random.default_rng(seed)
    rest = _pose([0.3, 0.1, 0.04], Rotation.from_rotvec([0.2, -0.1, 0.5]))
    lying = Rotation.from_quat(rest.quaternion[[1, 2, 3, 0]])
    turned = Rotation.from_rotvec([0.0, 0.0, yaw]) * lying
    exact = tracking.project(_pose([0.5, -0.2, 0.9], turned), rest)
    assert exact.position.tolist() == [0.5, -0.2, 0.04]
    # the angle goes through an arc tangent and back
    np.testing.assert_allclose(
        Rotation.from_quat(exact.quaternion[[1, 2, 3, 0]]).as_matrix(),
        turned.as_matrix(),
        atol=1e-12,
    )
    tilted = Rotation.from_rotvec([*rng.normal(0.0, 0.02, 2), 0.0]) * turned
    found = Rotation.from_quat(
        tracking.project(_pose(rotation=tilted), rest).quaternion[[1, 2, 3, 0]]
    )
    # a tilt of at most 0.1 rad, left out, turns about the vertical only in its second order
    assert (found * turned.inv()).magnitude() < 0.1**2


def test_a_jump_has_no_track():
    track = _track([_pose([0.1 * t, 0, 0]) for t in np.arange(50) * 0.02], np.arange(50) * 0.02)
    assert track.velocity[0] > 0.05
    for pose in (_pose([1.0, 0.0, 0.0]), _pose(track.position, Rotation.from_rotvec([0, 0, 2.5]))):
        assert tracking.update(SETTINGS, track, 1.0, pose) is None


def test_a_long_gap_restarts_the_track():
    stamps = np.arange(50) * 0.02
    track = _track([_pose([0.1 * t, 0, 0]) for t in stamps], stamps)
    after = tracking.update(SETTINGS, track, track.stamp + 1.5, _pose([0.1, 0, 0]))
    assert not after.velocity.any()


def test_a_prediction_moves_at_constant_velocity_and_grows_uncertain():
    stamps = np.arange(100) * 0.02
    spin = np.array([0.0, 0.0, 1.0])
    track = _track(
        [_pose([0.1 * t, 0, 0], Rotation.from_rotvec(spin * t)) for t in stamps], stamps
    )
    ahead = tracking.predict(SETTINGS, track, track.stamp + 0.3)
    # the velocities are exact to 1e-9, see above
    np.testing.assert_allclose(ahead.position, [0.1 * (stamps[-1] + 0.3), 0, 0], atol=1e-8)
    np.testing.assert_allclose(ahead.rotation.as_rotvec(), spin * (stamps[-1] + 0.3), atol=1e-8)
    assert ahead.linear_covariance[0, 0] > track.linear_covariance[0, 0]
    back = tracking.predict(SETTINGS, ahead, track.stamp)
    np.testing.assert_allclose(back.position, track.position, rtol=0, atol=1e-12)


def test_quaternions_have_the_scalar_first_as_transforms3d_has_it(rng):
    rotation = Rotation.from_rotvec(rng.normal(size=3))
    quaternion = to_quaternion(rotation)
    matrix = quaternions.quat2mat(quaternion)
    np.testing.assert_allclose(rotation.as_matrix(), matrix, rtol=0, atol=1e-15)
    again = to_rotation(quaternion).as_matrix()
    np.testing.assert_allclose(again, matrix, rtol=0, atol=1e-15)


def test_the_state_of_a_free_joint_has_its_spin_in_the_body(rng):
    turn = Rotation.from_rotvec(rng.normal(size=3))
    track = tracking.start(SETTINGS, 0.0, _pose([1.0, 2.0, 3.0], turn))
    track = track._replace(
        velocity=np.array([4.0, 5.0, 6.0]), angular_velocity=np.array([0, 0, 1.0])
    )
    qpos, qvel = tracking.state(track)
    np.testing.assert_allclose(qpos, [1, 2, 3, *to_quaternion(turn)], atol=1e-15)
    assert qvel[:3].tolist() == [4.0, 5.0, 6.0]
    # back in the world it must be as it was, up to the rounding of two rotations
    np.testing.assert_allclose(turn.apply(qvel[3:]), [0, 0, 1.0], rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ('pose', 'match'),
    [
        (_pose([np.nan, 0, 0]), "pose of 'cup' is not finite"),
        (Pose(np.zeros(3), np.array([np.inf, 0, 0, 0])), "pose of 'cup' is not finite"),
        (Pose(np.zeros(3), np.zeros(4)), 'quaternion has length 0, expected 1'),
        (Pose(np.zeros(3), 1.2 * UNIT), 'quaternion has length 1.2, expected 1'),
    ],
    ids=['nan', 'inf', 'zero', 'long'],
)
def test_a_pose_that_is_none_is_an_error_that_names_the_object(pose, match):
    with pytest.raises(PoseError, match=match):
        tracking.validated(pose, 'cup')


def test_a_quaternion_that_is_rounded_is_made_one():
    pose = tracking.validated(Pose(np.zeros(3), 1.001 * UNIT), 'cup')
    assert np.linalg.norm(pose.quaternion) == pytest.approx(1.0, abs=1e-15)
