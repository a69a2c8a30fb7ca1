"""
The node `bridge`: brings plans to the robot, within limits, and brakes when they stop coming.

It starts disarmed. Only while it is active does it command, and never before it has seen the
robot's joint states. All its ages are measured by a clock that never jumps.
"""

from dataclasses import dataclass
import sys
import threading
import time

from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge.watchdog import BridgeConfig
from emppi_ros.config import key
from emppi_ros.errors import ConfigError, EmppiError, unknown
from emppi_ros.nodes import convert, process, qos
from emppi_ros.nodes.backends import BACKENDS, connect
from emppi_ros.nodes.backends.interface import Cycle
from emppi_ros.nodes.commander import Commander
from emppi_ros.nodes.diagnostics import ERROR, OK, WARN, Durations, Report
from emppi_ros.nodes.following import FollowingNode
from emppi_ros.nodes.inputs import APPLIED
from emppi_ros.nodes.parameters import declare_all
from emppi_ros.nodes.polling import Loop, PolledSubscription

_LONGEST_BRAKING_S = 3.0
_RESTS = 10  # commands of rest before leaving: the very last may be lost with its sender


@dataclass(frozen=True)
class Way:
    """Parameters that say how the bridge talks to the robot."""

    backend: str = key('', doc="way to the robot; the robot's own if empty")
    hardware: bool = key(False, doc='whether a real robot moves')
    forward_on_hardware: bool = key(False, doc='let backend forward drive hardware, nonetheless')


class BridgeNode(FollowingNode):
    """Plans in, commands out, at a fixed rate."""

    def __init__(self, **kwargs: object) -> None:
        """Wait for the task."""
        super().__init__('bridge', **kwargs)
        self._config = declare_all(self, BridgeConfig)
        self._way = declare_all(self, Way)
        if self._way.backend and self._way.backend not in BACKENDS:
            raise ConfigError(unknown('backend', self._way.backend, BACKENDS))
        self._lock = threading.RLock()  # between commanding and the services
        self._commander: Commander | None = None  # while the node is active
        self._periods = Durations()
        self.rejected, self.rejection, self._input_error = 0, '', ''
        self._custom_limits: tuple[str, ...] = ()
        self.create_service(SetBool, 'emppi/arm', self._arm)
        self.create_service(SetBool, 'emppi/pause', self._pause)

    def setup(self) -> None:
        """Take the task; talk to its robot."""
        self._task = self.follow.take()
        robot = self._task.robot
        self._custom_limits = robot.custom_limits
        if self._custom_limits:
            self.get_logger().warning(
                f'limits looser than published: {"; ".join(self._custom_limits)}'
            )
        way = self._way
        try:
            self._backend = connect(
                self, robot, way.backend, way.hardware, way.forward_on_hardware
            )
        except ConfigError:
            self.follow.release()  # another task may bring another robot
            raise
        self._applied = self.create_publisher(JointState, APPLIED, qos.DEFAULT)
        self._topics = [
            PolledSubscription(
                self, JointState, robot.topics.joint_states, self._take_joints, qos.SENSOR
            ),
            PolledSubscription(self, JointTrajectory, 'emppi/plan', self._take_plan, qos.DEFAULT),
        ]

    def start(self) -> None:
        """Command from now on, from what is measured now on."""
        for topic in self._topics:
            topic.drop()
        self._commander = Commander(self._config, self._task.robot)
        self.loop = Loop('commanding', 1.0 / self._config.rate_hz, self._tick)

    def stop(self) -> None:
        """Brake to rest, then stop commanding."""
        super().stop()
        commander, self._commander = self._commander, None
        commander.engage(armed=False, paused=False)
        if not commander.ready:
            return
        began, rests = time.monotonic(), 0
        while rests < _RESTS and time.monotonic() - began < _LONGEST_BRAKING_S:
            time.sleep(1.0 / self._config.rate_hz)
            self._command(commander)
            rests += commander.resting

    def teardown(self) -> None:
        """Forget task and robot."""
        for topic in self._topics:
            topic.close()
        self._backend.close()
        self.destroy_publisher(self._applied)
        super().teardown()

    def report(self) -> Report:
        """Return what the bridge is doing, and why."""
        commander = self._commander
        values = {
            'armed': commander is not None and commander.armed,
            'paused': commander is not None and commander.paused,
            'period_ms_p50': self._periods.quantile_ms(0.5),
            'period_ms_p99': self._periods.quantile_ms(0.99),
            'rejected_plans': self.rejected,
            'last_rejection': self.rejection,
            'input_error': self._input_error,
            'custom_limits': '; '.join(self._custom_limits),
        }
        reason = self._reason()
        level = ERROR if reason and commander is not None and commander.engaged else OK
        if self.follow.changed:
            return Report(max(level, WARN), self.follow.changed, values)
        return Report(level, reason or 'following the plan', values)

    def _reason(self) -> str:
        """Return in words why the robot is not moved, '' while it is."""
        if self._commander is None:
            return 'not active'
        if not self._commander.ready and self._input_error:
            return self._input_error
        return self._commander.reason

    def _take_joints(self, message: JointState) -> None:
        rows = self._task.commanded_rows
        try:
            _, position, velocity = convert.read_joints(self._task.robot, message)
        except EmppiError as error:  # not used: the age of the last good one grows until we brake
            self._input_error = str(error)
            self.get_logger().warning(f'joint state: {error}', throttle_duration_sec=2.0)
            return
        self._input_error = ''
        self._commander.measure(time.monotonic(), position[rows], velocity[rows])

    def _take_plan(self, message: JointTrajectory) -> None:
        now = self.get_clock().now().nanoseconds * 1e-9
        try:
            plan = convert.read_plan(self._task.robot, message, now)
        except EmppiError as error:
            self.rejected, self.rejection = self.rejected + 1, str(error)
            self.get_logger().warning(f'rejected: {error}', throttle_duration_sec=2.0)
            return
        self._commander.receive(plan._replace(start=plan.start + time.monotonic() - now))

    def _tick(self, _moment: float) -> None:
        with self._lock:
            for topic in self._topics:
                topic.poll()
            if self._commander.ready:  # before any joint state nothing is commanded
                self._command(self._commander)

    def _command(self, commander: Commander) -> None:
        now = time.monotonic()
        stamp = self.get_clock().now().to_msg()
        command = self._backend.coasting(now)
        if command is None:
            command, elapsed = commander.step(now)
            self._periods.add(elapsed)
            cycle = Cycle(now, command, commander.position, commander.engaged)
            command = self._backend.send(cycle)
        else:
            commander.halt(now)
        self._applied.publish(convert.write_applied(self._task.robot, stamp, command))

    def _arm(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        with self._lock:
            commander = self._commander
            if request.data and (commander is None or not commander.ready):
                response.success, response.message = False, f'cannot arm: {self._reason()}'
                return response
            if commander is not None:
                commander.engage(request.data, commander.paused)
        response.success, response.message = True, 'armed' if request.data else 'not armed'
        return response

    def _pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        with self._lock:
            commander = self._commander
            if commander is None:
                response.success, response.message = False, 'cannot pause: not active'
                return response
            commander.engage(commander.armed, request.data)
        response.success, response.message = True, 'paused' if request.data else 'not paused'
        return response


def main() -> None:
    """Run the node."""
    sys.exit(process.run(BridgeNode, prompt=True))


if __name__ == '__main__':
    main()
