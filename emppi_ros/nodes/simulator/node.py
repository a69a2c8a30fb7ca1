"""
The node `simulator`: simulates robot and tracker, with true parameters hidden from other nodes.

With `use_sim_time` it publishes /clock, at any speed, and stamps are simulated time. Otherwise
stamps follow the wall clock, and time that the simulation cannot catch up with counts as lost.
"""

from collections.abc import Callable
from dataclasses import dataclass
import math
import threading
import time
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.node import Node
from rclpy.publisher import Publisher
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import joint_trajectory as trajectories
from emppi_ros.core.config import key, positive
from emppi_ros.core.errors import ConfigError, EmppiError, StaleInputError
from emppi_ros.nodes.backends import command_topic, controller_monitor
from emppi_ros.nodes.common import convert, parameters, qos
from emppi_ros.nodes.common.clock_sync import CLOCK, create_steady_timer, is_simulated
from emppi_ros.nodes.common.diagnostics import ERROR, OK, WARN, Diagnostics, Report
from emppi_ros.nodes.common.interfaces import JointTrajectoryControllerState
from emppi_ros.nodes.common.lifecycle import serve
from emppi_ros.nodes.common.polling import Loop, PolledSubscription
from emppi_ros.nodes.topics.depth_images import STATE, write_state
from emppi_ros.nodes.topics.task import TOPIC, TaskFollower, TaskSubscriber, follow_stage
from emppi_ros.robots.robot import Robot
from emppi_ros.sim.pace import Pace
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.sim.trajectory_controller import TrajectoryController
from emppi_ros.sim.true_parameters import draw_truth, parse_truth
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.cost import Stage
from emppi_ros.tasks.task import Task, parse_task

_SHORTEST_S = 1e-3  # period of the loop
_ANSWER_S = 4.0  # longer than an arm brakes


@dataclass(frozen=True)
class SimulatorParameters(parameters.SeedParameters):
    """Parameters of the node `simulator`."""

    real_time_factor: float = positive(
        1.0, doc='simulated seconds per second; other than 1 only with use_sim_time'
    )
    tracked_poses: bool = key(
        True, doc='publish true poses of objects with noise; false: the node `tracker` does'
    )
    truth: tuple[str, ...] = key(
        ('',),
        doc='true parameters as name=value, or as name=0.3,1.2@5 for 1.2 from 5 s of simulated '
        'time on; others are sampled',
    )


