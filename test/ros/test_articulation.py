"""The node `articulation` proposes joints of what moves, and hands them to the belief."""

import json

import mujoco
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from rclpy.serialization import serialize_message
from std_msgs.msg import String

from emppi_ros.articulation import report, topology, tracks
from emppi_ros.core.errors import ConfigError
from emppi_ros.core.pose import Pose
from emppi_ros.model import parameters
from emppi_ros.nodes.articulation.node import PROPOSAL, ArticulationNode
from emppi_ros.nodes.belief.node import BeliefNode
from emppi_ros.nodes.common import convert, interfaces, qos
from emppi_ros.nodes.common.diagnostics import WARN
from emppi_ros.nodes.common.inputs import UNCERTAIN
from emppi_ros.nodes.tools import message_definitions
from emppi_ros.recordings.bag_writer import BagTopic, BagWriter

DOOR = {
    'axis_x': 0.1, 'axis_y': -0.05, 'axis_z': 1.0,
    'pivot_x': -0.03, 'pivot_y': 0.2, 'pivot_z': 0.0,
}  # fmt: skip


def opened(task, period=0.1):
    """Yield noisy poses of a door's handle: at rest, and then while it opens."""
    theta = np.array([DOOR[parameter.name] for parameter in task.parameters])
    model = parameters.with_parameters(task.model, task.parameters, theta)
    data, item = mujoco.MjData(model), task.jointed['handle']
    rng = np.random.default_rng(0)
    for i in range(90):
        data.qpos[item.qpos] = 0.6 * np.clip((i - 30) / 60.0, 0.0, 1.0)
        mujoco.mj_kinematics(model, data)
        place = data.xpos[item.body] + 0.001 * rng.normal(size=3)
        yield i * period, Pose(place, data.xquat[item.body].copy())


@pytest.mark.slow
def test_a_door_that_somebody_opens_becomes_the_prior_of_the_belief(harness, tmp_path):
    task, prior = harness.publish_task('panda_cabinet'), str(tmp_path / 'known' / '{task}.yaml')
    model = tmp_path / 'door.xml'
    harness.make(ArticulationNode, prior=prior, model=str(model), rate_hz=5.0)
    harness.make(BeliefNode, prior=prior)
    harness.spin_until(lambda: harness.says('belief')[2].get('lifecycle') == 'active')
    harness.spin_until(
        lambda: harness.says('articulation')[1] == 'waiting for the motion of handle'
    )
    heard = harness.listen(String, PROPOSAL, qos.LATCHED)
    poses = harness.publisher(PoseStamped, 'tracking/handle')
    harness.spin_until(lambda: poses.get_subscription_count() >= 2)
    before = float(harness.says('belief')[2]['sd axis_z'])
    last = lambda: json.loads(heard[-1].data)['joints']['handle']  # noqa: E731
    for i, (stamp, pose) in enumerate(opened(task)):
        if i == 30:  # nothing has moved yet
            harness.spin_until(lambda: heard)
            assert last()['joint'] == 'undecided' and not (tmp_path / 'known').exists()
        poses.publish(convert.write_pose(task.robot.frame, stamp, pose))
        harness.spin_for(0.0)
    harness.spin_until(lambda: last()['joint'] == 'revolute')
    assert last()['log_odds'] > 3.0  # odds of 20 to 1
    written = str(tmp_path / 'known' / 'panda_cabinet.yaml')
    harness.spin_until(lambda: harness.says('belief')[2]['prior'] == written)
    harness.spin_until(lambda: float(harness.says('belief')[2]['sd axis_z']) < 0.2 * before)
    axis = np.array([float(harness.says('belief')[2][f'mean axis_{c}']) for c in 'xyz'])
    true = np.array([DOOR[f'axis_{c}'] for c in 'xyz'])
    sine = np.linalg.norm(np.cross(axis, true)) / np.linalg.norm(axis) / np.linalg.norm(true)
    # within five standard deviations of the first prior, or of a later one that is narrower
    assert np.degrees(np.arcsin(sine)) < 5.0 * last()['axis_sd_deg'] / 0.5
    assert mujoco.MjModel.from_xml_path(str(model)).njnt == 1
    assert len(list((tmp_path / 'known').iterdir())) == 1  # no copies of what the node wrote


