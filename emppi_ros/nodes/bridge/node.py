"""
The node `bridge`: sends plans to the robot as commands within limits, and brakes without plans.

It starts disarmed, and only an operator arms it. It commands only while it is active, and never
before the first joint state. After a fault it holds until the operator acknowledges it.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from rclpy.subscription import Subscription
from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from emppi_ros.bridge import faults
from emppi_ros.bridge.commander import BridgeConfig
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.monitors import NEVER, MonitorConfig
from emppi_ros.bridge.state_machine import Phase
from emppi_ros.core import config as task_config
from emppi_ros.core.errors import ArmError, ConfigError, EmppiError, unknown
from emppi_ros.nodes import backends
from emppi_ros.nodes.backends import BackendConfig
from emppi_ros.nodes.bridge.command_loop import CommandLoop
from emppi_ros.nodes.bridge.graph_monitor import GraphMonitor
from emppi_ros.nodes.common import clock_sync, parameters
from emppi_ros.nodes.common.diagnostics import ERROR, OK, WARN, Report
from emppi_ros.nodes.common.lifecycle import serve
from emppi_ros.nodes.topics.task import SWAP, TOPIC, UNABLE, TaskFollowerNode, follow_stage
from emppi_ros.robots.robot import BACKENDS
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.schema import StageConfig, TaskFile

_STATE_CHECK_S = 0.05  # between two checks for a change of state, which is published at once
_LOG_S = 2.0  # between two warnings of a kind
_GRAPH_CHECK_S = 0.2  # between two checks of the graph
# may be set while the bridge is not armed
_TIMEOUTS = [field.name for field in fields(BridgeConfig) if field.name.endswith('_s')]


class BridgeNode(TaskFollowerNode):
    """Turns plans into commands at a fixed rate; serves the operator."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__('bridge', **kwargs)
        self._config = parameters.declare_all(self, BridgeConfig, _TIMEOUTS)
        self._monitor_config = parameters.declare_all(self, MonitorConfig)
        self._backend_config = config = parameters.declare_all(self, BackendConfig)
        simulated = clock_sync.is_simulated(self)
        if config.backend and config.backend not in BACKENDS:
            raise ConfigError(unknown('backend', config.backend, BACKENDS))
        if config.hardware:
            self._config.check_hardware()
            if simulated:
                raise ConfigError(
                    'use_sim_time: a real robot does not follow /clock, and ages would be wrong; '
                    'set hardware to false if the robot is simulated'
                )
        clocks = clock_sync.CommandClock, clock_sync.SimulatedCommandClock
        self._command_clock = clocks[simulated](self)
        self.command_loop: CommandLoop | None = None  # while the node is configured
        self._stages: tuple[StageConfig, ...] = ()  # of the task that was checked last
        self._published: object = None  # state
        self._logged_fault: Fault | None = None
        serve(self, SetBool, 'emppi/arm', self._arm)
        serve(self, SetBool, 'emppi/pause', self._pause)
        serve(self, SetBool, SWAP, self._swap)
        serve(self, SetBool, 'emppi/reset', self._reset)
        self._enable_subscription: Subscription[Bool] | None = None
        self._subscribe_enable()
        parameters.on_change(self, _TIMEOUTS, self._set_timeouts)
        clock_sync.create_steady_timer(self, _STATE_CHECK_S, self._publish_changes)
        clock_sync.create_steady_timer(self, _GRAPH_CHECK_S, self._check_graph)

    @property
    def _configured(self) -> CommandLoop:
        """The loop of the configured node; ArmError if it is not configured."""
        if self.command_loop is None:
            raise ArmError('not configured')
        return self.command_loop

    def setup(self) -> None:
        """Take the task, and connect to its robot."""
        task, config = self.follow.take(), self._backend_config
        if limits := '; '.join(task.robot.custom_limits):
            self.get_logger().warning(f'limits looser than published: {limits}')
        try:
            backend = backends.connect(self, task.robot, self._command_clock, config)
        except EmppiError:
            self.follow.release()  # another task may have another robot
            raise
        thresholds = self._monitor_config
        # `residual_monitor: false` is about `emppi run`: here, a push is as on the robot
        lags = task.simulation.residual_monitor is None and not task.follows_in_simulation
        if lags and not config.hardware:
            thresholds = replace(thresholds, residual_rad_per_s=NEVER)
        self.command_loop = CommandLoop(
            self, task, backend, self._command_clock, self._config, thresholds
        )
        self.graph = GraphMonitor(self, task.robot, backend, self.command_loop.joints_profile)
        self._logged_rejections = 0
        self._stages = task.file.stages
        self._subscribe_stage()

    def start(self) -> None:
        """Start commanding."""
        self.loop = self._configured.start()

    def stop(self) -> None:
        """Brake to rest, then stop commanding."""
        super().stop()
        self._configured.stop()

    def teardown(self) -> None:
        """Release task and robot."""
        self.destroy_subscription(self._stage)
        self._configured.close()
        self.graph.close()
        self.command_loop = None
        super().teardown()

    def restart(self) -> None:
        """Keep commanding: its own clock is never set back."""

    def try_task(self, text: str) -> None:
        """Raise unless a task is for the same robot; apart from stages nothing else is needed."""
        if self.command_loop is not None:
            data = task_config.parse(text, TOPIC)
            switch_protocol.check_robot(data, TOPIC, self.command_loop.robot)
            self._stages = task_config.build(TaskFile, data, TOPIC).stages

    def swap_task(self) -> None:
        """Keep commanding: the robot is the same. Follow the stages of the task."""
        if self.command_loop is not None:
            self.destroy_subscription(self._stage)
            self._subscribe_stage()

    def _subscribe_stage(self) -> None:
        """Tolerate what the stages of the task do, one after the other."""
        loop = self._configured
        loop.tolerate(None)
        self._stage = follow_stage(
            self, self._stages, lambda stage: loop.tolerate(stage.residual_rad_per_s)
        )

    def report(self) -> Report:
        """Return the state of the bridge and the reason."""
        loop, reason = self._configured, self._reason()
        machine = loop.commander.machine
        values = {
            'state': machine.phase.value,
            'fault': machine.fault.code if machine.fault else '',
            'reason': reason,
            'armed': machine.armed,
            'paused': machine.paused,
            'swapping': machine.swapping,
            'tolerated_residual': loop.commander.tolerated_residual if loop.active else '',
            'period_ms_p50': loop.periods.quantile_ms(0.5),
            'period_ms_p99': loop.periods.quantile_ms(0.99),
            'latency_ms_p50': loop.latencies.quantile_ms(0.5),
            'latency_ms_p99': loop.latencies.quantile_ms(0.99),
            **{f'age_s {source.topic}': source.age for source in loop.subscriptions},
            'rejected_plans': loop.rejected_plans,
            'last_rejection': loop.rejection,
            'input_error': loop.input_error,
            'graph': '; '.join(problem.text for problem in self.graph.problems),
            'custom_limits': '; '.join(loop.robot.custom_limits),
            'tighter_limits': '; '.join(self.graph.description.tighter),
        }
        stopped = machine.engaged and machine.phase is not Phase.MOVING
        level = ERROR if machine.fault or stopped else OK
        if self.follow.changed:
            return Report(max(level, WARN), self.follow.changed, values)
        return Report(level, reason or 'following the plan', values)

    def _reason(self) -> str:
        """Return why the robot is not moved, '' while it is."""
        loop = self.command_loop
        if loop is None or not loop.active:
            return 'not active'
        if loop.commander.ready:
            return loop.commander.reason
        problems = '; '.join(problem.text for problem in self.graph.problems)
        return loop.input_error or problems or loop.commander.reason

    def _check_graph(self) -> None:
        """Stop the robot if another node commands it too."""
        loop = self.command_loop
        if loop is None:
            return
        self.graph.check()
        if text := self.graph.second_publisher:
            with loop.lock:
                loop.commander.trip(Fault(faults.SECOND_PUBLISHER, text))

    def _publish_changes(self) -> None:
        """Publish a change of state at once instead of with the next report."""
        loop = self.command_loop
        state = (self.state, loop and loop.commander.machine)
        if state != self._published:
            self._published = state
            self.diagnostics.publish()
        if loop is None:
            return
        fault = loop.commander.machine.fault
        if fault is not None and fault is not self._logged_fault:
            self.get_logger().error(f'fault {fault.code}: {fault.text}; braking, then held')
        self._logged_fault = fault
        # not in the loop: the first log message of a caller takes rclpy a tenth of a second
        if loop.input_error:
            self.get_logger().warning(
                f'joint state: {loop.input_error}', throttle_duration_sec=_LOG_S
            )
        if loop.rejected_plans > self._logged_rejections:
            self.get_logger().warning(f'rejected: {loop.rejection}', throttle_duration_sec=_LOG_S)
        self._logged_rejections = loop.rejected_plans

    def _arm(self, arms: bool) -> str:
        loop = self.command_loop
        try:
            if not arms:
                if loop is not None:
                    loop.disarm()
            elif loop is None or not loop.active:
                raise ArmError('not active')
            else:
                self.graph.check()
                if text := self.graph.arm_refusal:
                    raise ArmError(text)
                description = self.graph.description
                loop.arm(description.robot)
                if limits := '; '.join(description.tighter):
                    self.get_logger().info(f'keeping tighter limits: {limits}')
        except EmppiError as error:
            message = f'cannot {"arm" if arms else "acknowledge"}: {error}'
            self.get_logger().warning(message)
            raise ArmError(message) from None
        message = 'armed' if arms else 'not armed'
        self.get_logger().info(message)
        return message

    def _pause(self, paused: bool) -> str:
        loop = self.command_loop
        if loop is None or not loop.commander.ready:
            raise ArmError(f'cannot pause: {self._reason()}')
        with loop.lock:
            loop.commander.pause(paused)
        return 'paused' if paused else 'not paused'

    def _swap(self, swapping: bool) -> str:
        """Hold the arm at rest for a task switch, or release it; the planner repeats this."""
        loop = self.command_loop
        if loop is None or not loop.commander.ready:
            raise ArmError(UNABLE)
        with loop.lock:
            loop.commander.swap(loop.clock.now(), swapping)
            if swapping and not loop.commander.still:
                raise ArmError('braking')
            return loop.commander.reason

    def _reset(self, begins: bool) -> str:
        """
        Disarm at rest, and command nothing until the simulator has reset the robot.

        Otherwise a jump is a fault, and a robot commanded by position would be pulled back.
        """
        loop = self.command_loop
        if self._backend_config.hardware:
            raise ArmError('a real robot is not reset')
        if loop is not None and begins and not loop.begin_reset():
            raise ArmError('not armed, but not at rest either')
        if loop is not None and not begins:
            loop.end_reset()
            self.get_logger().info('not armed: the simulator has reset the robot')
        return 'not armed'

    def _set_timeouts(self, values: Mapping[str, Any]) -> None:
        """Use other timeouts from now on; EmppiError if one is invalid, or the bridge is armed."""
        config = parameters.changed(self, self._config, values)
        if self._backend_config.hardware:
            config.check_hardware()
        if self.command_loop is not None:
            self.command_loop.configure(config)
        self._config = config
        self._subscribe_enable()

    def _subscribe_enable(self) -> None:
        if self._config.enable_timeout_s and self._enable_subscription is None:
            self._enable_subscription = self.create_subscription(
                Bool, 'emppi/enable', self._enable, 1
            )

    def _enable(self, message: Bool) -> None:
        if (loop := self.command_loop) is not None:
            with loop.lock:
                loop.commander.enable(loop.clock.now(), message.data)
