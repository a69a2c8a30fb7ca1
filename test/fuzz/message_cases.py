"""
Messages as they might arrive: real ones, with something wrong in most of them.

Every function draws from `rng` and returns a message; what is legal is said in `test_messages`.
"""

from array import array

from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import PoseStamped
import numpy as np
from sensor_msgs.msg import JointState, PointCloud2, PointField
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from emppi_ros.nodes.common import convert
from emppi_ros.nodes.topics import belief_cloud

POISON = [
    np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e300, -0.0, 1e18, 57.3, -180.0, 6.2832, 1e-9,
]  # fmt: skip
NOW = 1.7e9  # s, the clock of these messages
STAMPS = [(0, 0), (2**31 - 1, 10**9 - 1), (-(2**31), 0), (int(NOW) + 100, 0), (int(NOW) - 9, 5)]
NAMES = ['', 'x', 'panda_joint1 ', 'PANDA_JOINT1', 'panda_joint8', '\0', '\u2603', 'a' * 10000]


def poisoned(rng, values):
    """Return numbers with up to three of them replaced, or more or fewer of them."""
    values = [float(value) for value in values]
    how = rng.random()
    if how < 0.6:
        for _ in range(rng.integers(1, 4)):
            if values:
                values[rng.integers(len(values))] = POISON[rng.integers(len(POISON))]
    elif how < 0.7:
        values = values[: rng.integers(len(values) + 1)]
    elif how < 0.8:
        values += values[: rng.integers(1, 4)]
    elif how < 0.9:
        values = []
    else:
        factor = POISON[rng.integers(len(POISON))]
        values = [value * factor for value in values]
    return array('d', values)


def renamed(rng, names):
    """Return names with one missing, twice, renamed, or one too many."""
    names = list(names)
    how = rng.integers(5)
    i = int(rng.integers(len(names)))
    if how == 0:
        del names[i]
    elif how == 1:
        names[i] = names[rng.integers(len(names))]
    elif how == 2:
        names[i] = NAMES[rng.integers(len(NAMES))]
    elif how == 3:
        names.insert(i, NAMES[rng.integers(len(NAMES))])
    else:
        names = []
    return names


def stamped(rng, message):
    """Give a message a stamp of now, or one that is none."""
    sec, nanosec = int(NOW), int(rng.integers(10**9))
    if rng.random() < 0.1:
        sec, nanosec = STAMPS[rng.integers(len(STAMPS))]
    message.header.stamp = Time(sec=sec, nanosec=nanosec)
    return message


def joints(rng, robot, field=None):
    """Return a joint state in any order, with something wrong in two of three."""
    order = rng.permutation(len(robot.joints))
    names = [robot.joints[i] for i in order]
    rows = {name: array('d', rng.normal(size=len(names))) for name in ('position', 'velocity')}
    if rng.random() < 0.15:  # others may be there too
        names.insert(0, 'finger')
        rows = {name: array('d', [np.nan, *row]) for name, row in rows.items()}
    if rng.random() < 0.3:
        names = renamed(rng, names)
    for name in rows:
        if rng.random() < 0.25:
            rows[name] = poisoned(rng, rows[name])
    message = JointState(name=names)
    message.position, message.velocity = rows['position'], rows['velocity']
    message.effort = rows['velocity'] if rng.random() < 0.5 else array('d')
    return stamped(rng, message)


def trajectory(rng, robot, full=False):
    """Return a plan (or all of position, velocity and acceleration), wrong in two of three."""
    names = list(robot.commanded)
    count = int(rng.integers(1, 12))
    steps = rng.uniform(0.005, 0.1, count + 1).cumsum() - 0.005
    limit = np.array(robot.limits.velocity)
    values = rng.uniform(-1.0, 1.0, (count + 1, len(names))) * limit
    values[-1] = 0.0
    message = JointTrajectory(joint_names=names)
    for time, row in zip(steps.tolist(), values, strict=True):
        point = JointTrajectoryPoint(time_from_start=Duration(**convert._split(max(0.0, time))))
        point.velocities = array('d', row)
        if full:
            point.positions = point.accelerations = array('d', row)
        message.points.append(point)
    for change in rng.permutation(7)[: rng.integers(0, 3)]:
        _spoil(rng, message, change)
    return stamped(rng, message)


