"""The node `tracker` publishes poses from depth images, and says what it lacks."""

from types import SimpleNamespace

from cameras import looking_at
import mujoco
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
from geometry_msgs.msg import (
    PoseStamped,
    PoseWithCovarianceStamped,
    Quaternion,
    TransformStamped,
    Vector3,
)
from rclpy.serialization import serialize_message
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import CameraInfo, Image, JointState

from emppi_ros.cli import main
from emppi_ros.core.errors import ConfigError, PoseError
from emppi_ros.core.pose import Pose
from emppi_ros.model import scene
from emppi_ros.nodes.common import convert, interfaces, qos
from emppi_ros.nodes.common.diagnostics import OK
from emppi_ros.nodes.common.graph import NodeSpec
from emppi_ros.nodes.depth_camera.node import DepthCameraNode
from emppi_ros.nodes.tools import message_definitions
from emppi_ros.nodes.topics import transforms
from emppi_ros.nodes.topics.depth_images import write_camera, write_depth, write_transform
from emppi_ros.nodes.tracker.node import TrackerNode
from emppi_ros.recordings import tables
from emppi_ros.recordings.bag_writer import BagTopic, BagWriter
from emppi_ros.sim.depth_camera import add_noise
from emppi_ros.tasks.schema import DepthCameraConfig
from emppi_ros.tracking import renderer
from emppi_ros.tracking.camera_messages import (
    IMAGE,
    INFO,
    add_transforms,
    find_pose,
    read_camera,
    read_depth,
)
from emppi_ros.tracking.fitting import TrackerConfig
from emppi_ros.tracking.parts import of_task
from emppi_ros.tracking.renderer import Window
from emppi_ros.viz.renderer import depth_camera

SCENE = """
<mujoco>
  <worldbody>
    <geom type="plane" size="2 2 0.1"/>
    <body name="block" pos="0 0 0.06"><freejoint/><geom type="box" size="0.1 0.07 0.06"/></body>
  </worldbody>
</mujoco>"""
ARM = (
    '<body pos="-0.6 0 0.08"><joint name="swing" axis="0 0 1"/>'
    '<geom type="capsule" fromto="0 0 0 0.45 0 0" size="0.04"/></body></worldbody>'
)
WITH_ARM = SCENE.replace('</worldbody>', ARM)
VIEW = looking_at(160, 120, 40.0, [0.7, -1.0, 0.8])
POSE = {'camera_position': list(VIEW.position), 'camera_quaternion': VIEW.quaternion.tolist()}


def image(depth, stamp, millimetres=False):
    if millimetres:
        return write_depth(stamp, 'lens', depth)
    values = depth.astype('<f4')
    message = Image(height=depth.shape[0], width=depth.shape[1], data=values.tobytes())
    message.encoding, message.step = '32FC1', 4 * depth.shape[1]
    message.header.stamp, message.header.frame_id = convert.to_stamp(stamp), 'lens'
    return message


def camera_info():
    return write_camera(0.0, 'lens', VIEW)


@pytest.fixture
def parts(tmp_path):
    (tmp_path / 'scene.xml').write_text(SCENE)
    (tmp_path / 'parts.yaml').write_text('scene: scene.xml\nparts: {block: {}}\n')
    return tmp_path / 'parts.yaml'


