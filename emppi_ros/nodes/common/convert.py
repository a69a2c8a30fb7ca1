"""
Convert ROS messages to arrays and back.

Stamps become seconds in float64, exact to a fraction of a microsecond.
"""

from array import array
from collections.abc import Sequence
import struct

from builtin_interfaces.msg import Duration, Time
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped, TransformStamped
import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from emppi_ros.bridge.joint_trajectory import Trajectory
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import JointStateError, PlanError, PoseError
from emppi_ros.core.pose import Pose, from_message
from emppi_ros.recordings.message_tables import NANO, POINT_FIELD, STATE_FIELD, nanoseconds
from emppi_ros.robots import plan as plans
from emppi_ros.robots.plan import Plan
from emppi_ros.robots.robot import Robot, select_joints


def to_seconds(stamp: Time | Duration) -> float:
    """Return a stamp as seconds."""
    return (stamp.sec * NANO + stamp.nanosec) / NANO


def stamp_of(data: bytes) -> float:
    """Return the stamp [s] of a serialized message (CDR) that begins with a header."""
    order = '<' if data[1] & 1 else '>'
    sec, nanosec = struct.unpack_from(f'{order}iI', data, 4)
    return float((sec * NANO + nanosec) / NANO)


def to_stamp(seconds: float) -> Time:
    """Return seconds as a stamp; EmppiError if out of range."""
    return Time(**_split(seconds))


def to_duration(seconds: float) -> Duration:
    """Return seconds as a duration."""
    return Duration(**_split(seconds))


def read_joints(
    robot: Robot, message: JointState, joints: Sequence[str] | None = None
) -> tuple[float, Array, Array]:
    """Return stamp, positions and velocities (n,) of some joints; by default of the robot's."""
    values = {'position': message.position, 'velocity': message.velocity}
    rows = select_joints(joints or robot.measured_names, message.name, values)
    return to_seconds(message.header.stamp), rows['position'], rows['velocity']


def write_joints(
    robot: Robot, stamp: float, position: Array, velocity: Array, effort: Array | None = None
) -> JointState:
    """Return the joint state of all joints of the robot, with efforts if given."""
    message = JointState(name=list(robot.measured_names))
    message.header.stamp = to_stamp(stamp)
    message.position, message.velocity = _doubles(position), _doubles(velocity)
    if effort is not None:
        message.effort = _doubles(effort)
    return message


def read_pose(robot: Robot, message: PoseStamped) -> tuple[float, Pose]:
    """Return stamp and pose in the robot's frame; PoseError if it is in another frame."""
    _check_frame(robot, message.header.frame_id)
    pose = from_message(message.pose.position, message.pose.orientation)
    return to_seconds(message.header.stamp), pose


def read_covariance(robot: Robot, message: PoseWithCovarianceStamped) -> tuple[float, Array]:
    """Return stamp and covariance (6, 6); PoseError if the pose is in another frame."""
    _check_frame(robot, message.header.frame_id)
    return to_seconds(message.header.stamp), np.reshape(message.pose.covariance, (6, 6))


def write_pose(frame: str, stamp: float, pose: Pose) -> PoseStamped:
    """Return a pose in a frame."""
    message = PoseStamped()
    message.header.stamp, message.header.frame_id = to_stamp(stamp), frame
    p, q = message.pose.position, message.pose.orientation
    p.x, p.y, p.z = pose.position.tolist()
    q.w, q.x, q.y, q.z = pose.quaternion.tolist()
    return message


def write_uncertain_pose(
    frame: str, stamp: float, pose: Pose, covariance: Array
) -> PoseWithCovarianceStamped:
    """Return a pose in a frame, with its covariance (6, 6)."""
    stamped = write_pose(frame, stamp, pose)
    message = PoseWithCovarianceStamped(header=stamped.header)
    message.pose.pose = stamped.pose
    message.pose.covariance = _doubles(covariance)
    return message


def write_transform(parent: str, frame: str, stamp: float, pose: Pose) -> TransformStamped:
    """Return the pose of a frame in its parent as a transform."""
    message = TransformStamped(child_frame_id=frame)
    message.header.stamp, message.header.frame_id = to_stamp(stamp), parent
    place, turn = message.transform.translation, message.transform.rotation
    place.x, place.y, place.z = pose.position.tolist()
    turn.w, turn.x, turn.y, turn.z = pose.quaternion.tolist()
    return message


def _check_frame(robot: Robot, frame: str) -> None:
    if frame.lstrip('/') != robot.frame.lstrip('/'):
        raise PoseError(
            f'pose in frame {frame!r}; expected {robot.frame!r}, the frame of robot {robot.name!r}'
        )


