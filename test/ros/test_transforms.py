"""Description and transforms of the scene, on topics and in bags."""

import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, Quaternion, Transform, TransformStamped, Vector3
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String

from emppi_ros.core.pose import Pose
from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import convert, interfaces, qos
from emppi_ros.nodes.common.frames import TF
from emppi_ros.nodes.markers import scene_publisher
from emppi_ros.nodes.markers.node import MarkersNode
from emppi_ros.nodes.tools.bag_recorder import BagRecorder
from emppi_ros.nodes.topics import transforms
from emppi_ros.recordings.bag_reader import Bag

DESCRIPTION = 'robot_description'
PLACE = np.array([0.51, -0.02, 0.03])
TURN = np.array([0.8, 0.0, 0.0, 0.6])


def measure(harness, task, namespace=''):
    """Publish joint states at home and the pose of each tracked object, whenever it spins."""
    joints = harness.publisher(JointState, f'{namespace}joint_states')
    poses = [harness.publisher(PoseStamped, f'{namespace}tracking/{n}') for n in task.tracked]
    home = np.array(task.robot.home)

    def feed():
        now = harness.now()
        joints.publish(convert.write_joints(task.robot, now, home, np.zeros(len(home))))
        for publisher in poses:
            publisher.publish(convert.write_pose(task.robot.frame, now, Pose(PLACE, TURN)))

    harness.feeds.append(feed)


@pytest.fixture
def discovered(monkeypatch):
    """Look for another description soon, and often."""
    monkeypatch.setattr(scene_publisher, '_DISCOVERY_S', 0.2)
    monkeypatch.setattr(scene_publisher, '_CHECK_S', 0.05)


def description_of(harness, heard):
    harness.spin_until(lambda: heard)
    return heard[-1].data


def test_the_scene_is_described_where_nobody_else_describes_the_robot(harness, discovered):
    task = harness.publish_task('panda_push')
    heard = harness.listen(String, transforms.SCENE_DESCRIPTION, qos.LATCHED)
    harness.make(MarkersNode)
    root = ET.fromstring(description_of(harness, heard))
    assert {joint.get('name') for joint in root.findall('joint')} >= set(task.robot.joints)
    # controller_manager would take it for the description of its hardware
    assert harness.tester.count_publishers(DESCRIPTION) == 0
    other = harness.publisher(String, DESCRIPTION, qos.LATCHED)
    other.publish(String(data='<robot name="other"/>'))
    harness.spin_until(lambda: heard[-1].data == '<robot name="other"/>')
    harness.tester.destroy_publisher(other)
    heard.clear()
    assert description_of(harness, heard).startswith('<robot name="panda_push"')


def test_the_bridge_checks_the_description_of_the_robot(harness):
    harness.publish_task('panda_push')
    bridge = harness.make(BridgeNode, backend='dry-run')
    harness.spin_until(lambda: bridge.state == 'active')
    publisher = harness.publisher(String, DESCRIPTION, qos.LATCHED)
    publisher.publish(String(data='<robot name="other"/>'))
    refused = 'the URDF lacks a joint'
    harness.spin_until(lambda: refused in str(harness.says('bridge')))


@pytest.mark.skipif(interfaces.TFMessage is None, reason='tf2_msgs is not installed')
def test_tf_has_the_frames_of_robot_and_objects_and_only_objects_beside_another_description(
    harness, discovered
):
    task = harness.publish_task('panda_push')
    heard = harness.listen(interfaces.TFMessage, TF)
    measure(harness, task)
    other = harness.publisher(String, DESCRIPTION, qos.LATCHED)
    harness.make(MarkersNode)
    harness.spin_until(lambda: heard)
    assert {one.child_frame_id for one in heard[-1].transforms} == {'block'}
    harness.tester.destroy_publisher(other)
    harness.spin_until(lambda: len(heard[-1].transforms) > 1)
    frames = {one.child_frame_id: one for one in heard[-1].transforms}
    assert {'panda_link1', 'panda_hand', 'block'} <= set(frames)
    check_block(frames['block'])


def check_block(transform, parent='panda_link0'):
    assert transform.header.frame_id == parent
    place, turn = transform.transform.translation, transform.transform.rotation
    # the tracker repeats one pose, so that the estimate is that pose, but for rounding; the block
    # moves in a plane, at the height of the task's start
    np.testing.assert_allclose([place.x, place.y], PLACE[:2], atol=1e-6)
    np.testing.assert_allclose([turn.w, turn.x, turn.y, turn.z], TURN, atol=1e-6)