@pytest.mark.slow
def test_poses_of_a_moving_block_are_published_with_the_stamps_of_images(harness, parts):
    node = harness.make(
        TrackerNode,
        parts=str(parts),
        frame='base',
        **POSE,
    )
    heard = harness.listen(PoseStamped, 'tracking/block', qos.MEASURED)
    known = harness.listen(PoseWithCovarianceStamped, 'tracking_covariance/block', qos.MEASURED)
    infos = harness.publisher(CameraInfo, INFO)
    images = harness.publisher(Image, IMAGE)
    harness.spin_until(lambda: images.get_subscription_count() and infos.get_subscription_count())
    waiting = 'waiting for depth/camera_info'
    harness.spin_until(lambda: harness.says('tracker')[1] == waiting)
    infos.publish(camera_info())
    harness.spin_until(lambda: node._tracker is not None)
    model, rng = mujoco.MjModel.from_xml_string(SCENE), np.random.default_rng(0)
    settings = DepthCameraConfig()
    for i in range(4):
        data = mujoco.MjData(model)
        data.qpos[0] = 0.01 * i
        mujoco.mj_forward(model, data)
        depth = renderer.render_scene(model, data, VIEW)
        depth = add_noise(settings, depth, rng)
        images.publish(image(depth, 10.0 + i / 15.0, millimetres=i % 2 == 1))
        harness.spin_until(lambda i=i: len(heard) == len(known) == i + 1)
        message = heard[-1]
        assert message.header.frame_id == 'base'
        assert convert.to_seconds(message.header.stamp) == pytest.approx(10.0 + i / 15.0)
        assert (known[-1].header, known[-1].pose.pose) == (message.header, message.pose)
        covariance = np.reshape(known[-1].pose.covariance, (6, 6))
        np.testing.assert_array_equal(covariance, node._estimates[0].covariance)
        found = message.pose.position
        # 5 mm: five of its standard deviations, about
        assert np.hypot(found.x - 0.01 * i, found.y) < 0.005 and abs(found.z - 0.06) < 0.005
    harness.spin_until(lambda: harness.says('tracker')[:2] == (OK, 'tracking'))
    data.qpos[0] = 50.0  # taken away
    mujoco.mj_forward(model, data)
    images.publish(image(renderer.render_scene(model, data, VIEW), 11.0))
    gone = {'block is lost', 'block is hidden'}  # an empty table may hide it, too
    harness.spin_until(lambda: harness.says('tracker')[1] in gone)
    assert len(heard) == 4


def test_a_robot_of_the_scene_is_drawn_at_its_measured_joints(harness, tmp_path):
    (tmp_path / 'scene.xml').write_text(WITH_ARM)
    (tmp_path / 'parts.yaml').write_text('scene: scene.xml\nparts: {block: {}}\n')
    node = harness.make(
        TrackerNode,
        parts=str(tmp_path / 'parts.yaml'),
        **POSE,
    )
    states = harness.publisher(JointState, 'joint_states')
    harness.spin_until(states.get_subscription_count)
    node._take_info(camera_info())
    whole = Window(0, VIEW.height, 0, VIEW.width)
    empty = node._tracker.tracked.background.crop(whole).copy()
    for i in range(3):
        message = JointState(name=['swing', 'other'], position=[0.2 * i, 1.0])
        message.header.stamp = convert.to_stamp(float(i))
        states.publish(message)
    harness.spin_until(lambda: node._joint_states.poll() or len(node._joints) == 3)
    node._tracker.tracked.move_robot(node._joints_at(1.1))
    data = scene.kinematics(node._file.model, node._file.model.qpos0)
    data.joint('swing').qpos = 0.2
    data = scene.kinematics(node._file.model, data.qpos.copy())
    block = node._file.bodies
    expected = renderer.render_scene(node._file.model, data, node._tracker.tracked.camera, block)
    np.testing.assert_array_equal(node._tracker.tracked.background.crop(whole), expected)
    assert not np.array_equal(expected, empty)


def test_what_it_cannot_work_with_is_said(harness, parts):
    node = harness.make(TrackerNode, parts='none.yaml', **POSE)
    assert node.state == 'unconfigured' and 'none.yaml: cannot be read' in node.problem
    with pytest.raises(ConfigError, match='camera_quaternion: expected both or none'):
        harness.make(TrackerNode, camera_position=[0.0, 0.0, 1.0])
    node = harness.make(TrackerNode, parts=str(parts), **POSE)
    assert 'no node publishes /depth/camera_info' in node._report().message
    node._take_info(CameraInfo(width=160, height=120))
    assert node._report().message.startswith('CameraInfo: fx: found 0.0')
    node._take_info(camera_info())
    node._take_image(write_depth(1.0, 'other', np.ones((120, 160))))
    assert "in frame 'other', depth/camera_info in 'lens'" in node._report().message


def take(node, *stamps, step=1):
    """Let a node take images of a block that slides by 0.3 m/s."""
    model = mujoco.MjModel.from_xml_string(SCENE)
    for stamp in stamps:
        data = mujoco.MjData(model)
        data.qpos[0] = 0.3 * (stamp - 10.0)
        mujoco.mj_forward(model, data)
        node._take_image(image(renderer.render_scene(model, data, VIEW)[::step, ::step], stamp))