def arrived(history):
    """Return the numbers of kept frames, and of covariances of the newest."""
    return len(history.kept), len(history.open.covariances) if history.open else 0


def test_a_live_tree_is_that_of_a_bag_with_the_same_poses_and_covariances(harness, tmp_path):
    task = harness.publish_task('panda_cabinet')
    node = harness.make(ArticulationNode, rate_hz=5.0)
    poses = harness.publisher(PoseStamped, 'tracking/handle')
    known = harness.publisher(PoseWithCovarianceStamped, f'{UNCERTAIN}/handle')
    heard = harness.listen(String, PROPOSAL, qos.LATCHED)
    harness.spin_until(lambda: poses.get_subscription_count() and known.get_subscription_count())
    harness.spin_until(lambda: node.state == 'active')
    assert harness.says('articulation')[2]['noise handle'] == '0.002 m, 1 degrees'
    bag, rng = BagWriter(tmp_path / 'bag'), np.random.default_rng(1)
    for publisher in (poses, known):
        kind = publisher.msg_type
        text = message_definitions.text(kind)
        bag.add(BagTopic(publisher.topic_name, message_definitions.name(kind), text))
    slow = list(opened(task, 0.25))[::2]  # so that all frames are kept
    for i, (stamp, pose) in enumerate(slow):
        root = rng.normal(size=(6, 6)) * ([0.001] * 3 + [0.01] * 3)
        covariance = root.T @ root + np.diag([1e-6] * 3 + [1e-4] * 3)
        if i % 4 == 0:  # the height is not seen
            covariance[2, 2] += 100.0**2
        messages = (
            convert.write_pose(task.robot.frame, stamp, pose),
            convert.write_uncertain_pose(task.robot.frame, stamp, pose, covariance),
        )
        for publisher, message in zip((poses, known), messages, strict=True):
            publisher.publish(message)
            if i < 44:  # the last frame stays open
                when = round(stamp * 1e9)
                bag.write(publisher.topic_name, serialize_message(message), when, when)
        harness.spin_until(lambda i=i: arrived(node._history) == (i, 1))
    bag.close()
    harness.spin_until(lambda: heard and json.loads(heard[-1].data)['time_s'] == slow[-2][0])
    live = json.loads(heard[-1].data)['joints']['handle']
    offline = report.summary(topology.infer(tracks.read([tmp_path / 'bag'])))['handle']
    assert offline['joint'] == 'revolute'
    # 1e-6: rounding of poses that are interpolated at their own times
    for key, value in offline.items():
        near = pytest.approx(value, rel=1e-6) if isinstance(value, float) else value
        assert live[key] == near, key
    assert harness.says('articulation')[2]['noise handle'] == f'{UNCERTAIN}/handle'
    known.publish(PoseWithCovarianceStamped(header=messages[1].header))
    harness.spin_until(lambda: harness.says('articulation')[0] == WARN)
    assert 'is not positive definite: smallest' in harness.says('articulation')[1]


def test_poses_in_another_frame_are_named_and_left_out(harness):
    task = harness.publish_task('panda_cabinet')
    node = harness.make(ArticulationNode, rate_hz=5.0)
    poses = harness.publisher(PoseStamped, 'tracking/handle')
    harness.spin_until(lambda: node.state == 'active' and poses.get_subscription_count())
    _, pose = next(opened(task))
    poses.publish(convert.write_pose('camera', 1.0, pose))
    harness.spin_until(lambda: harness.says('articulation')[0] == WARN)
    words = 'pose in frame' if interfaces.TFMessage is None else 'no transform from'
    assert f"tracking/handle: {words} 'camera'" in harness.says('articulation')[1]
    assert node._history.open is None


def test_a_prior_that_no_belief_can_read_is_refused(harness):
    with pytest.raises(ConfigError, match='prior.csv: expected a name ending in .yaml'):
        harness.make(ArticulationNode, prior='prior.csv')
