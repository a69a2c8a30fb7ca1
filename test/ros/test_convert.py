"""Messages keep their meaning both ways, and bad ones are named errors."""

from array import array
import math

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from emppi_ros.bridge import stop_trajectory
from emppi_ros.bridge.joint_trajectory import MotionState
from emppi_ros.core.errors import BeliefError, EmppiError, JointStateError, PlanError, PoseError
from emppi_ros.core.pose import Pose
from emppi_ros.nodes.common import convert
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.priors.particles import Belief, uniform
from emppi_ros.robots import plan as plans
from emppi_ros.robots.robot import load_robot
from emppi_ros.tasks.task import load_task

ROBOT = load_robot('panda')
N = len(ROBOT.joints)


@pytest.fixture(scope='module')
def task():
    return load_task('panda_push')


def joint_state():
    return convert.write_joints(ROBOT, 12.25, np.arange(N) + 0.5, -np.arange(N) - 0.5)


def plan(start=100.0):
    return plans.make(ROBOT, start, np.zeros(N), np.full((4, N), 0.1), 0.05, 'linear')


def test_efforts_are_said_where_they_were_measured():
    rows = np.zeros(N), np.zeros(N)
    effort = np.append(np.arange(N - 1.0), np.nan)
    message = convert.write_joints(ROBOT, 0.0, *rows, effort)
    np.testing.assert_array_equal(message.effort, effort)
    assert not convert.write_joints(ROBOT, 0.0, *rows).effort


def test_stamps_keep_nanoseconds_apart_that_a_float_can_hold():
    assert convert.to_seconds(convert.to_stamp(1_700_000_000.25)) == 1_700_000_000.25
    assert convert.to_seconds(convert.to_stamp(-0.25)) == -0.25
    with pytest.raises(EmppiError, match='ROS time'):
        convert.to_stamp(math.nan)


def test_joint_state_round_trip():
    stamp, position, velocity = convert.read_joints(ROBOT, joint_state())
    assert stamp == 12.25
    np.testing.assert_array_equal(position, np.arange(N) + 0.5)
    np.testing.assert_array_equal(velocity, -np.arange(N) - 0.5)


