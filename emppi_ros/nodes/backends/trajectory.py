"""Bridge backend `trajectory`: a joint_trajectory_controller, by trajectories that end at rest."""

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import rolling
from emppi_ros.bridge.rolling import Rolling, TrajectoryConfig
from emppi_ros.errors import ConfigError
from emppi_ros.nodes import convert, qos
from emppi_ros.nodes.backends.interface import Backend, Cycle, command_topic
from emppi_ros.nodes.parameters import declare_again
from emppi_ros.tasks.robot import Robot


class TrajectoryBackend(Backend):
    """Sends trajectories of positions, velocities and accelerations, several times a second."""

    # not unsafe: without us the arm executes the braking tail that it was sent last

    def __init__(self, node: Node, robot: Robot) -> None:
        """Advertise the controller's topic."""
        if robot.command != 'velocity':
            raise ConfigError(
                f"backend 'trajectory' is for robots commanded by velocity; robot {robot.name!r} "
                f'is commanded by {robot.command}'
            )
        self._node, self._robot = node, robot
        self._config = declare_again(node, TrajectoryConfig)
        self._rolling: Rolling | None = None
        self.topics = (command_topic(robot, 'trajectory'),)
        self.delay_s = 1.0 / self._config.trajectory_rate_hz
        self._publisher = node.create_publisher(JointTrajectory, self.topics[0], qos.DEFAULT)

    def send(self, cycle: Cycle) -> npt.NDArray[np.float64]:
        """
        Take one command; send a trajectory when it is time for one.

        Return the velocity (joints,) of the trajectory that is in force, which is a command of
        one period ago: a belief that compares with the newest would blame the physics.
        """
        if self._rolling is None:
            self._rolling = rolling.begin(cycle.time, cycle.position)
        self._rolling, made = rolling.advance(self._config, self._robot, self._rolling, *cycle)
        if made is not None:
            self._publisher.publish(convert.write_trajectory(self._robot, made))
        return rolling.in_force(self._rolling, cycle.time).velocity

    def coasting(self, now: float) -> npt.NDArray[np.float64] | None:
        """Return the velocity of a robot that was left alone for too long, and brakes."""
        if self._rolling is None:
            return None
        self._rolling, velocity = rolling.coast(self._rolling, now)
        return velocity

    def close(self) -> None:
        """Stop advertising."""
        self._node.destroy_publisher(self._publisher)