def test_late_images_and_those_of_the_future_cost_their_own_cycle(harness, parts):
    node = harness.make(TrackerNode, parts=str(parts), **POSE)
    node._take_info(camera_info())
    take(node, 10.0, 10.05, 10.1)
    before = node._tracker.velocity.copy()
    assert before[0, 0] > 0.1 and node._images == 3
    take(node, 10.02)
    assert (
        'depth/image: image left out, stamped 0.080 s before the last one'
        in node._report().message
    )
    depth = renderer.render_scene(node._file.model, mujoco.MjData(node._file.model), VIEW)
    node._take_image(image(depth, node.now() + 3600.0))
    assert 's ahead of the clock: synchronize' in node._report().message
    np.testing.assert_array_equal(node._tracker.velocity, before)
    take(node, 10.15)
    assert node._images == 4 and node._estimates[0].status == 'tracked'
    take(node, 9.9, 9.95, 10.0)  # the clock was set back
    assert node._images == 5 and node._tracker.time == 10.0


def test_decimated_images_are_tracked_and_cut_ones_named(harness, parts):
    node = harness.make(TrackerNode, parts=str(parts), **POSE)
    node._take_info(camera_info())
    take(node, 10.0, step=2)
    assert node._tracker.tracked.camera.width == 80
    # 5 mm: three of its standard deviations, about
    assert node._estimates[0].status == 'tracked'
    assert np.linalg.norm(node._estimates[0].position - [0.0, 0.0, 0.06]) < 0.005
    node._take_image(image(np.ones((90, 160)), 10.1))
    assert 'images of 160 x 90 px, but CameraInfo says 160 x 120' in node._report().message


@pytest.mark.skipif(interfaces.TFMessage is None, reason='tf2_msgs is not installed')
def test_the_pose_of_a_camera_may_be_on_tf_but_not_while_it_moves(harness, parts):
    node = harness.make(TrackerNode, parts=str(parts))
    node._take_info(camera_info())
    assert "no transform from 'lens' to 'world'" in node._report().message
    publisher = harness.publisher(interfaces.TFMessage, '/tf')
    harness.spin_until(publisher.get_subscription_count)
    other = looking_at(160, 120, 40.0, [0.7, -1.0, 0.82])

    def send(view):
        publisher.publish(
            interfaces.TFMessage(transforms=[write_transform(0.0, 'world', 'lens', view)])
        )

    send(VIEW)
    harness.spin_until(lambda: node._take_info(camera_info()) or node._tracker is not None)
    take(node, 10.0)
    assert node._estimates[0].status == 'tracked' and not node._problem
    send(other)
    height = VIEW.position[2] + 0.01
    harness.spin_until(lambda: node._tf.poll() or node._moving['lens'].pose.position[2] > height)
    take(node, 10.05)
    assert 'the camera moves on /tf, by 20.0 mm' in node._problem
    take(node, 10.1)
    assert not node._problem and node._tracker.tracked.camera.position == other.position


def test_without_tf2_the_pose_of_the_camera_must_be_given(harness, parts, monkeypatch):
    monkeypatch.setattr(interfaces, 'TFMessage', None)
    node = harness.make(TrackerNode, parts=str(parts))
    assert node.problem.startswith('camera_position, camera_quaternion: found none')


@pytest.mark.skipif(interfaces.TFMessage is None, reason='tf2_msgs is not installed')
def test_the_pose_of_the_simulated_camera_is_a_static_transform(harness):
    sent, known = harness.listen(interfaces.TFMessage, '/tf_static', qos.EVERY), {}
    task = harness.publish_task('panda_push')
    node = harness.make(DepthCameraNode)
    harness.spin_until(lambda: sent)
    add_transforms(known, sent[0])
    pose = find_pose(known.get, 'depth_camera_optical_frame', task.robot.frame)
    np.testing.assert_allclose(pose.position, node.camera.position, atol=1e-12)
    np.testing.assert_allclose(np.abs(pose.quaternion @ node.camera.quaternion), 1.0, atol=1e-12)