def test_joint_state_is_mapped_by_name_and_may_hold_more():
    message = joint_state()
    order = np.random.default_rng(0).permutation(N + 1)
    names = [*message.name, 'finger']
    message.name = [names[i] for i in order]
    message.position = [[*np.arange(N) + 0.5, 9.0][i] for i in order]
    message.velocity = [[*-np.arange(N) - 0.5, 9.0][i] for i in order]
    for found, expected in zip(
        convert.read_joints(ROBOT, message), convert.read_joints(ROBOT, joint_state()), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def spoil_missing(m):
    m.name, m.position, m.velocity = m.name[1:], m.position[1:], m.velocity[1:]


def spoil_renamed(m):
    m.name[2] = 'elbow'


def spoil_nan(m):
    m.position[3] = math.nan


def spoil_twice(m):
    m.name = [*m.name, m.name[0]]
    m.position = array('d', [*m.position, 0.0])
    m.velocity = array('d', [*m.velocity, 0.0])


def spoil_no_velocity(m):
    m.velocity = []


def spoil_short(m):
    m.position = m.position[:-1]


@pytest.mark.parametrize(
    ('spoil', 'words'),
    [
        (spoil_missing, 'missing joints: panda_joint1;.*panda_joint2'),
        (spoil_renamed, 'missing joints: panda_joint3;.*elbow'),
        (spoil_nan, 'position of panda_joint4 is not finite'),
        (spoil_twice, 'given twice: panda_joint1'),
        (spoil_no_velocity, 'velocity: 0 values'),
        (spoil_short, 'position: 6 values for 7'),
    ],
)
def test_bad_joint_states_are_named_errors(spoil, words):
    message = joint_state()
    spoil(message)
    with pytest.raises(JointStateError, match=words):
        convert.read_joints(ROBOT, message)


def test_pose_round_trip_changes_the_order_of_quaternions():
    pose = Pose(np.array([1.0, 2.0, 3.0]), np.array([0.5, -0.5, 0.1, 0.7]))
    message = convert.write_pose(ROBOT.frame, 3.5, pose)
    assert message.pose.orientation.w == 0.5 and message.pose.orientation.z == 0.7
    stamp, back = convert.read_pose(ROBOT, message)
    assert stamp == 3.5
    np.testing.assert_array_equal(back.position, pose.position)
    np.testing.assert_array_equal(back.quaternion, pose.quaternion)


def test_pose_of_another_frame_names_both():
    message = convert.write_pose(ROBOT.frame, 0.0, Pose(np.zeros(3), np.array([1.0, 0, 0, 0])))
    message.header.frame_id = 'camera'
    with pytest.raises(PoseError, match="'camera'.*'panda_link0'"):
        convert.read_pose(ROBOT, message)


def test_plan_round_trip():
    sent = plan()
    back = convert.read_plan(ROBOT, convert.write_plan(ROBOT, sent), 99.9)
    assert back.start == sent.start
    np.testing.assert_array_equal(back.values, sent.values)
    np.testing.assert_allclose(back.times, sent.times, atol=1e-9)  # a Duration counts nanoseconds


def test_plan_with_permuted_joints_is_the_same_plan():
    sent, message = plan(), convert.write_plan(ROBOT, plan())
    message.joint_names = message.joint_names[::-1]
    for point in message.points:
        point.velocities = point.velocities[::-1]
    np.testing.assert_array_equal(convert.read_plan(ROBOT, message, 99.9).values, sent.values)


def spoil_joints(m):
    m.joint_names[0] = 'other'


def spoil_value(m):
    m.points[1].velocities[2] = math.nan


def spoil_width(m):
    m.points[1].velocities = [0.0]


def spoil_field(m):
    for point in m.points:
        point.positions, point.velocities = point.velocities, []


def spoil_empty(m):
    m.points = []


def spoil_end(m):
    m.points = m.points[:-1]


def spoil_limit(m):
    m.points[1].velocities[0] = 99.0


@pytest.mark.parametrize(
    ('spoil', 'words'),
    [
        (spoil_joints, 'plan for joints other.*expected exactly panda_joint1'),
        (spoil_value, 'not finite'),
        (spoil_width, 'point 1 has 1 velocities for 7 joints'),
        (spoil_field, 'commanded by velocity'),
        (spoil_empty, '0 points'),
        (spoil_end, 'does not end at rest'),
        (spoil_limit, 'beyond the velocity limits of panda_joint1'),
    ],
)
def test_bad_plans_are_named_errors(spoil, words):
    message = convert.write_plan(ROBOT, plan())
    spoil(message)
    with pytest.raises(PlanError, match=words):
        convert.read_plan(ROBOT, message, 99.9)


def test_a_plan_of_the_past_is_an_error():
    with pytest.raises(PlanError, match='ended .* ago'):
        convert.read_plan(ROBOT, convert.write_plan(ROBOT, plan()), 200.0)


def trajectory():
    state = MotionState(np.arange(N) * 0.1, np.arange(N) * 0.05, np.zeros(N))
    return stop_trajectory.build(ROBOT, state, 0.02, 0.06)


def test_trajectory_round_trip_in_any_order_of_joints():
    message = convert.write_trajectory(ROBOT, trajectory(), convert.to_stamp(12.5))
    assert convert.to_seconds(message.header.stamp) == 12.5
    message.joint_names = message.joint_names[::-1]
    for point in message.points:
        for name in ('positions', 'velocities', 'accelerations'):
            setattr(point, name, getattr(point, name)[::-1])
    found = convert.read_trajectory(ROBOT, message)
    for a, b in zip(found[1:4], trajectory()[1:4], strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(found.times, trajectory().times, atol=1e-9)  # nanoseconds


@pytest.mark.parametrize(
    ('spoil', 'words'),
    [
        (lambda m: m.joint_names.__setitem__(0, 'elbow'), 'elbow'),
        (lambda m: m.points.clear(), 'every joint'),
        (lambda m: setattr(m.points[0], 'velocities', []), 'every joint'),
        (lambda m: m.points.reverse(), 'increase'),
        (lambda m: m.points[0].positions.__setitem__(0, math.nan), 'finite'),
        (lambda m: m.points.pop(), 'rest'),
    ],
)
def test_bad_trajectories_are_named_errors(spoil, words):
    message = convert.write_trajectory(ROBOT, trajectory(), convert.to_stamp(12.5))
    spoil(message)
    with pytest.raises(PlanError, match=words):
        convert.read_trajectory(ROBOT, message)


def test_commands_and_applied_round_trip():
    command = np.linspace(-1.0, 1.0, N)
    message = convert.write_command(command)
    np.testing.assert_array_equal(convert.read_command(ROBOT, message), command)
    stamp, back = convert.read_applied(
        ROBOT, convert.write_applied(ROBOT, convert.to_stamp(7.5), command)
    )
    assert stamp == 7.5
    np.testing.assert_array_equal(back, command)


@pytest.mark.parametrize(
    ('values', 'words'), [([0.0] * 6, '6 values; expected 7'), ([math.inf] * 7, 'not finite')]
)
def test_bad_commands_are_named_errors(values, words):
    with pytest.raises(JointStateError, match=words):
        convert.read_command(ROBOT, convert.write_command(values))


def belief(task):
    rng = np.random.default_rng(1)
    return uniform(rng.uniform(0.1, 0.5, size=(10, len(task.parameters))))


def test_belief_round_trip_keeps_every_bit_of_theta(task):
    sent = belief(task)
    back = belief_cloud.read_belief(task, belief_cloud.write_belief(task, 1.0, sent))
    np.testing.assert_array_equal(back.theta, sent.theta)
    # log(exp(x)) is good to a few units in the last place
    np.testing.assert_allclose(back.log_weights, sent.log_weights, rtol=1e-14)


def test_belief_round_trip_keeps_particles_without_weight(task):
    theta = belief(task).theta[:2]
    sent = Belief(theta, np.array([0.0, -np.inf]))
    back = belief_cloud.read_belief(task, belief_cloud.write_belief(task, 1.0, sent))
    np.testing.assert_array_equal(back.log_weights, sent.log_weights)


def spoiled_belief(task, **columns):
    """Return a belief message with other values in a column."""
    message = belief_cloud.write_belief(task, 1.0, belief(task))
    names = [field.name for field in message.fields]
    table = np.frombuffer(bytes(message.data)).reshape(-1, len(names)).copy()
    for name, value in columns.items():
        table[:, names.index(name)] = value
    message.data = array('B', table.tobytes())
    return message


@pytest.mark.parametrize(
    ('columns', 'words'),
    [
        ({'weight': math.nan}, 'weights are not finite'),
        ({'weight': -1.0}, 'weights are not finite'),
        ({'weight': 0.0}, 'positive sum'),
        ({'block_mass': math.nan}, 'parameters that are not finite'),
        ({'block_mass': -1.0}, 'block_mass from -1 to -1; the task allows'),
    ],
)
def test_beliefs_with_impossible_values_are_errors(task, columns, words):
    with pytest.raises(BeliefError, match=words):
        belief_cloud.read_belief(task, spoiled_belief(task, **columns))


def test_belief_about_other_parameters_names_both_sides(task):
    message = belief_cloud.write_belief(task, 1.0, belief(task))
    message.fields[1].name = 'drawer_damping'
    with pytest.raises(BeliefError, match='drawer_damping.*needs exactly weight, block_mass'):
        belief_cloud.read_belief(task, message)


def test_belief_with_a_broken_layout_is_an_error(task):
    message = belief_cloud.write_belief(task, 1.0, belief(task))
    message.data = message.data[:-1]
    with pytest.raises(BeliefError, match='10 particles'):
        belief_cloud.read_belief(task, message)
    message = belief_cloud.write_belief(task, 1.0, belief(task))
    message.fields[2].offset = 1000
    with pytest.raises(BeliefError, match='lies outside a point'):
        belief_cloud.read_belief(task, message)


def test_belief_is_read_from_float32_of_the_other_byte_order(task):
    sent = belief(task)
    names = ['weight', *(p.name for p in task.parameters)]
    table = np.column_stack([np.exp(sent.log_weights), sent.theta]).astype('>f4')
    message = belief_cloud.write_belief(task, 1.0, sent)
    for i, field in enumerate(message.fields):
        field.offset, field.datatype = 4 * i, 7
    message.is_bigendian, message.point_step = True, 4 * len(names)
    message.data = array('B', table.tobytes())
    back = belief_cloud.read_belief(task, message)
    np.testing.assert_array_equal(back.theta, sent.theta.astype(np.float32))


@pytest.mark.filterwarnings('error')
def test_a_belief_of_signalling_nan_is_refused_without_a_warning(task):
    sent = belief(task)
    names = ['weight', *(p.name for p in task.parameters)]
    message = belief_cloud.write_belief(task, 1.0, sent)
    for i, field in enumerate(message.fields):
        field.offset, field.datatype = 4 * i, 7
    message.point_step = 4 * len(names)
    rows = np.full((len(sent.theta), len(names)), 0x7F800001, dtype='<u4')  # its quiet bit is 0
    message.data = array('B', rows.tobytes())
    with pytest.raises(BeliefError, match='not finite'):
        belief_cloud.read_belief(task, message)
