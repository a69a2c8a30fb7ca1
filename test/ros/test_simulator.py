"""The simulator is a robot and a tracker to the graph, and no more than that."""

import numpy as np
import pytest
import yaml

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from geometry_msgs.msg import PoseStamped
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.core.errors import ConfigError
from emppi_ros.core.paths import find_config
from emppi_ros.nodes.belief.node import BeliefNode
from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.graph import NodeSpec
from emppi_ros.nodes.simulator.node import SimulatorNode
from emppi_ros.robots import plan as plans

# generous ages, so that a busy machine does not look like a dead robot
PATIENT = {
    'plan_timeout_s': 1.0,
    'plan_lost_s': 2.0,
    'rest_within_s': 2.0,
    'state_timeout_s': 2.0,
    'residual_rad_per_s': 1.0,
}


@pytest.fixture
def simulated(harness):
    task = harness.publish_task('panda_push')
    states = harness.listen(JointState, 'joint_states', qos.SENSOR)
    poses = harness.listen(PoseStamped, 'tracking/block', qos.SENSOR)
    commands = harness.publisher(
        Float64MultiArray, task.robot.topics.commands['velocity'], qos.DEFAULT
    )
    node = harness.make(SimulatorNode)
    harness.spin_until(lambda: states and poses)
    return task, states, poses, commands, node


def test_it_measures_at_the_robot_and_the_object(harness, simulated):
    task, states, poses, _, _ = simulated
    stamp, position, _ = convert.read_joints(task.robot, states[-1])
    # encoders err by 1e-4 rad; an arm holding still sags far less than 0.05 rad
    np.testing.assert_allclose(position, task.robot.home, atol=0.05)
    assert abs(stamp - harness.now()) < 5.0  # the node's clock; only a dead machine is later
    stamp, pose = convert.read_pose(task.robot, poses[-1])
    expected = task.start().qpos[task.objects['block'].qpos :][:3]
    np.testing.assert_allclose(pose.position, expected, atol=0.02)  # ten standard deviations


def test_commands_move_it_and_a_reset_brings_it_back(harness, simulated):
    task, states, _, commands, _ = simulated
    push = convert.write_command([0.5, 0, 0, 0, 0, 0, 0])
    harness.feeds.append(lambda: commands.publish(push))
    harness.spin_until(lambda: convert.read_joints(task.robot, states[-1])[1][0] > 0.1)
    harness.feeds.clear()
    assert harness.call(Trigger, 'simulator/reset', Trigger.Request()).success
    harness.spin_until(lambda: abs(convert.read_joints(task.robot, states[-1])[1][0]) < 0.02)
    stamps = [convert.to_seconds(message.header.stamp) for message in states]
    assert np.all(np.diff(stamps) > 0.0)  # time never goes back


def test_subscribers_of_both_kinds_hear_it_and_an_operator_may_override_the_qos(harness):
    harness.publish_task('panda_push')
    names = {'joint_states': '/joint_states', 'tracking/block': '/tracking/block'}
    kinds = {'joint_states': JointState, 'tracking/block': PoseStamped}
    heard = [
        harness.listen(kinds[name], name, profile)
        for name in names
        for profile in (qos.SENSOR, qos.DEFAULT)  # MoveIt's state monitor wants a reliable one
    ]
    override = 'qos_overrides.{}.subscription.reliability'
    harness.make(SimulatorNode)
    belief = {
        override.format(n, 'subscription', 'reliability'): 'reliable' for n in names.values()
    }
    harness.make(BeliefNode, **belief)
    bridge = {override.format('/joint_states'): 'reliable'}
    node = harness.make(BridgeNode, **bridge)
    harness.spin_until(lambda: all(heard) and node.state == 'active')
    found = {
        (topic, info.node_name): info.qos_profile.reliability
        for topic in names
        for info in harness.tester.get_subscriptions_info_by_topic(topic)
    }
    reliable, best_effort = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
    for topic in names:
        (info,) = harness.tester.get_publishers_info_by_topic(topic)
        assert info.qos_profile.reliability == reliable
        assert found[topic, 'belief'] == reliable
    assert found['joint_states', 'bridge'] == reliable
    # and the bridge says what does not fit what it was told to request
    harness.publisher(JointState, 'joint_states', qos.SENSOR)
    harness.spin_until(lambda: 'make it publish reliable' in str(harness.says('bridge')[2]))
    assert qos.SENSOR.reliability == best_effort  # of all other nodes


def test_what_is_simulated_may_be_published_as_best_effort(harness):
    harness.publish_task('panda_push')
    name = 'qos_overrides./joint_states.publisher.reliability'
    harness.make(SimulatorNode, **{name: 'best_effort'})
    harness.spin_until(lambda: harness.tester.get_publishers_info_by_topic('joint_states'))
    (info,) = harness.tester.get_publishers_info_by_topic('joint_states')
    assert info.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT


