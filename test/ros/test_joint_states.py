"""Joint states in one message or in several, beside those of other joints."""

import dataclasses

import numpy as np
import pytest
from sensor_msgs.msg import JointState

from emppi_ros.bridge.joint_trajectory import Trajectory
from emppi_ros.core.errors import ConfigError, JointStateError
from emppi_ros.nodes.common import convert
from emppi_ros.nodes.common.inputs import MeasurementInputs
from emppi_ros.nodes.common.joint_states import JointStateReader
from emppi_ros.tasks.task import load_task

ROBOT = load_task('panda_push').robot
N = len(ROBOT.joints)
POSITION, VELOCITY = np.arange(N) * 0.1, np.arange(N) * 0.01


def part(rows, stamp=12.5, more=()):
    """Return a message with some joints of the robot, and others."""
    names = [ROBOT.joints[i] for i in rows]
    message = JointState(name=[*more, *names])
    message.header.stamp = convert.to_stamp(stamp)
    message.position = [9.0] * len(more) + POSITION[rows].tolist()
    message.velocity = [9.0] * len(more) + VELOCITY[rows].tolist()
    return message


def check(state, stamp):
    assert state[0] == stamp
    np.testing.assert_array_equal(state[1], POSITION)
    np.testing.assert_array_equal(state[2], VELOCITY)


def test_joints_may_have_other_names_than_in_the_scene():
    names = tuple(f'left_{name}' for name in ROBOT.joints)
    left = dataclasses.replace(ROBOT, ros_joints=names)
    message = convert.write_joints(left, 12.5, POSITION, VELOCITY)
    assert tuple(message.name) == names
    check(JointStateReader(left).read(message), 12.5)
    assert JointStateReader(left).read(part(range(N))) is None  # of the other arm
    sent = Trajectory(np.array([0.1]), *(POSITION[None], 0.0 * VELOCITY[None], VELOCITY[None]))
    written = convert.write_trajectory(left, sent, message.header.stamp)
    assert tuple(written.joint_names) == left.commanded_names
    np.testing.assert_array_equal(convert.read_trajectory(left, written).positions, [POSITION])
    with pytest.raises(ConfigError, match='ros_joints: 2 values, expected 7'):
        dataclasses.replace(ROBOT, ros_joints=('a', 'b'))


def test_messages_of_other_joints_are_ignored_in_silence():
    reader = JointStateReader(ROBOT)
    for k in range(100):
        assert reader.read(part([], more=['finger_joint'])) is None
        check(reader.read(part(range(N), 1.0 + k, more=['lift'])), 1.0 + k)


@pytest.mark.parametrize('lost', range(3))
@pytest.mark.parametrize('later', [0.01, 1.0])  # s, until the next state
def test_a_state_in_several_messages_has_the_stamp_of_its_oldest_part(lost, later):
    reader, parts = JointStateReader(ROBOT), np.array_split(np.arange(N), 3)
    for k, rows in enumerate(parts):  # the first state is incomplete
        assert k == lost or reader.read(part(rows, 1.0)) is None
    states = [reader.read(part(rows, 1.0 + later + 0.01 * k)) for k, rows in enumerate(parts)]
    (complete,) = [k for k, state in enumerate(states) if state is not None]
    if later == 1.0:  # old parts do not count
        assert complete == 2
        check(states[2], 2.0)
    else:
        assert complete == lost
        check(states[lost], 1.0 if lost < 2 else 1.0 + later)


def test_joints_that_stay_away_are_named_and_so_is_a_bad_value():
    reader = JointStateReader(ROBOT)
    with pytest.raises(
        JointStateError, match=f'missing joints: {ROBOT.joints[2]}; .*has: .*joint'
    ):
        for _ in range(100):
            reader.read(part([i for i in range(N) if i != 2]))
    check(reader.read(part(range(N), 3.0)), 3.0)
    assert reader.read(part([2])) is None  # counted anew
    spoiled = part([0, 1])
    spoiled.position[1] = np.nan
    with pytest.raises(JointStateError, match=f'position of {ROBOT.joints[1]} is not finite'):
        reader.read(spoiled)


def test_a_stamp_from_the_future_costs_its_own_message_only(harness):
    inputs, topic = MeasurementInputs(harness.tester, load_task('panda_push')), 'joint_states'
    inputs.poll()
    now = harness.tester.get_clock().now().nanoseconds * 1e-9
    inputs.receive(topic, part(range(N), now + 3600.0))
    assert '3600.0' in inputs.errors[topic] and 'synchronize the clocks' in inputs.errors[topic]
    inputs.receive(topic, part(range(N), now))
    assert inputs.stamps[topic] == pytest.approx(now, abs=1e-6) and not inputs.errors
    inputs.close()
