"""Rows S4, S5 and S6: joint states in any order, wrong, noisy, or of another robot."""

import itertools

from faultlab import oracle
import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

from emppi_ros.bridge.commander import BridgeConfig, Commander
from emppi_ros.bridge.monitors import Measurement
from emppi_ros.core.errors import JointStateError
from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import convert, qos
from emppi_ros.robots import plan as plans
from emppi_ros.robots.robot import load_robot

PANDA, FR3 = load_robot('panda'), load_robot('fr3')
HOME = np.array(PANDA.home)
PERIOD = 0.004


def _message(order, names=PANDA.joints, extra=()):
    rows = np.arange(1.0, 8.0)[list(order)]
    message = JointState(name=[names[i] for i in order])
    message.position, message.velocity = list(rows), list(10.0 * rows)
    for name in extra:
        message.name.append(name)
        message.position.append(99.0)
        message.velocity.append(99.0)
    return message


def test_s4_all_5040_orders_of_joints_are_the_same_state():
    for order in itertools.permutations(range(7)):
        extra = ['panda_finger_joint1', 'elsewhere'][: order[0] % 3]
        _, position, velocity = convert.read_joints(PANDA, _message(order, extra=extra))
        assert np.array_equal(position, np.arange(1.0, 8.0))
        assert np.array_equal(velocity, 10.0 * np.arange(1.0, 8.0))


def test_s4_whatever_is_spoiled_is_refused(rng):
    for _ in range(2000):
        order = rng.permutation(7)
        message, joint = _message(order), int(rng.integers(7))
        kind = rng.integers(7)
        if kind == 0:
            message.name[joint] = f'{message.name[joint]}_'
        elif kind == 1:
            message.name[joint] = message.name[(joint + 1) % 7]
        elif kind == 2:
            message.position[joint] = [np.nan, np.inf, -np.inf][rng.integers(3)]
        elif kind == 3:
            message.velocity[joint] = np.nan
        elif kind == 4:
            message.velocity = []
        elif kind == 5:
            message.position = list(message.position)[:-1]
        else:
            keep = [i for i in range(7) if i != joint]
            message.name = [message.name[i] for i in keep]
            message.position = [message.position[i] for i in keep]
            message.velocity = [message.velocity[i] for i in keep]
        with pytest.raises(JointStateError):
            convert.read_joints(PANDA, message)


def _drive(rng, spoil):
    """Return what a bridge commands to an arm whose measurements are spoiled."""
    commander = Commander(BridgeConfig(), PANDA)
    position, value, times, rows = np.array(HOME), np.zeros(7), [], []
    commander.measure(Measurement(0.0, 1.0, position, value))
    commander.arm(0.0)
    speeds = rng.uniform(-0.5, 0.5, 7)
    for k in range(300):
        now = k * PERIOD
        commander.measure(Measurement(now, 1.0 + now, *spoil(position, value)))
        if k % 12 == 0 and now < 0.9:
            controls = np.tile(speeds, (10, 1))
            commander.receive(plans.make(PANDA, now, speeds, controls, 0.05, 'linear'))
        value = commander.step(now)[0].value
        position = position + PERIOD * value
        times.append(now)
        rows.append(value)
    return oracle.Motion(np.array(times), np.array(rows))


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['bias', 'noise', 'outliers'])
def test_s5_whatever_is_measured_what_is_commanded_stays_legal(kind):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        bias = rng.normal(0.0, 0.02, 7)

        def spoil(position, velocity, rng=rng, bias=bias):
            if kind == 'bias':
                return position + bias, velocity + bias
            if kind == 'noise':
                return position + rng.normal(0, 0.01, 7), velocity + rng.normal(0, 0.1, 7)
            far = (rng.random(7) < 0.05) * rng.normal(0.0, 3.0, 7)
            return position + far, velocity + far

        motion = _drive(rng, spoil)
        # rounding of differences of 1e-16 over (4 ms)^2, of 750
        assert max(oracle.peaks(motion)) <= 1.0 + 1e-9
        assert not np.any(motion.velocities[-1])


def test_s6_joint_states_of_another_robot_arm_nothing(harness):
    harness.publish_task('panda_push')
    node = harness.make(BridgeNode)
    states = harness.publisher(JointState, 'joint_states', qos.SENSOR)
    home, zero = np.array(FR3.home), np.zeros(7)
    harness.feeds.append(
        lambda: states.publish(convert.write_joints(FR3, harness.now(), home, zero))
    )
    harness.spin_until(lambda: 'fr3_joint1' in harness.says('bridge')[1])
    answer = harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True))
    assert not answer.success
    assert 'joint state' in answer.message
    assert not node.command_loop.commander.ready
