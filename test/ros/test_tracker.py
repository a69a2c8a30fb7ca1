"""The node `tracker` publishes poses from depth images, and says what it lacks."""

import mujoco
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import CameraInfo, Image, JointState

from emppi_ros.core.errors import ConfigError, PoseError
from emppi_ros.model import scene
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.diagnostics import OK
from emppi_ros.nodes.tracker.images import read_camera, read_depth
from emppi_ros.nodes.tracker.node import IMAGE, INFO, JOINTS, TrackerNode
from emppi_ros.tracking import camera, depth_noise, renderer

SCENE = """
<mujoco>
  <worldbody>
    <geom type="plane" size="2 2 0.1"/>
    <body name="block" pos="0 0 0.06"><freejoint/><geom type="box" size="0.1 0.07 0.06"/></body>
  </worldbody>
</mujoco>"""
VIEW = camera.looking_at(160, 120, 40.0, np.array([0.7, -1.0, 0.8]), np.zeros(3))


def image(depth, stamp, millimetres=False):
    values = np.nan_to_num(1000 * depth).astype('<u2') if millimetres else depth.astype('<f4')
    message = Image(height=depth.shape[0], width=depth.shape[1], data=values.tobytes())
    message.encoding = '16UC1' if millimetres else '32FC1'
    message.step = values.itemsize * depth.shape[1]
    message.header.stamp = convert.to_stamp(stamp)
    return message


def camera_info():
    message = CameraInfo(width=VIEW.width, height=VIEW.height)
    message.k = [VIEW.fx, 0.0, VIEW.cx, 0.0, VIEW.fy, VIEW.cy, 0.0, 0.0, 1.0]
    return message


@pytest.fixture
def parts(tmp_path):
    (tmp_path / 'scene.xml').write_text(SCENE)
    (tmp_path / 'parts.yaml').write_text('scene: scene.xml\nparts: {block: {}}\n')
    return tmp_path / 'parts.yaml'


def test_poses_of_a_moving_block_are_published_with_the_stamps_of_images(harness, parts):
    node = harness.make(
        TrackerNode,
        parts=str(parts),
        frame='base',
        camera_position=list(VIEW.position),
        camera_quaternion=VIEW.quaternion.tolist(),
    )
    heard = harness.listen(PoseStamped, 'tracking/block', qos.MEASURED)
    infos = harness.publisher(CameraInfo, INFO)
    images = harness.publisher(Image, IMAGE)
    harness.spin_until(lambda: images.get_subscription_count() and infos.get_subscription_count())
    harness.spin_until(lambda: 'waiting for depth/camera_info' in harness.says('tracker')[1])
    infos.publish(camera_info())
    harness.spin_until(lambda: node._tracked is not None)
    model, rng = mujoco.MjModel.from_xml_string(SCENE), np.random.default_rng(0)
    settings = depth_noise.DepthCameraConfig()
    for i in range(4):
        data = mujoco.MjData(model)
        data.qpos[0] = 0.01 * i
        mujoco.mj_forward(model, data)
        depth = renderer.render_scene(model, data, VIEW)
        depth = depth_noise.add_noise(settings, depth, rng)
        images.publish(image(depth, 10.0 + i / 15.0, millimetres=i % 2 == 1))
        harness.spin_until(lambda i=i: len(heard) == i + 1)
        message = heard[-1]
        assert message.header.frame_id == 'base'
        assert convert.to_seconds(message.header.stamp) == pytest.approx(10.0 + i / 15.0)
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
    arm = (
        '<body pos="-0.6 0 0.08"><joint name="swing" axis="0 0 1"/>'
        '<geom type="capsule" fromto="0 0 0 0.45 0 0" size="0.04"/></body></worldbody>'
    )
    (tmp_path / 'scene.xml').write_text(SCENE.replace('</worldbody>', arm))
    (tmp_path / 'parts.yaml').write_text('scene: scene.xml\nparts: {block: {}}\n')
    node = harness.make(
        TrackerNode,
        parts=str(tmp_path / 'parts.yaml'),
        camera_position=list(VIEW.position),
        camera_quaternion=VIEW.quaternion.tolist(),
    )
    states = harness.publisher(JointState, JOINTS)
    harness.spin_until(states.get_subscription_count)
    node._take_camera(camera_info())
    empty = node._tracked.background
    for i in range(3):
        message = JointState(name=['swing', 'other'], position=[0.2 * i, 1.0])
        message.header.stamp = convert.to_stamp(float(i))
        states.publish(message)
    harness.spin_until(lambda: node._joint_states.poll() or len(node._joints) == 3)
    node._draw_robot(1.1)
    data = scene.kinematics(node._file.model, node._file.model.qpos0)
    data.joint('swing').qpos = 0.2
    data = scene.kinematics(node._file.model, data.qpos.copy())
    block = node._file.bodies
    expected = renderer.render_scene(node._file.model, data, node._camera, block)
    np.testing.assert_array_equal(node._tracked.background, expected)
    assert not np.array_equal(expected, empty)


def test_a_file_that_does_not_exist_is_named(harness):
    with pytest.raises(ConfigError, match='none.yaml: cannot be read'):
        harness.make(TrackerNode, parts='none.yaml')


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


def test_distorted_images_are_refused():
    info = camera_info()
    info.d = [0.1, 0.0, 0.0, 0.0, 0.0]
    with pytest.raises(PoseError, match='subscribe to rectified ones'):
        read_camera(info, VIEW.position, VIEW.quaternion)
    info.d = [0.0] * 5
    found = read_camera(info, VIEW.position, VIEW.quaternion)
    np.testing.assert_allclose(found.matrix, VIEW.matrix, atol=1e-12)
    assert (found.fx, found.cy) == (VIEW.fx, VIEW.cy)
