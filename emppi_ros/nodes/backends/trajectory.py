"""Bridge backend `trajectory`: a joint_trajectory_controller, by trajectories that end at rest."""

import time

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import trajectory_stream
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.joint_trajectory import Trajectory
from emppi_ros.bridge.trajectory_stream import Rolling, TrajectoryConfig
from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.backends.interface import Backend, Cycle, command_topic
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.clock_sync import Stamps
from emppi_ros.nodes.common.parameters import declare_again
from emppi_ros.robots.robot import Robot

_USUAL_S = 0.004  # between two commands


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
        self._node, self._robot, self._stamps = node, robot, Stamps(node)
        self._config = declare_again(node, TrajectoryConfig)
        self._rolling: Rolling | None = None
        topic = command_topic(robot, 'trajectory')
        self.topics = ((topic, JointTrajectory),)
        self.delay_s = self._config.trajectory_lead_s
        self.settle_s = self._config.trajectory_settle_s
        if self._config.trajectory_stamped:
            self.clock_slack_s = self._config.trajectory_lead_s / 2
        self._publisher = node.create_publisher(JointTrajectory, topic, qos.DEFAULT)

    def send(self, cycle: Cycle) -> npt.NDArray[np.float64]:
        """
        Take one command; send a trajectory when it is time for one.

        Return the velocity (joints,) of the trajectory that is in force, which is a command of
        some time ago: a belief that compares with the newest would blame the physics.
        """
        if self._rolling is None:
            self._rolling = trajectory_stream.begin(
                self._config, cycle.time - _USUAL_S, cycle.position
            )
        rolled, made = trajectory_stream.advance(self._config, self._robot, self._rolling, *cycle)
        message = None if made is None else self._write(made, cycle.time, rolled.rests == 0)
        # asked at the very last: who was interrupted leaves the robot with what it was sent before
        if message is not None and self.is_late(time.monotonic()):
            return trajectory_stream.in_force(self._rolling, cycle.time).velocity
        self._rolling = rolled
        if message is not None:
            self._publisher.publish(message)
        return trajectory_stream.in_force(self._rolling, cycle.time).velocity

    def _write(self, made: Trajectory, moment: float, moving: bool) -> JointTrajectory:
        """Return a trajectory's message, stamped if it is to be."""
        stamp = self._stamps.at(moment, moving) if self._config.trajectory_stamped else None
        return convert.write_trajectory(self._robot, made, stamp)

    def is_late(self, now: float) -> bool:
        """Return whether the robot is about to stop by itself."""
        return self._rolling is not None and trajectory_stream.is_late(self._rolling, now)

    def resume(self, now: float) -> Command | None:
        """Return what the robot does by what it was sent last; none if that is nothing."""
        if self._rolling is None:
            return None
        self._rolling, command = trajectory_stream.resume(self._config, self._rolling, now)
        return command

    def close(self) -> None:
        """Stop advertising."""
        self._node.destroy_publisher(self._publisher)
