"""
The node `bridge`: brings plans to the robot, within limits, and brakes when they stop coming.

It starts disarmed, and only an operator arms it. Only while it is active does it command, and
never before it has seen the robot's joint states. All its ages are measured by a clock that
never jumps. After a fault it holds, until the operator disarms it: that acknowledges the fault.
"""

import sys

from std_msgs.msg import Bool
from std_srvs.srv import SetBool

from emppi_ros.bridge import faults
from emppi_ros.bridge.commander import BridgeConfig
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.monitors import MonitorConfig
from emppi_ros.bridge.state_machine import Phase
from emppi_ros.core.errors import ArmError, ConfigError, EmppiError, unknown
from emppi_ros.nodes.backends import BACKENDS, connect
from emppi_ros.nodes.bridge.command_loop import Commanding
from emppi_ros.nodes.bridge.connection import Way, check_timeouts
from emppi_ros.nodes.bridge.preflight import Surroundings
from emppi_ros.nodes.common import process
from emppi_ros.nodes.common.diagnostics import ERROR, OK, WARN, Report
from emppi_ros.nodes.common.parameters import declare_all
from emppi_ros.nodes.switching import rest_service
from emppi_ros.nodes.topics.task import TOPIC, FollowingNode
from emppi_ros.tasks import switch_protocol

_LOOK_S = 0.05  # between two looks for a change of state, which is published at once
_LOG_S = 2.0  # between two warnings of a kind
_WATCH_S = 0.2  # between two looks at the graph