@pytest.mark.parametrize('values', [[0.5] * 6, [np.nan] * 7])
def test_bad_commands_are_ignored(harness, simulated, values):
    task, states, _, commands, node = simulated
    harness.feeds.append(lambda: commands.publish(convert.write_command(values)))
    harness.spin_until(lambda: node._rejected > 10)
    assert int(harness.says('simulator')[2]['rejected_commands']) > 10
    np.testing.assert_allclose(
        convert.read_joints(task.robot, states[-1])[1], task.robot.home, atol=0.05
    )


def test_a_changing_truth_is_told_as_it_is(harness):
    harness.publish_task('panda_push')
    harness.make(SimulatorNode, truth=['block_mass=0.3,0.9@0.5'])
    told = []

    def changed():
        values = harness.says('simulator')[2]
        told.append((float(values['simulated_time_s']), float(values['true block_mass'])))
        return told[-1][1] == 0.9

    harness.spin_until(lambda: harness.says('simulator')[2].get('true block_mass'))
    harness.spin_until(changed)
    assert {mass for time, mass in told if time < 0.5} == {0.3}
    assert told[-1][0] >= 0.5  # the change acts from then on
    assert harness.call(Trigger, 'simulator/reset', Trigger.Request()).success
    harness.spin_until(lambda: harness.says('simulator')[2]['true block_mass'] == '0.3')


def test_a_robot_without_command_topics_is_said(harness, tmp_path):
    text = find_config('tasks', 'cartpole_swingup').read_text()
    robot = yaml.safe_load(find_config('robots', 'cartpole').read_text())
    del robot['topics']
    (tmp_path / 'robot.yaml').write_text(yaml.safe_dump(robot))
    task = tmp_path / 'task.yaml'
    task.write_text(yaml.safe_dump({**yaml.safe_load(text), 'robot': 'robot.yaml'}))
    harness.publish_task(str(task))
    harness.make(SimulatorNode)
    harness.spin_until(lambda: 'effort: missing' in harness.says('simulator')[1])


@pytest.mark.slow
@pytest.mark.parametrize('truth', ["['block_mas=0.3']", "['block_mass']"])
def test_bad_truth_is_said(harness, truth):
    harness.publish_task('panda_push')
    harness.spawn(NodeSpec('simulator', {'truth': truth})).ending.add('simulator')
    said = []

    def told():
        said.append(harness.children.last_words('simulator'))
        return 'block_mass' in said[-1] or 'name=value' in said[-1]

    harness.spin_until(told, 60.0)


@pytest.mark.parametrize('truth', [5, 'block_mass=0.3'])
def test_truth_that_is_no_list_is_an_error(harness, truth):
    with pytest.raises(ConfigError, match=f'truth: found {truth!r}, expected a list'):
        harness.make(SimulatorNode, truth=truth)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize('backend', ['forward', 'trajectory'])
def test_a_reset_in_motion_stops_and_disarms_the_bridge_and_is_no_fault(harness, backend):
    robot = harness.publish_task('panda_push').robot
    states = harness.listen(JointState, 'joint_states', qos.SENSOR)
    applied = harness.listen(JointState, 'emppi/applied')
    plans_out = harness.publisher(JointTrajectory, 'emppi/plan')
    row = np.full(7, 0.2)

    def plan():
        made = plans.make(robot, harness.now(), row, np.tile(row, (10, 1)), 0.05, 'linear')
        plans_out.publish(convert.write_plan(robot, made))

    harness.spawn(NodeSpec('bridge', {'backend': backend, **PATIENT}), NodeSpec('simulator'))
    harness.spin_until(lambda: applied)
    for _ in range(2):  # and it can be armed and reset again
        assert harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True)).success
        harness.feeds.append(plan)
        harness.spin_until(lambda: applied[-1].velocity[0] > 0.19)
        answer = harness.call(Trigger, 'simulator/reset', Trigger.Request())
        assert answer.success and 'the bridge is not armed' in answer.message
        count = len(states)
        harness.spin_until(lambda count=count: len(states) > count + 100)
        harness.feeds.clear()
        values = harness.says('bridge')[2]
        assert (values['state'], values['fault'], values['armed']) == ('inactive', '', 'False')
        position = convert.read_joints(robot, states[-1])[1]
        np.testing.assert_allclose(position, robot.home, atol=0.02)  # and it stays there


def test_a_real_robot_is_not_reset(harness):
    harness.make(BridgeNode, hardware=True, backend='trajectory')
    answer = harness.call(SetBool, 'emppi/reset', SetBool.Request(data=True))
    assert not answer.success and 'a real robot' in answer.message
