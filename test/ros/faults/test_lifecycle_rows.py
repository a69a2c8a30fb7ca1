"""Row L1: random walks through the lifecycle, idle, moving and faulted."""

import contextlib

from faultlab.arm import Arm
from faultlab.campaign import COUNT
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.core.errors import ArmError
from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.robots import plan as plans

pytestmark = pytest.mark.alone

WALKS = 1000 if COUNT >= 3000 else 6
STEPS = 8
# generous ages, so that a busy machine does not look like a dead robot
PATIENT = {
    'plan_timeout_s': 1.0,
    'plan_lost_s': 1.5,
    'rest_within_s': 3.0,
    'state_timeout_s': 2.0,
    'jump_rad': 1.0,
    'frozen_after_s': 2.0,
    'residual_after_s': 2.0,
}
STATES = {'unconfigured', 'inactive', 'active'}


@pytest.fixture
def walker(harness):
    task = harness.publish_task('panda_push')
    robot, commands = task.robot, []
    states = harness.publisher(JointState, 'joint_states', qos.SENSOR)
    sender = harness.publisher(JointTrajectory, 'emppi/plan')
    node = harness.make(BridgeNode, autostart=False, **PATIENT)
    topic = robot.topics.commands['velocity']
    take = PolledSubscription(
        harness.tester, Float64MultiArray, topic, commands.append, qos.DEFAULT
    )
    arm, world = Arm(robot.home), {'states': True, 'plans': True, 'speed': 0.1}

    def feed():
        if commands:
            arm.follow(commands[-1].data)
        if world['states']:
            states.publish(convert.write_joints(robot, harness.now(), *arm.measure()))
        if world['plans']:
            row = np.full(7, world['speed'])
            made = plans.make(robot, harness.now(), row, np.tile(row, (10, 1)), 0.05, 'linear')
            sender.publish(convert.write_plan(robot, made))

    harness.feeds += [feed, take.poll]
    harness.spin_until(lambda: node.follow.newest)
    return node, commands, world


def _walk(harness, walker, rng):
    node, commands, world = walker
    transitions = [
        node.trigger_configure, node.trigger_activate, node.trigger_deactivate,
        node.trigger_cleanup,
    ]  # fmt: skip
    for _ in range(STEPS):
        kind = rng.integers(8)
        if kind < 4:  # allowed or not: an error is an answer, a crash is not
            try:
                transitions[kind]()
            except Exception as error:  # rclpy's own, of a transition that is not there
                assert 'transition' in str(error).lower(), error
        elif kind == 4:
            with contextlib.suppress(ArmError):
                node._arm(bool(rng.random() < 0.8))
        elif kind == 5:
            with contextlib.suppress(ArmError):
                node._pause(bool(rng.random() < 0.3))
        else:
            world['states' if kind == 6 else 'plans'] ^= rng.random() < 0.5
        before = node.state
        assert before in STATES and not node.failed
        harness.spin_for(rng.uniform(0.0, 0.1))
        if before != 'active':  # what was commanded while it was active ended at rest
            harness.spin_for(0.05)  # what was sent before has arrived
            count = len(commands)
            harness.spin_for(0.02)
            assert len(commands) == count
            assert not commands or not np.any(commands[-1].data)
    for step in (node.trigger_deactivate, node.trigger_cleanup):
        if (
            node.state
            == {'trigger_deactivate': 'active', 'trigger_cleanup': 'inactive'}[step.__name__]
        ):
            step()
    world.update(states=True, plans=True)
    assert node.state == 'unconfigured'


@pytest.mark.slow
@pytest.mark.timeout(120 + 2 * WALKS)
def test_l1_random_walks_never_crash_and_only_an_active_bridge_moves(
    harness, walker, record_property
):
    moved = 0
    for seed in range(WALKS):
        rng = np.random.default_rng(seed)
        del walker[1][:]
        walker[2]['speed'] = 0.1 if seed % 2 else -0.1  # to and fro: end stops are near after many
        if seed % 3 == 0:  # from a bridge that moves
            node, commands, _ = walker
            node.trigger_configure()
            node.trigger_activate()
            harness.spin_until(lambda node=node: node.command_loop.commander.ready)
            assert node._arm(True) == 'armed'
            harness.spin_until(lambda commands=commands: commands and np.any(commands[-1].data))
            moved += 1
        _walk(harness, walker, rng)
    record_property('count', WALKS)
    assert moved > 0