def read_all(folder, topic):
    """Return all messages of a topic as rosbags reads them, by the definition in the bag."""
    with AnyReader([folder]) as reader:
        connections = [c for c in reader.connections if c.topic == topic]
        return [reader.deserialize(data, c.msgtype) for c, _, data in reader.messages(connections)]


@pytest.mark.slow
def test_bags_have_description_and_transforms_of_every_task(harness, tmp_path):
    task = harness.publish_task('panda_push')
    recorder = BagRecorder(harness.tester, tmp_path / 'bag')
    measure(harness, task)
    harness.feeds.append(recorder.poll)
    harness.spin_until(lambda: recorder.counts.get('/tf', 0) > 2)
    harness.publish_task('panda_drawer')
    harness.spin_until(lambda: recorder.counts.get('/emppi/robot_description', 0) > 1)
    recorder.close()
    push, drawer = read_all(tmp_path / 'bag', '/emppi/robot_description')
    assert '"block"' in push.data and '"handle"' in drawer.data
    first = read_all(tmp_path / 'bag', '/tf')[0]
    links = {link.get('name') for link in ET.fromstring(push.data).findall('link')}
    frames = {one.child_frame_id: one for one in first.transforms}
    assert set(frames) == links - {'panda_link0'}
    check_block(frames['block'])
    topics = [name.strip('/') for name in recorder.counts]
    everything = list(Bag(tmp_path / 'bag').messages(topics))
    times = [one.time_ns for one in everything]
    assert times == sorted(times)  # although topics are read one after the other
    mine = next(one.data for one in everything if one.topic == 'tf')
    assert [t.child_frame_id for t in mine.transforms] == list(frames)


def test_the_namespace_is_before_all_frames_but_the_robots_own(harness):
    from rclpy.node import Node

    task = harness.publish_task('panda_push')
    node = Node('viewer', namespace='left', context=harness.context)
    harness.nodes.append(node)
    harness.executor.add_node(node)
    source = transforms.TransformSource(node, task)
    measure(harness, task, 'left/')
    sent = []
    harness.feeds.append(lambda: sent.extend(source.poll(links=False)))
    harness.spin_until(lambda: sent)
    assert [one.child_frame_id for one in sent[:1]] == ['left/block']
    check_block(sent[0])
    source.close()


def test_transforms_go_on_after_the_clock_was_set_back(harness):
    task = harness.publish_task('cartpole_swingup')
    source = transforms.TransformSource(harness.tester, task)
    joints = harness.publisher(JointState, 'joint_states')
    sent = []
    harness.feeds.append(lambda: sent.extend(source.poll()))

    def publish(stamp):
        joints.publish(convert.write_joints(task.robot, stamp, np.zeros(2), np.zeros(2)))

    def stamps():
        return {convert.to_seconds(one.header.stamp) for one in sent}

    for stamp in (100.0, 5.0, 6.0):
        harness.feeds.append(lambda stamp=stamp: publish(stamp))
        harness.spin_until(lambda stamp=stamp: stamp in stamps())
        harness.feeds.pop()
    source.close()


@pytest.mark.parametrize('count', [0, 1, 4])
def test_bytes_of_transforms_are_what_others_read(count):
    from mcap.records import Schema
    from mcap_ros2.decoder import DecoderFactory

    from emppi_ros.nodes.tools import message_definitions

    sent = [
        TransformStamped(
            header=Header(stamp=Time(sec=-i, nanosec=i), frame_id='w' * i),
            child_frame_id='ä' * (2 * i + 1),
            transform=Transform(
                translation=Vector3(x=math.pi * i, y=-0.0, z=1e-300),
                rotation=Quaternion(x=0.1, y=0.2, z=0.3, w=0.4),
            ),
        )
        for i in range(count)
    ]
    fields = 'geometry_msgs/TransformStamped[] transforms'
    text = message_definitions.text(TransformStamped, fields)
    schema = Schema(1, text.encode(), 'ros2msg', transforms.KIND)
    read = DecoderFactory().decoder_for('cdr', schema)(transforms.to_cdr(sent))
    assert len(read.transforms) == count
    for one, other in zip(read.transforms, sent, strict=True):
        assert (one.header.frame_id, one.child_frame_id) == (
            other.header.frame_id,
            other.child_frame_id,
        )
        assert one.header.stamp.sec == other.header.stamp.sec
        assert one.transform.translation.x == other.transform.translation.x
        assert one.transform.rotation.w == other.transform.rotation.w
