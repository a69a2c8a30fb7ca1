"""
Fuzzed messages (rows P5, S4): what is accepted is legal, what is refused is named, nothing else.

EMPPI_FUZZ_MESSAGES is the number of messages; `make fuzz` takes 1 000 000.
"""

from array import array
import collections
import itertools
import os
import time
import warnings

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

import message_cases as cases
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import convert
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.state.estimator import Estimator
from emppi_ros.tasks.task import load_task

MESSAGES = int(os.environ.get('EMPPI_FUZZ_MESSAGES', '4000'))
TASK = load_task('panda_push')
ROBOT = TASK.robot
GOOD_BELIEF = cases.good_belief(TASK)


def joints(rng):
    """Joint states are taken if, and only if, every joint is there once, with finite numbers."""
    message = cases.joints(rng, ROBOT)
    names, rows = list(message.name), (message.position, message.velocity)
    legal = all(names.count(name) == 1 for name in ROBOT.joints) and all(
        len(row) == len(names) and all(abs(row[names.index(n)]) <= 1e6 for n in ROBOT.joints)
        for row in rows
    )
    try:
        _, *found = convert.read_joints(ROBOT, message)
    except EmppiError:
        assert not legal
        return False
    for row, given in zip(found, rows, strict=True):
        assert row.tolist() == [given[names.index(name)] for name in ROBOT.joints]
    assert legal
    return True


def applied(rng):
    """What was applied is read like a joint state."""
    _, command = convert.read_applied(ROBOT, cases.joints(rng, ROBOT))
    assert command.shape == (7,) and np.isfinite(command).all()
    return True


def plans(rng):
    """A plan that is taken has every joint, is within limits, in order, and ends at rest."""
    message = cases.trajectory(rng, ROBOT)
    plan = convert.read_plan(ROBOT, message, cases.NOW)
    assert sorted(message.joint_names) == sorted(ROBOT.commanded)
    column = [list(message.joint_names).index(name) for name in ROBOT.commanded]
    given = [[point.velocities[i] for i in column] for point in message.points]
    assert plan.values.tolist() == given and np.isfinite(plan.times).all()
    assert np.all(np.abs(plan.values) <= np.array(ROBOT.limits.velocity) + 1e-9)
    assert not plan.values[-1].any() and np.all(np.diff(plan.times) > 0) and plan.times[0] >= 0
    assert cases.NOW < plan.end and plan.start < cases.NOW + 1.1
    return True


def trajectories(rng):
    """A trajectory that the simulated controller takes is finite, in order, and ends at rest."""
    found = convert.read_trajectory(ROBOT, cases.trajectory(rng, ROBOT, full=True))
    rows = (found.times, found.positions, found.velocities, found.accelerations)
    assert all(np.isfinite(row).all() for row in rows) and not found.velocities[-1].any()
    assert np.all(np.diff(found.times) > 0)
    return True


def commands(rng):
    """A command that the simulated controller takes has seven finite numbers."""
    found = convert.read_command(ROBOT, cases.command(rng, ROBOT))
    assert found.shape == (7,) and np.isfinite(found).all()
    return True


def poses(rng):
    """A pose that is taken leaves a state of finite numbers and a unit quaternion."""
    estimator = Estimator(TASK)
    estimator.add_joints(cases.NOW, np.zeros(7), np.zeros(7))
    for _ in range(2):
        stamp, pose = convert.read_pose(ROBOT, cases.pose(rng, ROBOT))
        if abs(stamp - cases.NOW) < 2.0:
            estimator.add_pose('block', stamp, pose)
            state = estimator.state(cases.NOW)
            assert np.isfinite(state.qpos).all() and np.isfinite(state.qvel).all()
            quaternion = state.qpos[TASK.objects['block'].qpos + 3 :][:4]
            assert abs(np.linalg.norm(quaternion) - 1.0) < 1e-9  # of numbers rounded at 1e-16
    return True


def beliefs(rng):
    """A belief that is taken has finite particles within bounds, and weights that sum to 1."""
    found = belief_cloud.read_belief(TASK, cases.belief(rng, TASK, GOOD_BELIEF))
    assert found.theta.shape == (len(found.log_weights), 2)
    for column, parameter in zip(found.theta.T, TASK.parameters, strict=True):
        assert np.all((column >= parameter.lower) & (column <= parameter.upper))
    assert abs(np.exp(found.log_weights).sum() - 1.0) < 1e-9  # sums of at most 1e5 numbers
    return True


