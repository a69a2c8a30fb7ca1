"""Messages of a robot, written as a bag."""

from mcap_ros2.writer import Writer
import numpy as np
import pytest

RULE = '\n' + '=' * 80 + '\nMSG: '
HEADER = (
    f'{RULE}std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id'
    f'{RULE}builtin_interfaces/Time\nint32 sec\nuint32 nanosec'
)
STATE = (
    'sensor_msgs/msg/JointState',
    'std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\n'
    f'float64[] effort{HEADER}',
)
POSE = (
    'geometry_msgs/msg/PoseStamped',
    f'std_msgs/Header header\ngeometry_msgs/Pose pose{HEADER}'
    f'{RULE}geometry_msgs/Pose\ngeometry_msgs/Point position\n'
    f'geometry_msgs/Quaternion orientation{RULE}geometry_msgs/Point\n'
    'float64 x\nfloat64 y\nfloat64 z'
    f'{RULE}geometry_msgs/Quaternion\nfloat64 x\nfloat64 y\nfloat64 z\nfloat64 w',
)
UNCERTAIN = (
    'geometry_msgs/msg/PoseWithCovarianceStamped',
    f'std_msgs/Header header\ngeometry_msgs/PoseWithCovariance pose{HEADER}'
    f'{RULE}geometry_msgs/PoseWithCovariance\ngeometry_msgs/Pose pose\nfloat64[36] covariance'
    + POSE[1].removeprefix(f'std_msgs/Header header\ngeometry_msgs/Pose pose{HEADER}'),
)
EPOCH_NS = 1_700_000_000 * 10**9


def header(seconds):
    whole, rest = divmod(EPOCH_NS + round(seconds * 1e9), 10**9)
    return {'stamp': {'sec': whole, 'nanosec': rest}, 'frame_id': 'world'}


class Messages:
    """Messages to be written as a bag: (topic, type, seconds, message)."""

    def __init__(self):
        self.rows = []

    def state(self, topic, seconds, names, **fields):
        self.rows.append((topic, STATE, seconds, {'name': names, **fields}))

    def pose(self, name, seconds, row, covariance=None):
        x, y, z, qw, qx, qy, qz = row
        there = {
            'position': {'x': x, 'y': y, 'z': z},
            'orientation': {'x': qx, 'y': qy, 'z': qz, 'w': qw},
        }
        self.rows.append((f'tracking/{name}', POSE, seconds, {'pose': there}))
        if covariance is not None:
            known = {'pose': {'pose': there, 'covariance': covariance.ravel().tolist()}}
            self.rows.append((f'tracking_covariance/{name}', UNCERTAIN, seconds, known))

    def write(self, path, prefix='/'):
        with path.open('wb') as file, Writer(file, 2**12) as writer:
            schemas = {}
            for topic, (kind, text), seconds, message in sorted(self.rows, key=lambda r: r[2]):
                if kind not in schemas:
                    schemas[kind] = writer.register_msgdef(kind, text)
                at = EPOCH_NS + round(seconds * 1e9)
                said = {'header': header(seconds), **message}
                writer.write_message(prefix + topic, schemas[kind], said, at, at)
        return path


def tumbling(time, flips=()):
    """Return poses (n, 7) at constant velocity and constant rate, about one axis."""
    axis, angle = np.array([1.0, 2.0, 2.0]) / 3.0, 3.0 * time[:, None]
    quaternions = np.hstack([np.cos(angle / 2), np.sin(angle / 2) * axis])
    quaternions[list(flips)] *= -1.0
    return np.hstack([time[:, None] * [0.3, -0.2, 0.1], quaternions])


@pytest.fixture
def messages():
    """Two seconds of two joints, a command and a block, at 100, 200 and 50 Hz."""
    one = Messages()
    for t in np.arange(0.0, 2.0, 0.01):
        row = [np.sin(3.0 * t), np.cos(2.0 * t)]
        speed = [3.0 * np.cos(3.0 * t), -2.0 * np.sin(2.0 * t)]
        one.state('joint_states', t, ['slider', 'hinge'], position=row, velocity=speed)
    for t in np.arange(0.0, 2.0, 0.005):
        one.state('emppi/applied', t, ['slider'], effort=[np.sin(5.0 * t)])
    time = np.arange(0.0, 2.0 + 1e-9, 0.02)
    for t, row in zip(time, tumbling(time, flips=(3, 4, 70)), strict=True):
        one.pose('block', t, row)
    return one