def test_a_task_without_tracked_objects_has_no_part_and_the_next_one_may_have(harness):
    message = "task 'cartpole_swingup' has no tracked object"
    with pytest.raises(ConfigError, match=message):
        of_task(harness.publish_task('cartpole_swingup'), TrackerConfig())
    node = harness.make(TrackerNode, **POSE)
    harness.spin_until(lambda: node.state == 'active')
    assert harness.says('tracker')[1] == message
    harness.publish_task('panda_push')
    harness.spin_until(lambda: node.count_publishers('tracking/block'))
    assert 'no node publishes /depth/camera_info' in harness.says('tracker')[1]


@pytest.mark.alone
def test_objects_of_the_simulated_task_are_tracked_in_its_images(harness):
    task = harness.publish_task('panda_push')
    view = depth_camera(task, task.visual_model())
    pose = {'camera_position': list(view.position), 'camera_quaternion': view.quaternion.tolist()}
    heard = harness.listen(PoseStamped, 'tracking/block', qos.MEASURED)
    images = harness.listen(Image, IMAGE, qos.SENSOR)  # all of them, also if we are late
    harness.spawn(
        NodeSpec('simulator', {'tracked_poses': False}), NodeSpec('depth_camera'),
        NodeSpec('tracker', pose),
    )  # fmt: skip
    harness.spin_until(lambda: len(heard) > 3, 60.0)
    assert images[-1].header.frame_id == 'depth_camera_optical_frame'
    assert heard[-1].header.frame_id == task.robot.frame
    known = {convert.to_seconds(message.header.stamp) for message in images}
    assert {convert.to_seconds(message.header.stamp) for message in heard[1:]} <= known
    found, item = heard[-1].pose.position, task.objects['block']
    # 5 mm: five of its standard deviations, about
    true = task.start().qpos[item.qpos : item.qpos + 3]
    assert np.linalg.norm(np.array([found.x, found.y, found.z]) - true) < 0.005


def write_bag(folder, transform=True):
    """Write a bag of a block that slides by 1 cm an image beside an arm that swings."""
    (folder / 'scene.xml').write_text(WITH_ARM)
    model, settings = mujoco.MjModel.from_xml_string(WITH_ARM), DepthCameraConfig()
    writer, rng, data = BagWriter(folder / 'bag'), np.random.default_rng(0), mujoco.MjData(model)

    def write(topic, message, stamp, kind=None):
        if topic not in writer.counts:
            known = TransformStamped if kind else type(message)
            fields = 'geometry_msgs/TransformStamped[] transforms' if kind else None
            text = message_definitions.text(known, fields)
            writer.add(BagTopic(topic, kind or message_definitions.name(known), text))
        raw = transforms.to_cdr([message]) if kind else serialize_message(message)
        writer.write(topic, raw, int(stamp * 1e9), int(stamp * 1e9))

    if transform:
        pose = write_transform(0.0, 'world', 'lens', VIEW)
        write('/tf_static', pose, 99.0, transforms.KIND)
    for i in range(5):
        data.qpos[0], data.joint('swing').qpos, stamp = 0.01 * i, 0.05 * i, 100.0 + 0.04 * i
        mujoco.mj_kinematics(model, data)
        joints = JointState(name=['swing', 'other'], position=[0.05 * i, 0.0])
        joints.header.stamp = convert.to_stamp(stamp)
        depth = renderer.render_scene(model, data, VIEW)
        write('/joint_states', joints, stamp)
        write('/depth/camera_info', write_camera(stamp, 'lens', VIEW), stamp)
        image_of = write_depth(stamp, 'lens', add_noise(settings, depth, rng))
        write('/depth/image', image_of, stamp)
    writer.close()
    return folder / 'bag'


def test_parts_are_tracked_in_a_bag(parts, capsys):
    bag, out = write_bag(parts.parent), parts.parent / 'tracks.csv'
    words = ['track', str(bag), '--parts', str(parts), '--out', str(out)]
    assert main(words) == 0, capsys.readouterr().err
    (pose,) = (one for one in tables.read(out) if one.kind == 'pose')
    np.testing.assert_allclose(pose.time, 0.04 * np.arange(5), atol=1e-6)  # from the first image
    # 5 mm: five of its standard deviations, about
    np.testing.assert_allclose(pose.values[:, 0], 0.01 * np.arange(5), atol=0.005)
    assert main([*words, '--image-topic', 'color/image']) == 2
    assert 'no message on color/image; the bag contains: depth/camera_info' in (
        capsys.readouterr().err
    )
    assert main([*words, '--frame', 'map']) == 2
    assert "no transform from 'lens' to 'map'" in capsys.readouterr().err
    assert main([*words[:2], '--out', str(out)]) == 2
    assert 'has no task on emppi/task' in capsys.readouterr().err


