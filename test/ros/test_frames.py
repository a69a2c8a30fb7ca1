"""Poses in other frames than the robot's, by /tf and /tf_static."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import PoseError
from emppi_ros.core.pose import Pose, to_quaternion
from emppi_ros.nodes.common import convert, frames, interfaces, qos
from emppi_ros.nodes.common.inputs import MeasurementInputs
from emppi_ros.tasks.task import load_task

ROBOT = load_task('panda_push').robot
STAMP = 100.0
BLOCK = Pose(np.array([0.1, -0.2, 0.7]), to_quaternion(Rotation.from_rotvec([0.3, 2.0, -0.4])))
CAMERA = Pose(np.array([0.0, 0.04, 0.06]), to_quaternion(Rotation.from_rotvec([0.1, 0.2, 1.5])))

pytestmark = pytest.mark.skipif(
    interfaces.TFMessage is None, reason='tf2_msgs is not installed'
)  # fmt: skip


def hand(stamp):
    """Return the pose of a hand that moves and turns at constant velocity."""
    turn = Rotation.from_rotvec([0.0, 0.0, 0.8 * (stamp - STAMP)]) * Rotation.from_euler('x', 3.0)
    position = np.array([0.4, 0.0, 0.5]) + (stamp - STAMP) * np.array([0.3, -0.2, 0.1])
    return Pose(position, to_quaternion(turn))


def transforms(*items):
    message = interfaces.TFMessage()
    for parent, child, stamp, pose in items:
        message.transforms.append(convert.write_transform(parent, child, stamp, pose))
    return message


@pytest.fixture
def reader(harness):
    """Return a reader of poses, and what publishes its transforms, moving and static."""
    made = frames.FrameTransforms(harness.tester, ROBOT)
    with pytest.raises(PoseError, match='transform'):  # from now on it subscribes
        made.read_pose(convert.write_pose('lens', STAMP, BLOCK))
    moving = harness.publisher(interfaces.TFMessage, frames.TF, qos.DEFAULT)
    static = harness.publisher(interfaces.TFMessage, frames.TF_STATIC, qos.LATCHED)
    yield made, moving, static
    made.close()


def check(found, expected):
    np.testing.assert_allclose(found.position, expected.position, atol=1e-9)
    assert (found.rotation * expected.rotation.inv()).magnitude() < 1e-9


def wait(harness, reader, message):
    """Return the pose as soon as its transforms have arrived."""
    result = []

    def arrived():
        reader.poll()
        try:
            result.append(reader.read_pose(message))
        except PoseError:
            return False
        return True

    harness.spin_until(arrived)
    return result[0]


@pytest.mark.parametrize('frame', ['panda_link0', '/panda_link0'])
def test_a_pose_in_the_robot_s_frame_needs_no_transform(harness, frame):
    reader = frames.FrameTransforms(harness.tester, ROBOT)
    stamp, pose = reader.read_pose(convert.write_pose(frame, STAMP, BLOCK))
    assert stamp == STAMP and not reader._subscriptions
    np.testing.assert_array_equal(pose.position, BLOCK.position)


def test_poses_of_a_camera_on_the_hand_are_those_in_the_robot_s_frame(harness, reader):
    reader, moving, static = reader
    static.publish(transforms(('hand', 'lens', 0.0, CAMERA)))
    for k in range(5):  # every 40 ms, the last before some of the poses
        stamp = STAMP - 0.15 + 0.04 * k
        moving.publish(transforms(('panda_link0', 'hand', stamp, hand(stamp))))
    for stamp in (STAMP - 0.13, STAMP, STAMP + 0.08):
        arrived, pose = wait(harness, reader, convert.write_pose('/lens', stamp, BLOCK))
        assert arrived == stamp
        check(pose, hand(stamp) @ CAMERA @ BLOCK)  # of constant velocity, linear is exact
    for stamp in (STAMP - 0.2, STAMP + 0.2):  # before the first; long after the last
        with pytest.raises(PoseError, match="from 'lens' to 'panda_link0'"):
            reader.read_pose(convert.write_pose('lens', stamp, BLOCK))


@pytest.mark.parametrize('quaternion', [np.zeros(4), np.full(4, np.nan)])
def test_a_transform_that_is_none_costs_itself_only(harness, reader, quaternion):
    reader, moving, _ = reader
    for k in range(5):
        stamp = STAMP - 0.1 + 0.04 * k
        good = ('panda_link0', 'lens', stamp, hand(stamp))
        bad = ('panda_link0', 'lens', stamp + 0.01, Pose(np.zeros(3), quaternion))
        moving.publish(transforms(good, bad))
    _, pose = wait(harness, reader, convert.write_pose('lens', STAMP, BLOCK))
    check(pose, hand(STAMP) @ BLOCK)


def test_a_pose_in_a_frame_that_nothing_leads_to_is_an_error_until_the_next_good_one(harness):
    inputs = MeasurementInputs(harness.tester, load_task('panda_push'))
    static = harness.publisher(interfaces.TFMessage, frames.TF_STATIC, qos.LATCHED)
    topic, now = 'tracking/block', harness.tester.get_clock().now().nanoseconds * 1e-9
    inputs.poll()
    inputs.receive(topic, convert.write_pose('lens', now, BLOCK))
    assert "no transform from 'lens'" in inputs.errors[topic] and topic not in inputs.stamps
    static.publish(transforms(('panda_link0', 'lens', 0.0, CAMERA)))

    def taken():
        inputs.poll()
        inputs.receive(topic, convert.write_pose('lens', now, BLOCK))
        return topic in inputs.stamps

    harness.spin_until(taken)
    assert not inputs.errors
    inputs.close()