KINDS = [joints, applied, plans, trajectories, commands, poses, beliefs]


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_message_is_taken_legally_or_refused_by_name(capfd):
    rng = np.random.default_rng(20200127)
    taken, refused, wrong = collections.Counter(), collections.Counter(), []
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        for index in range(MESSAGES):
            kind, state = KINDS[index % len(KINDS)], rng.bit_generator.state
            began = time.thread_time()
            try:
                which = taken if kind(rng) else refused
            except EmppiError as error:
                assert str(error)
                which = refused
            except Exception as error:
                wrong.append(f'{index} {kind.__name__}: {type(error).__name__}: {error} {state}')
                continue
            which[kind.__name__] += 1
            assert time.thread_time() - began < 1.0
    assert not wrong, f'{len(wrong)} of {MESSAGES}:\n' + '\n'.join(w[:500] for w in wrong[:10])
    assert capfd.readouterr() == ('', '')
    for kind in KINDS:  # each kind both ways, or the cases test nothing
        assert min(taken[kind.__name__], refused[kind.__name__]) > MESSAGES / len(KINDS) / 50
    print(f'{MESSAGES} messages: {taken.total()} legal, {refused.total()} refused, 0 others')


def test_every_order_of_seven_joints_is_the_same_state():
    values = np.random.default_rng(1).normal(size=(2, 7))
    for order in itertools.permutations(range(7)):
        message = JointState(name=[ROBOT.joints[i] for i in order])
        message.position, message.velocity = (array('d', row[list(order)]) for row in values)
        _, *found = convert.read_joints(ROBOT, message)
        assert np.array_equal(found, values)


def test_every_order_of_seven_joints_is_the_same_plan():
    values = np.vstack([np.random.default_rng(1).uniform(-1, 1, 7), np.zeros(7)])
    for order in itertools.permutations(range(7)):
        message = JointTrajectory(joint_names=[ROBOT.commanded[i] for i in order])
        for i, row in enumerate(values):
            point = JointTrajectoryPoint(velocities=array('d', row[list(order)]))
            point.time_from_start.sec = i
            message.points.append(point)
        assert np.array_equal(convert.read_plan(ROBOT, message, 0.0).values, values)


def test_messages_of_a_size_that_nobody_needs_are_refused_at_once():
    big = JointState(name=['x' * 10_000_000, *ROBOT.joints[1:]])
    big.position = big.velocity = array('d', [0.0] * 7)
    point = JointTrajectoryPoint(velocities=array('d', [0.0] * 7))
    long = JointTrajectory(joint_names=list(ROBOT.commanded), points=[point] * 1_000_000)
    wide = JointState(name=list(ROBOT.joints) * 100_000)
    wide.position = wide.velocity = array('d', bytes(8 * len(wide.name)))
    named = JointTrajectory(joint_names=['y' * 10_000_000])
    for read, message in (
        (lambda m: convert.read_joints(ROBOT, m), big),
        (lambda m: convert.read_joints(ROBOT, m), wide),
        (lambda m: convert.read_plan(ROBOT, m, 0.0), long),
        (lambda m: convert.read_plan(ROBOT, m, 0.0), named),
        (lambda m: convert.read_trajectory(ROBOT, m), named),
        (lambda m: convert.read_trajectory(ROBOT, m), long),
    ):
        began = time.thread_time()
        with pytest.raises(EmppiError) as refused:
            read(message)
        assert time.thread_time() - began < 1.0
        assert len(str(refused.value)) < 2100


@pytest.mark.parametrize('offset', [17, 2**31 - 8, 2**31, 2**32 - 2**20, 2**32 - 8, 2**32 - 1])
def test_a_field_outside_of_its_point_is_not_read(offset):
    """NumPy takes such an offset for a negative one: the process read elsewhere, or died."""
    message = cases.good_belief(TASK)
    message.fields[2].offset = offset
    with pytest.raises(EmppiError, match='lies outside a point of 24 bytes'):
        belief_cloud.read_belief(TASK, message)


def test_a_plan_of_nothing_is_refused_by_name():
    for empty in (JointTrajectory(), JointTrajectory(points=[JointTrajectoryPoint()])):
        with pytest.raises(EmppiError, match='plan for joints none'):
            convert.read_plan(ROBOT, empty, 0.0)
