"""Joint states as drivers send them: in one or several messages, beside those of other joints."""

import numpy as np
from sensor_msgs.msg import JointState

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import JointStateError
from emppi_ros.nodes.common import convert
from emppi_ros.robots.robot import Robot

_SPAN_S = 0.05  # from the oldest part of a state to the newest
_PATIENCE = 20  # messages without a complete state, before the missing joints are an error


class JointStateReader:
    """Reads the joints of a robot, and merges the messages that have some of them each."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._parts: dict[str, tuple[float, float, float]] = {}  # stamp, position, velocity
        self._incomplete = 0  # messages since the last complete state

    def read(self, message: JointState) -> tuple[float, Array, Array] | None:
        """
        Return stamp, positions and velocities (joints,); None while some joints are not known.

        Merged states have the stamp of their oldest part. JointStateError if a value is invalid,
        or if many messages in a row had no value of a joint.
        """
        robot = self._robot
        names = robot.measured_names
        ours = [name for name in names if name in message.name]
        if len(ours) == len(names):
            self._parts, self._incomplete = {}, 0
            return convert.read_joints(robot, message)
        if ours:
            stamp, *rows = convert.read_joints(robot, message, ours)
            self._parts = {k: v for k, v in self._parts.items() if v[0] > stamp - _SPAN_S}
            for name, position, velocity in zip(ours, *rows, strict=True):
                self._parts[name] = stamp, float(position), float(velocity)
        missing = [name for name in names if name not in self._parts]
        if missing:
            self._incomplete += 1
            if self._incomplete > _PATIENCE:
                raise JointStateError(
                    f'missing joints: {", ".join(missing)}; the newest joint state has: '
                    f'{", ".join(message.name)}; if only names differ, set `ros_joints` in the '
                    "robot's YAML"
                )
            return None
        stamps, position, velocity = np.array([self._parts[name] for name in names]).T
        self._parts, self._incomplete = {}, 0
        return float(stamps.min()), position, velocity