def read_plan(robot: Robot, message: JointTrajectory, now: float) -> Plan:
    """Return the plan; PlanError if the robot cannot follow it."""
    name, points = POINT_FIELD[robot.command], message.points
    width = len(message.joint_names)
    _check_length(message)
    rows = [getattr(point, name) for point in points]
    for i, row in enumerate(rows):
        if len(row) != width:
            raise PlanError(
                f'plan whose point {i} has {len(row)} {name} for {width} joints; '
                f'robot {robot.name!r} is commanded by {robot.command}'
            )
    times = np.array([to_seconds(point.time_from_start) for point in points])
    values = np.array(rows).reshape(len(points), width)
    plan = Plan(to_seconds(message.header.stamp), times, values)
    return plans.check(robot, message.joint_names, plan, now)


def write_plan(robot: Robot, plan: Plan) -> JointTrajectory:
    """Return the message of a plan, stamped with its start."""
    message = JointTrajectory(joint_names=list(robot.commanded))
    message.header.stamp = to_stamp(plan.start)
    name = POINT_FIELD[robot.command]
    for time, row in zip(plan.times.tolist(), plan.values, strict=True):
        point = JointTrajectoryPoint(time_from_start=to_duration(time))
        setattr(point, name, _doubles(row))
        message.points.append(point)
    return message


def write_trajectory(robot: Robot, trajectory: Trajectory, start: Time) -> JointTrajectory:
    """Return the message of a trajectory for the robot's controller, stamped with its start."""
    message = JointTrajectory(joint_names=list(robot.commanded_names))
    message.header.stamp = start
    columns = (trajectory.positions, trajectory.velocities, trajectory.accelerations)
    for time, *row in zip(trajectory.times.tolist(), *columns, strict=True):
        point = JointTrajectoryPoint(time_from_start=to_duration(time))
        point.positions, point.velocities, point.accelerations = map(_doubles, row)
        message.points.append(point)
    return message


def read_trajectory(robot: Robot, message: JointTrajectory) -> Trajectory:
    """Return the trajectory in the robot's joint order; PlanError if a controller rejects it."""
    names, points = list(message.joint_names), message.points
    _check_length(message)
    if sorted(names) != sorted(robot.commanded_names):
        raise PlanError(f'trajectory for joints {", ".join(names)}')
    rows = [(p.positions, p.velocities, p.accelerations) for p in points]
    if not rows or any(len(values) != len(names) for row in rows for values in row):
        raise PlanError('trajectory without position, velocity and acceleration of every joint')
    times = np.array([to_seconds(point.time_from_start) for point in points])
    order = [names.index(name) for name in robot.commanded_names]
    values = np.array(rows).swapaxes(0, 1)[..., order]  # (3, points, joints)
    if times[0] < 0 or np.any(np.diff(times) <= 0):
        raise PlanError('trajectory whose times do not increase from 0')
    if not np.isfinite(values).all():
        raise PlanError('trajectory with values that are not finite')
    if np.any(values[1, -1] != 0.0):
        raise PlanError('trajectory that does not end at rest')
    return Trajectory(times, *values)


def read_applied(robot: Robot, message: JointState) -> tuple[float, Array]:
    """Return stamp and command (joints,) in the order of the commanded joints."""
    name = STATE_FIELD[robot.command]
    rows = select_joints(robot.commanded, message.name, {name: getattr(message, name)})
    return to_seconds(message.header.stamp), rows[name]


def write_applied(robot: Robot, stamp: Time, command: Array) -> JointState:
    """Return the applied command in the joint state field of the robot's command type."""
    message = JointState(name=list(robot.commanded))
    message.header.stamp = stamp
    setattr(message, STATE_FIELD[robot.command], _doubles(command))
    return message


def read_command(robot: Robot, message: Float64MultiArray) -> Array:
    """Return the command (joints,); JointStateError if it is invalid."""
    values = np.array(message.data, dtype=np.float64)
    if values.shape != (len(robot.commanded),):
        raise JointStateError(
            f'command of {values.size} values; expected {len(robot.commanded)}: '
            f'{", ".join(robot.commanded)}'
        )
    if not np.isfinite(values).all():
        raise JointStateError(f'command with values that are not finite: {values.tolist()}')
    return values


def write_command(command: Array) -> Float64MultiArray:
    """Return the message for a forward command controller."""
    return Float64MultiArray(data=_doubles(command))


def _check_length(message: JointTrajectory) -> None:
    """Raise PlanError for too many points before converting them."""
    if len(message.points) > plans.MAX_POINTS:
        raise PlanError(f'{len(message.points)} points, at most {plans.MAX_POINTS}')


def _split(seconds: float) -> dict[str, int]:
    """Return whole seconds and nanoseconds."""
    whole, nanosec = divmod(nanoseconds(seconds), NANO)
    return {'sec': whole, 'nanosec': nanosec}


def _doubles(values: Array) -> 'array[float]':
    """Return an array that message fields accept without checking every element."""
    return array('d', np.ascontiguousarray(values, dtype=np.float64).tobytes())