class SimulatorNode(Node, TaskFollower):
    """Steps the physics, publishes measurements, and applies commands."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__('simulator', **kwargs)
        settings = parameters.declare_all(self, SimulatorParameters)
        self._seed, self._tracked_poses = settings.seed, settings.tracked_poses
        simulated = is_simulated(self)
        if settings.real_time_factor != 1.0 and not simulated:
            raise ConfigError(
                f'real_time_factor: {settings.real_time_factor:g} needs use_sim_time, or else the '
                'other nodes follow the wall clock'
            )
        self._clock_publisher = (
            self.create_publisher(Clock, CLOCK, qos.NEWEST) if simulated else None
        )
        self._pace = Pace(time.monotonic(), settings.real_time_factor)
        self._epoch = 0.0  # s, stamp of simulated time 0
        self._truth = parse_truth(filter(None, settings.truth), 'truth')
        self._robot: SimulatedRobot | None = None
        self._poses: dict[str, Publisher[PoseStamped]] = {}
        self._controller_states: Publisher[Any] | None = None  # where control_msgs is installed
        self.loop: Loop | None = None
        self._lock = threading.Lock()  # between physics and a reset
        self._problem, self._rejected = '', 0
        self._follow = TaskSubscriber(self, self)
        self.diagnostics = Diagnostics(self, self.report)
        self._group = ReentrantCallbackGroup()  # other callbacks wait for a reset
        self._bridge: Client[SetBool.Request, SetBool.Response] = self.create_client(
            SetBool, 'emppi/reset', callback_group=self._group
        )
        self.create_service(Trigger, 'simulator/reset', self._reset)
        serve(self, SetBool, 'simulator/pause', self._pause)

    def report(self) -> Report:
        """Return the state of the simulation."""
        if self._robot is None:
            level = ERROR if self._problem else WARN
            return Report(level, self._problem or f'waiting for {TOPIC}')
        values: dict[str, object] = {
            'simulated_time_s': self._robot.time,
            'lost_s': self._pace.lost_s,
            'rejected_commands': self._rejected,
        }
        # with all digits, for reports only; no node of the graph uses them
        for parameter, value in zip(self._task.parameters, self._robot.truth, strict=True):
            values[f'true {parameter.name}'] = repr(float(value))
        problem = self._follow.changed or self._problem
        if not problem and self._clock_publisher and self.count_publishers(CLOCK) > 1:
            problem = f'another node publishes {CLOCK}, too: stop it, or this simulator'
        paused = 'paused' if self._pace.paused_at is not None else 'simulating'
        return Report(WARN if problem else OK, problem or paused, values)

    @property
    def _simulated(self) -> SimulatedRobot:
        """The simulated robot; StaleInputError before the first task."""
        if self._robot is None:
            raise StaleInputError(f'no task received on {TOPIC} yet')
        return self._robot

    @property
    def failed(self) -> bool:
        """Whether the node must exit."""
        return self.loop is not None and bool(self.loop.failure)

    def shutdown(self) -> None:
        """Stop the physics."""
        if self.loop is not None:
            self.loop.stop()

    def startup(self) -> None:
        """Start with the first task."""
        if not self._follow.newest:
            return
        try:
            task = self._follow.take()
            robot = self._make(task)
            self._open(task.robot)
        except EmppiError as error:
            self._problem = str(error)
            self._follow.release()
            self.get_logger().error(self._problem)
            return
        self._start(task, robot)
        self.get_logger().info('active')

    def try_task(self, text: str) -> Task:
        """Return the task of a YAML text if it fits the robot and the given true parameters."""
        task = parse_task(text, TOPIC)
        switch_protocol.compare(task.robot, self._task.robot)
        self._make(task)
        return task

    def swap_task(self) -> None:
        """Move the robot, in its current state, to the scene of the new task."""
        task = self._follow.take()
        robot = self._make(task)
        self.shutdown()
        self.destroy_subscription(self._stage)
        robot.copy_joint_positions(self._simulated)
        self._epoch += self._simulated.time
        self._start(task, robot)

    def _make(self, task: Task) -> SimulatedRobot:
        return SimulatedRobot(task, draw_truth(task, self._seed, self._truth), self._seed)

    def _open(self, robot: Robot) -> None:
        """Create the robot's topics, which stay while the task changes; ConfigError without."""
        topics = [(Float64MultiArray, command_topic(robot), self._receive_command)]
        if robot.command == 'velocity' and 'trajectory' in robot.topics.commands:
            topic = command_topic(robot, 'trajectory')
            topics.append((JointTrajectory, topic, self._receive_trajectory))
            if JointTrajectoryControllerState is not None:
                self._controller_states = self.create_publisher(
                    JointTrajectoryControllerState,
                    controller_monitor.state_topic(topic),
                    qos.NEWEST,
                )
        self._joints = qos.advertise(self, JointState, robot.topics.joint_states, qos.MEASURED)
        self._states = self.create_publisher(Float64MultiArray, STATE, qos.NEWEST)
        self._commands = [PolledSubscription(self, *t, qos.DEFAULT, timed=True) for t in topics]

    def _start(self, task: Task, robot: SimulatedRobot) -> None:
        settings = task.simulation
        self._track(set(task.tracked if self._tracked_poses else ()))
        self._controller: TrajectoryController | None = None  # while trajectories command
        self._every = max(1, round(1.0 / settings.joint_state_rate_hz / settings.timestep_s))
        rate = settings.depth_camera.rate_hz
        self._image_every = max(1, round(1.0 / rate / settings.timestep_s))
        self._task, self._robot, self._problem = task, robot, ''
        self._stage = follow_stage(self, task.stages, self._hold)
        self._rebase()
        period = self._every * settings.timestep_s / self._pace.factor
        self.loop = Loop('physics', max(period, _SHORTEST_S), self._work)

    def _track(self, names: set[str]) -> None:
        """Track exactly these objects from now on."""
        for name in set(self._poses) - names:
            self.destroy_publisher(self._poses.pop(name))
        for name in names - set(self._poses):
            topic = f'tracking/{name}'
            self._poses[name] = qos.advertise(self, PoseStamped, topic, qos.MEASURED)

    def _hold(self, stage: Stage) -> None:
        """Grasp as in the planner's stage, in place of a gripper."""
        with self._lock:
            self._simulated.activate(stage.grasp)

    def _rebase(self) -> None:
        """Start simulated time at this moment."""
        self._pace, self._done = self._pace.restart(time.monotonic()), 0
        if self._clock_publisher is None:
            self._epoch = time.time()

    def _work(self, _moment: float) -> None:
        with self._lock:
            for subscription in self._commands:
                subscription.poll()
            self._advance()
            if self._pace.paused_at is not None:
                self._publish_clock()

    def _publish_clock(self) -> None:
        if self._clock_publisher is not None:
            stamp = convert.to_stamp(self._epoch + self._simulated.time)
            self._clock_publisher.publish(Clock(clock=stamp))

    def _advance(self, until: float = math.inf) -> None:
        """Step to the current time, or to an earlier simulated time, and publish measurements."""
        robot, before, now = self._simulated, self._pace.lost_s, time.monotonic()
        self._pace = self._pace.catch_up(now, robot.time)
        if self._clock_publisher is None:
            self._epoch += self._pace.lost_s - before  # stamps stay on the clock
        seconds = min(self._pace.due(now), until) - robot.time
        for _ in range(int(seconds / self._task.simulation.timestep_s)):
            if self._controller is not None:
                command = self._controller.update(robot.time, robot.commanded_position)
                robot.command(command.velocity)
            robot.step()
            self._done += 1
            if self._done % self._image_every == 0 and self._states.get_subscription_count():
                stamp = self._epoch + robot.time
                self._states.publish(write_state(stamp, robot.data.qpos, robot.truth))
            if self._done % self._every == 0:
                self._publish_measurements()
                self._publish_clock()

    def _publish_measurements(self) -> None:
        robot = self._task.robot
        stamp, *measured = self._simulated.read_joints()
        self._joints.publish(convert.write_joints(robot, self._epoch + stamp, *measured))
        if self._controller_states is not None:
            now = self._simulated.time
            desired = trajectories.at_rest(self._simulated.commanded_position)
            if self._controller is not None:
                desired = self._controller.reference
            state = controller_monitor.write_state(robot, self._epoch + now, desired)
            self._controller_states.publish(state)
        for stamp, name, pose in self._simulated.read_poses():
            if name in self._poses:
                message = convert.write_pose(robot.frame, self._epoch + stamp, pose)
                self._poses[name].publish(message)

    def _receive_command(self, message: Float64MultiArray, sent: float) -> None:
        command = self._take(convert.read_command, message, sent)
        if command is not None:
            self._controller = None
            self._simulated.command(command)

    def _receive_trajectory(self, message: JointTrajectory, sent: float) -> None:
        trajectory = self._take(convert.read_trajectory, message, sent)
        if trajectory is None:
            return
        if self._controller is None:
            period = self._task.simulation.timestep_s
            self._controller = TrajectoryController(self._simulated.commanded_position, period)
        stamp = convert.to_seconds(message.header.stamp)
        start = stamp - self._epoch if stamp else math.nan
        if start + trajectory.end <= self._simulated.time:
            self._rejected += 1
        else:
            self._controller.accept(trajectory, start)

    def _take(self, read: Callable[[Robot, object], Any], message: object, sent: float) -> Any:
        """Step until a message was sent [s, system clock]; return its content, None if invalid."""
        try:
            command = read(self._task.robot, message)
        except EmppiError as error:
            self._rejected += 1
            self.get_logger().warning(f'ignored: {error}', throttle_duration_sec=2.0)
            return None
        # the last command was in force until then
        self._advance(self._pace.due(sent - time.time() + time.monotonic()))
        return command

    async def _reset(
        self, _request: Trigger.Request, response: Trigger.Response
    ) -> Trigger.Response:
        """Reset robot and objects; the bridge is told, and not armed afterwards."""
        response.success = self._robot is not None
        if self._robot is None:
            response.message = 'no task yet'
            return response
        await self._announce(resetting=True)
        with self._lock:
            self._epoch += self._robot.time
            self._robot.reset()
            self._controller = None
            self._rebase()
        await self._announce(resetting=False)
        response.message = 'robot and objects are back at the start; the bridge is not armed'
        return response

    async def _announce(self, resetting: bool) -> None:
        """Announce begin or end of a reset; return when the bridge, if any, has answered."""
        if not self._bridge.service_is_ready():
            return
        future = self._bridge.call_async(SetBool.Request(data=resetting))
        # the bridge may have been killed
        timer = create_steady_timer(self, _ANSWER_S, future.cancel, self._group)
        await future
        self.destroy_timer(timer)

    def _pause(self, paused: bool) -> str:
        """Stop time, and with it /clock and all measurements, or continue."""
        with self._lock:
            if self._robot is not None:
                self._advance()
            now, paused_at = time.monotonic(), self._pace.paused_at
            self._pace = self._pace.pause(now, paused)
            if self._clock_publisher is None and not paused and paused_at is not None:
                self._epoch += now - paused_at
        return 'paused' if paused else 'simulating'
