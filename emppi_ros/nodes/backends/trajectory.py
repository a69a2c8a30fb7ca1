"""Backend `trajectory`: a joint_trajectory_controller, by trajectories that end at rest."""

import numpy as np
import numpy.typing as npt
from rclpy.node import Node
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import trajectory_stream
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.trajectory_stream import StreamState, TrajectoryConfig
from emppi_ros.core.errors import ConfigError
from emppi_ros.nodes.backends import Backend, BackendCommand, command_topic
from emppi_ros.nodes.backends.controller_monitor import ControllerMonitor
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.clock_sync import ClockSync, CommandClock
from emppi_ros.nodes.common.parameters import declare_all
from emppi_ros.robots.robot import Robot

_USUAL_S = 0.004  # between two commands


class TrajectoryBackend(Backend):
    """Sends trajectories of positions, velocities and accelerations at a fixed rate."""

    # safe on hardware: without the bridge the arm executes the end of its last trajectory

    def __init__(self, node: Node, robot: Robot, clock: CommandClock) -> None:
        if robot.command != 'velocity':
            raise ConfigError(
                f"backend 'trajectory' is for robots commanded by velocity; robot {robot.name!r} "
                f'is commanded by {robot.command}'
            )
        self._node, self._robot = node, robot
        self._clock, self._stamps = clock, ClockSync(clock)
        self._config = declare_all(node, TrajectoryConfig)
        self._state: StreamState | None = None
        topic = command_topic(robot, 'trajectory')
        self.topics = ((topic, JointTrajectory),)
        self.delay_s = self._config.trajectory_lead_s
        self.settle_s = self._config.trajectory_settle_s
        self.clock_slack_s = self._config.trajectory_lead_s / 2
        self._is_hardware = bool(node.get_parameter('hardware').value)
        # delivered later, a trajectory may find a controller that was restarted meanwhile
        expiring = qos.expiring(qos.DEFAULT, self.delay_s)
        profile = expiring if self._is_hardware else qos.DEFAULT
        self._publisher = node.create_publisher(JointTrajectory, topic, profile)
        self._monitor = ControllerMonitor(node, robot, topic, self._stamps)
        self._fault, self._settled_at = '', np.inf

    def refusal(self) -> str:
        """Return why the controller would not follow trajectories."""
        lead, hold = self._config.trajectory_lead_s, self._config.trajectory_hold_s
        period = 1.0 / self._config.trajectory_rate_hz
        patience = min(lead, hold - lead) - period
        return self._monitor.refusal(patience if self._is_hardware else np.inf)

    def fault(self) -> str:
        """Return why the controller stopped following; nothing is sent until `recover`."""
        return self._fault

    def recover(self) -> None:
        """Send again, from where the arm is."""
        self._fault, self._state = '', None
        self._monitor.restart()

    def send(self, cycle: BackendCommand) -> npt.NDArray[np.float64]:
        """
        Take one command; send a trajectory if one is due.

        Return the velocity (joints,) of the trajectory in force, which was commanded some time
        ago: a belief that compared motion with the newest command would blame the physics.
        """
        self._check(cycle)
        if self._fault:  # the controller ends its last trajectory, or another motion, by itself
            return np.zeros_like(cycle.position)
        if self._state is None:
            self._state = trajectory_stream.begin(
                self._config, cycle.time - _USUAL_S, cycle.position
            )
        state, trajectory = trajectory_stream.advance(
            self._config, self._robot, self._state, cycle.time, cycle.command, cycle.position,
            cycle.engaged, listens=not self._monitor.silent,
        )  # fmt: skip
        if trajectory is None:
            self._state = state
        else:
            stamp = self._stamps.at(cycle.time, moving=state.rests == 0)
            message = convert.write_trajectory(self._robot, trajectory, stamp)
            # checked last: if the bridge was interrupted, the robot keeps the last trajectory
            if not self.is_late(self._clock.now()):
                self._state = state
                self._publisher.publish(message)
        return trajectory_stream.in_force(self._state, cycle.time).velocity

    def _check(self, cycle: BackendCommand) -> None:
        """Find out why the controller does not follow, while it has to."""
        self._monitor.poll()
        if not cycle.engaged or self._state is None:
            if self._settled_at < np.inf:
                self._monitor.restart()  # a motion that ended is no reason to send nothing
            self._settled_at = np.inf
            return
        if self._settled_at == np.inf:
            self._settled_at = cycle.time + self.settle_s
            self._monitor.restart()
        if cycle.time >= self._settled_at and not self._fault:
            in_force = trajectory_stream.in_force(self._state, cycle.time).position
            self._fault = self._monitor.fault(
                cycle.time, cycle.position, in_force, cycle.measured_at
            )
            if self._fault:
                self._state = None

    def is_late(self, now: float) -> bool:
        """Return whether the robot is about to stop on its own."""
        return self._state is not None and trajectory_stream.is_late(self._state, now)

    def resume(self, now: float) -> Command | None:
        """Return the motion of the last trajectory; None before the first one."""
        if self._state is None:
            return None
        self._state, command = trajectory_stream.resume(self._config, self._state, now)
        return command

    def close(self) -> None:
        """Stop advertising, and listening."""
        self._monitor.close()
        self._node.destroy_publisher(self._publisher)


BACKEND = TrajectoryBackend