def _spoil(rng, message, how):
    points = message.points
    point = points[rng.integers(len(points))] if points else None
    if how == 0:
        message.joint_names = renamed(rng, message.joint_names or ['x'])
    elif how in (1, 2) and point is not None:
        field = ['velocities', 'positions', 'accelerations'][rng.integers(3)]
        setattr(point, field, poisoned(rng, getattr(point, field)))
    elif how == 3 and point is not None:
        sec = [0, -1, 2**31 - 1, -(2**31), 1][rng.integers(5)]
        point.time_from_start = Duration(sec=sec, nanosec=int(rng.integers(10**9)))
    elif how == 4:
        message.points = points[: rng.integers(len(points) + 1)]
    elif how == 5 and points:
        message.points = [points[i] for i in rng.permutation(len(points))]
    elif how == 6 and points:
        points[-1].velocities = array('d', rng.normal(size=len(points[-1].velocities)) * 1e-12)


def pose(rng, robot):
    """Return a tracked pose."""
    message = PoseStamped()
    message.header.frame_id = robot.frame if rng.random() < 0.9 else NAMES[rng.integers(8)]
    numbers = np.concatenate([rng.normal(size=3), _unit(rng)])
    if rng.random() < 0.5:
        numbers[rng.integers(7)] = POISON[rng.integers(len(POISON))]
    p, q = message.pose.position, message.pose.orientation
    p.x, p.y, p.z, q.x, q.y, q.z, q.w = numbers.tolist()
    return stamped(rng, message)


def _unit(rng):
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def command(rng, robot):
    """Return a command to a controller."""
    values = rng.normal(size=len(robot.commanded))
    return Float64MultiArray(data=poisoned(rng, values) if rng.random() < 0.6 else values.tolist())


def belief(rng, task, good):
    """Return a cloud of particles; `good` is what `cloud.write_belief` makes of three."""
    message = PointCloud2(height=good.height, width=good.width, is_dense=True)
    message.header.frame_id = task.robot.frame
    message.fields = [
        PointField(name=f.name, offset=f.offset, datatype=f.datatype, count=f.count)
        for f in good.fields
    ]
    message.point_step, message.row_step, message.data = good.point_step, good.row_step, good.data
    huge = [0, 1, 7, 2**16, 2**31, 2**32 - 1, 2**32 - 2**20, 2**31 + 2**20]
    for how in rng.permutation(9)[: rng.integers(0, 3)]:
        field = message.fields[rng.integers(len(message.fields))]
        if how == 0:
            values = np.frombuffer(bytes(message.data)[: len(message.data) // 8 * 8]).copy()
            if len(values):
                values[rng.integers(len(values))] = POISON[rng.integers(len(POISON))]
            message.data = array('B', values.tobytes())
        elif how == 1:
            message.data = message.data[: rng.integers(len(message.data) + 1)]
        elif how in (2, 3, 4):
            name = ('width', 'height', 'point_step')[how - 2]
            setattr(message, name, huge[rng.integers(8)])
        elif how == 5:
            field.offset = huge[rng.integers(8)]
        elif how == 6:
            field.datatype, field.count = int(rng.integers(256)), huge[rng.integers(8)]
        elif how == 7:
            field.name = NAMES[rng.integers(len(NAMES))]
        else:
            message.is_bigendian = True
    return stamped(rng, message)


def good_belief(task):
    """Return a cloud of three particles."""
    rng = np.random.default_rng(1)
    columns = [p.sample(x, 3, rng) for p, x in zip(task.priors, task.parameters, strict=True)]
    made = belief_cloud.Belief(np.array(columns).T, np.log(np.full(3, 1 / 3)))
    return belief_cloud.write_belief(task, 1.0, made)