def test_images_are_read_in_metres_whatever_their_encoding():
    depth = np.random.default_rng(0).uniform(0.5, 3.0, (4, 6))
    np.testing.assert_allclose(read_depth(image(depth, 0.0)), depth, rtol=1e-6)  # 32 bits
    # millimetres, cut off
    np.testing.assert_allclose(read_depth(image(depth, 0.0, True)), depth, atol=0.001)
    wrong = image(depth, 0.0)
    wrong.encoding = 'rgb8'
    with pytest.raises(PoseError, match="encoding 'rgb8'; expected one of 16UC1"):
        read_depth(wrong)
    short = image(depth, 0.0)
    short.height = 5
    with pytest.raises(PoseError, match='image of 6 x 5 px with 96 bytes, 24 a row'):
        read_depth(short)


def test_images_and_intrinsics_that_are_written_are_read_again():
    depth = np.array([[0.5, np.nan, 70.0], [1.2345, np.inf, 0.0]])
    expected = [[0.5, 0.0, 0.0], [1.2345, 0.0, 0.0]]  # 16 bits end at 65.5 m
    found = read_depth(write_depth(0.0, 'lens', depth))
    np.testing.assert_allclose(found, expected, atol=0.5e-3 + 1e-9)  # rounded to millimetres
    pose = Pose(np.array(VIEW.position), VIEW.quaternion)
    read = read_camera(write_camera(0.0, 'lens', VIEW), pose)
    assert (read.width, read.height, read.fx, read.fy, read.cx, read.cy) == (
        VIEW.width, VIEW.height, VIEW.fx, VIEW.fy, VIEW.cx, VIEW.cy,
    )  # fmt: skip
    np.testing.assert_allclose(read.matrix, VIEW.matrix, atol=1e-12)


def test_distorted_images_are_refused():
    info = camera_info()
    info.d = [0.1, 0.0, 0.0, 0.0, 0.0]
    with pytest.raises(PoseError, match='raw images with distortion'):
        read_camera(info, Pose(np.array(VIEW.position), VIEW.quaternion), 'image_raw')


def test_the_pose_of_a_camera_follows_from_a_chain_of_static_transforms():
    rng, known = np.random.default_rng(0), {}
    turns = Rotation.random(3, random_state=rng)
    places = rng.normal(size=(3, 3))
    matrices = []
    names = (('base', 'mount'), ('mount', 'camera'), ('base', 'world'))
    for (parent, child), place, turn in zip(names, places, turns, strict=True):
        message = TransformStamped(child_frame_id=child)
        message.header.frame_id = parent
        x, y, z, w = turn.as_quat()
        message.transform.translation = Vector3(x=place[0], y=place[1], z=place[2])
        message.transform.rotation = Quaternion(x=x, y=y, z=z, w=w)
        add_transforms(known, SimpleNamespace(transforms=[message]))
        matrices.append(np.eye(4))
        matrices[-1][:3, :3], matrices[-1][:3, 3] = turn.as_matrix(), place
    mount, lens, world = matrices
    expected = np.linalg.inv(world) @ mount @ lens
    found = find_pose(known.get, 'camera', 'world')
    np.testing.assert_allclose(found.position, expected[:3, 3], atol=1e-12)
    w, x, y, z = found.quaternion
    matrix = Rotation.from_quat([x, y, z, w]).as_matrix()
    np.testing.assert_allclose(matrix, expected[:3, :3], atol=1e-12)
    with pytest.raises(PoseError, match="from 'lens' to 'world': they lead to 'lens'"):
        find_pose(known.get, 'lens', 'world')
    with pytest.raises(PoseError, match='no frame_id'):
        find_pose(known.get, '', 'world')
