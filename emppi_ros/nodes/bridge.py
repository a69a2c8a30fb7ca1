"""
The node `bridge`: brings plans to the robot, within limits, and brakes when they stop coming.

It starts disarmed. Only while it is active does it command, and never before it has seen the
robot's joint states. All its ages are measured by a clock that never jumps.
"""

import sys
import threading
import time

from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import shaping, watchdog
from emppi_ros.bridge.watchdog import Bridge, BridgeConfig
from emppi_ros.errors import ConfigError, EmppiError, unknown
from emppi_ros.nodes import convert, process, qos
from emppi_ros.nodes.diagnostics import ERROR, OK, WARN, Durations, Report
from emppi_ros.nodes.following import FollowingNode
from emppi_ros.nodes.forward import BACKENDS
from emppi_ros.nodes.inputs import APPLIED
from emppi_ros.nodes.parameters import declare, declare_all
from emppi_ros.nodes.polling import Loop, PolledSubscription

_LONGEST_BRAKING_S = 3.0
_AT_REST = 0.05  # rad/s or m/s: a measured velocity above that is braked, not cut off


class BridgeNode(FollowingNode):
    """Plans in, commands out, at a fixed rate."""

    def __init__(self, **kwargs: object) -> None:
        """Wait for the task."""
        super().__init__('bridge', **kwargs)
        self._config = declare_all(self, BridgeConfig)
        self._backend_name = declare(self, 'backend', 'forward', 'way to the robot')
        if self._backend_name not in BACKENDS:
            raise ConfigError(unknown('backend', self._backend_name, BACKENDS))
        self._bridge: Bridge | None = None
        self._armed = self._paused = False
        self._lock = threading.RLock()  # between commanding and the services
        self._rejected, self._rejection, self._input_error = 0, '', ''
        self._periods = Durations()
        self.create_service(SetBool, 'emppi/arm', self._arm)
        self.create_service(SetBool, 'emppi/pause', self._pause)

    def setup(self) -> None:
        """Take the task; talk to its robot."""
        self._task = self.follow.take()
        robot = self._task.robot
        self._backend = BACKENDS[self._backend_name](self, robot)
        self._applied = self.create_publisher(JointState, APPLIED, qos.DEFAULT)
        self._topics = [
            PolledSubscription(
                self, JointState, robot.topics.joint_states, self._take_joints, qos.SENSOR
            ),
            PolledSubscription(self, JointTrajectory, 'emppi/plan', self._take_plan, qos.DEFAULT),
        ]
        self._bridge, self._armed, self._paused = None, False, False

    def start(self) -> None:
        """Command from now on."""
        self._stepped_at = time.monotonic()
        self._bridge = None  # begins from what is measured now
        for subscription in self._topics:
            subscription.drop()
        self.loop = Loop('commanding', 1.0 / self._config.rate_hz, self._tick)

    def stop(self) -> None:
        """Brake to rest, then stop commanding."""
        super().stop()
        self._armed = False
        if self._bridge is None:
            return
        self._bridge = watchdog.arm(self._bridge, armed=False)
        began = time.monotonic()
        while time.monotonic() - began < _LONGEST_BRAKING_S:
            self._step()
            if shaping.is_at_rest(self._task.robot, self._bridge.command):
                break
            time.sleep(1.0 / self._config.rate_hz)

    def teardown(self) -> None:
        """Forget task and robot."""
        for subscription in self._topics:
            subscription.close()
        self._backend.close()
        self.destroy_publisher(self._applied)
        self._bridge = None
        super().teardown()

    def report(self) -> Report:
        """Return what the bridge is doing, and why."""
        moving = self._bridge is not None and not self._bridge.reason
        message = self.follow.changed or ('following the plan' if moving else self._reason())
        values = {
            'armed': self._armed,
            'paused': self._paused,
            'period_ms_p50': self._periods.quantile_ms(0.5),
            'period_ms_p99': self._periods.quantile_ms(0.99),
            'rejected_plans': self._rejected,
            'last_rejection': self._rejection,
            'input_error': self._input_error,
        }
        wanted = self._armed and not self._paused and self.state == 'active'
        level = ERROR if wanted and not moving else WARN if self.follow.changed else OK
        return Report(level, message, values)

    def _reason(self) -> str:
        """Return in words why the robot is not moved."""
        if self.state != 'active':
            return 'not active'
        if self._bridge is None:
            return self._input_error or 'no joint state received yet'
        return 'paused' if self._armed and self._paused else self._bridge.reason

    def _take_joints(self, message: JointState) -> None:
        rows = self._task.commanded_rows
        try:
            _, position, velocity = convert.read_joints(self._task.robot, message)
        except EmppiError as error:  # not used: the age of the last good one grows until we brake
            self._input_error = str(error)
            self.get_logger().warning(f'joint state: {error}', throttle_duration_sec=2.0)
            return
        self._input_error = ''
        self._position, self._velocity = position[rows], velocity[rows]
        self._measured_at = time.monotonic()
        if self._bridge is None:
            self._bridge = Bridge(self._initial_command())

    def _initial_command(self) -> shaping.Command:
        """Return what to go on from: rest, or the velocity of a robot left moving."""
        command = shaping.at_rest(self._task.robot, self._position)
        if self._task.robot.command != 'velocity' or max(abs(self._velocity)) < _AT_REST:
            return command
        return command._replace(value=self._velocity.copy())

    def _take_plan(self, message: JointTrajectory) -> None:
        now = self.get_clock().now().nanoseconds * 1e-9
        try:
            plan = convert.read_plan(self._task.robot, message, now)
        except EmppiError as error:
            self._rejected, self._rejection = self._rejected + 1, str(error)
            self.get_logger().warning(f'rejected: {error}', throttle_duration_sec=2.0)
            return
        if self._bridge is not None and self._bridge.armed:
            offset = time.monotonic() - now
            self._bridge = watchdog.receive(self._bridge, plan._replace(start=plan.start + offset))

    def _tick(self, _moment: float) -> None:
        with self._lock:
            for subscription in self._topics:
                subscription.poll()
            if self._bridge is not None:  # before any joint state nothing is commanded
                self._step()

    def _step(self) -> None:
        now = time.monotonic()
        elapsed, self._stepped_at = now - self._stepped_at, now
        self._periods.add(elapsed)
        self._bridge = watchdog.step(
            self._config,
            self._task.robot,
            self._bridge,
            now,
            self._position,
            now - self._measured_at,
            min(elapsed, 2.0 / self._config.rate_hz),  # a hiccup is no licence for a jerk
        )
        stamp = self.get_clock().now().to_msg()
        self._backend.send(self._bridge.command.value)
        self._applied.publish(
            convert.write_applied(self._task.robot, stamp, self._bridge.command.value)
        )

    def _arm(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        if request.data and self._bridge is None:
            response.success, response.message = False, f'cannot arm: {self._reason()}'
            return response
        self._armed = request.data
        self._engage()
        response.success, response.message = True, 'armed' if self._armed else 'not armed'
        return response

    def _pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._paused = request.data
        self._engage()
        response.success, response.message = True, 'paused' if self._paused else 'not paused'
        return response

    def _engage(self) -> None:
        """Follow plans if armed and not paused; plans from before count no more."""
        with self._lock:
            engaged = self._armed and not self._paused
            if self._bridge is None or engaged == self._bridge.armed:
                return
            robot, bridge = self._task.robot, self._bridge
            if engaged and shaping.is_at_rest(robot, bridge.command):
                # a position that was commanded earlier may not be where the robot is now
                bridge = bridge._replace(command=shaping.at_rest(robot, self._position))
            self._bridge = watchdog.arm(bridge, engaged)


def main() -> None:
    """Run the node."""
    sys.exit(process.run(BridgeNode, prompt=True))


if __name__ == '__main__':
    main()