class BridgeNode(FollowingNode):
    """Plans in, commands out, at a fixed rate; the services of the operator."""

    def __init__(self, **kwargs: object) -> None:
        """Wait for the task."""
        super().__init__('bridge', **kwargs)
        self._config = declare_all(self, BridgeConfig)
        self._doubts = declare_all(self, MonitorConfig)
        self._way = declare_all(self, Way)
        if self._way.backend and self._way.backend not in BACKENDS:
            raise ConfigError(unknown('backend', self._way.backend, BACKENDS))
        if self._way.hardware:
            check_timeouts(self._config)
        self.commanding: Commanding | None = None  # while the node is configured
        self.surroundings: Surroundings | None = None
        self._custom_limits: tuple[str, ...] = ()
        self._told: object = None
        self._rejected = 0  # plans, of which was told
        self.create_service(SetBool, 'emppi/arm', self._arm)
        self.create_service(SetBool, 'emppi/pause', self._pause)
        rest_service.serve(self, lambda: self.commanding)
        if self._config.enable_timeout_s:
            self.create_subscription(Bool, 'emppi/enable', self._enable, 1)
        self.create_timer(_LOOK_S, self._tell)
        self.create_timer(_WATCH_S, self._watch)

    def setup(self) -> None:
        """Take the task; talk to its robot."""
        task, way = self.follow.take(), self._way
        self._custom_limits = task.robot.custom_limits
        if self._custom_limits:
            self.get_logger().warning(
                f'limits looser than published: {"; ".join(self._custom_limits)}'
            )
        try:
            backend = connect(self, task.robot, way.backend, way.hardware, way.forward_on_hardware)
        except EmppiError:
            self.follow.release()  # another task may bring another robot
            raise
        self.commanding = Commanding(self, task, backend, self._config, self._doubts)
        self.surroundings = Surroundings(self, task.robot, backend)
        self._rejected = 0

    def start(self) -> None:
        """Command from now on."""
        self.loop = self.commanding.start()

    def stop(self) -> None:
        """Brake to rest, then stop commanding."""
        super().stop()
        self.commanding.stop()

    def teardown(self) -> None:
        """Forget task and robot."""
        self.commanding.close()
        self.surroundings.close()
        self.commanding = self.surroundings = None
        super().teardown()

    def try_task(self, text: str) -> None:
        """Raise unless a task's YAML is for our robot: nothing else of it concerns us."""
        if self.commanding is not None:
            switch_protocol.check_robot(text, TOPIC, self.commanding.robot)

    def swap_task(self) -> None:
        """Go on commanding: it is the same robot."""

    def report(self) -> Report:
        """Return what the bridge is doing, and why."""
        work = self.commanding
        state = work.state
        values = {
            'state': state.phase.value,
            'fault': state.fault.code if state.fault else '',
            'reason': self._reason(),
            'armed': state.armed,
            'paused': state.paused,
            'swapping': state.swapping,
            'period_ms_p50': work.periods.quantile_ms(0.5),
            'period_ms_p99': work.periods.quantile_ms(0.99),
            'latency_ms_p50': work.latencies.quantile_ms(0.5),
            'latency_ms_p99': work.latencies.quantile_ms(0.99),
            **{f'age_s {topic.topic}': topic.age for topic in work.topics},
            'rejected_plans': work.rejected,
            'last_rejection': work.rejection,
            'input_error': work.input_error,
            'graph': '; '.join(problem.text for problem in self.surroundings.problems),
            'custom_limits': '; '.join(self._custom_limits),
        }
        reason = self._reason()
        stopped = state.engaged and state.phase is not Phase.MOVING
        level = ERROR if state.fault or stopped else OK
        if self.follow.changed:
            return Report(max(level, WARN), self.follow.changed, values)
        return Report(level, reason or 'following the plan', values)

    def _reason(self) -> str:
        """Return in words why the robot is not moved, '' while it is."""
        work = self.commanding
        if work is None or work.commander is None:
            return 'not active'
        if work.commander.ready:
            return work.commander.reason
        wrong = '; '.join(problem.text for problem in self.surroundings.problems)
        return work.input_error or wrong or work.commander.reason

    def _watch(self) -> None:
        """Look at the graph; whoever else commands the robot stops ours."""
        if self.commanding is None:
            return
        self.surroundings.look()
        if text := self.surroundings.intruder:
            self.commanding.trip(Fault(faults.SECOND_PUBLISHER, text))

    def _tell(self) -> None:
        """Publish a change of state soon, and not only when the next second is over."""
        work = self.commanding
        state = (self.state, work and work.state)
        if state != self._told:
            self._told = state
            self.diagnostics.publish()
        if work is None:
            return
        # here and not where it happens: rclpy looks up who logs, for a tenth of a second at first
        if work.input_error:
            self.get_logger().warning(
                f'joint state: {work.input_error}', throttle_duration_sec=_LOG_S
            )
        if work.rejected > self._rejected:
            self.get_logger().warning(f'rejected: {work.rejection}', throttle_duration_sec=_LOG_S)
        self._rejected = work.rejected

    def _arm(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        work = self.commanding
        try:
            if work is not None and not request.data:
                work.disarm()
            elif request.data and (work is None or work.commander is None):
                raise ArmError('not active')
            elif request.data:
                self.surroundings.look()
                if text := self.surroundings.obstacle:
                    raise ArmError(text)
                work.arm()
        except EmppiError as error:
            verb = 'arm' if request.data else 'acknowledge'
            response.success, response.message = False, f'cannot {verb}: {error}'
            self.get_logger().warning(response.message)
            return response
        response.success, response.message = True, 'armed' if request.data else 'not armed'
        return response

    def _pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        work = self.commanding
        if work is None or work.commander is None or not work.commander.ready:
            response.success, response.message = False, f'cannot pause: {self._reason()}'
            return response
        with work.lock:
            work.commander.pause(request.data)
        response.success, response.message = True, 'paused' if request.data else 'not paused'
        return response

    def _enable(self, message: Bool) -> None:
        if self.commanding is not None:
            self.commanding.enable(message.data)


def main() -> None:
    """Run the node."""
    sys.exit(process.run(BridgeNode, real_time=10))


if __name__ == '__main__':
    main()
