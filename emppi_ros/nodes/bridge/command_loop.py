"""The bridge at work: joint states and plans in, commands out, at a fixed rate."""

from collections import deque
import threading
import time

from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import faults
from emppi_ros.bridge.commander import BridgeConfig, Commander
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.monitors import Measurement, MonitorConfig
from emppi_ros.bridge.state_machine import Machine
from emppi_ros.core.errors import ArmError, EmppiError
from emppi_ros.nodes.backends.interface import Backend, Cycle, Measured
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.clock_sync import Stamps
from emppi_ros.nodes.common.diagnostics import Durations
from emppi_ros.nodes.common.inputs import APPLIED, PLAN
from emppi_ros.nodes.common.polling import Loop, PolledSubscription, Regular
from emppi_ros.tasks.task import Task

_LONGEST_BRAKING_S = 3.0
_RESTS = 10  # commands of rest before leaving: the very last may be lost with its sender
_WAIT = 0.8  # share of a period in which to wait for a joint state that is due
_CLOCK_COUNT = 250  # joint states whose stamps are compared with the clock
_LOOK_S = 2.5e-4  # between two looks for it


class Commanding:
    """Whatever works for one task; it commands between `start` and `stop`."""

    def __init__(
        self,
        node: Node,
        task: Task,
        backend: Backend,
        config: BridgeConfig,
        doubts: MonitorConfig,
    ) -> None:
        """Subscribe and advertise."""
        self._node, self._task, self.backend = node, task, backend
        self.robot = task.robot
        self._config, self._doubts = config, doubts
        self.lock = threading.RLock()  # between commanding and the services
        self.commander: Commander | None = None  # from `start` to `stop`
        self.periods, self.latencies = Durations(), Durations()
        self._ahead: deque[float] = deque(maxlen=_CLOCK_COUNT)  # s, stamps before our clock
        self.rejected, self.rejection, self.input_error = 0, '', ''
        self._sent: float | None = None  # when the newest joint state was sent, if it is new
        self._regular = Regular()  # joint states
        self._period = 1.0 / config.rate_hz
        self._loop: Loop | None = None
        self._stamps = Stamps(node)
        self._applied = node.create_publisher(JointState, APPLIED, qos.DEFAULT)
        joint_states = task.robot.topics.joint_states
        self._plans = PolledSubscription(node, JointTrajectory, PLAN, self._take_plan, qos.DEFAULT)
        if backend.measures:
            self._joints = None
            self._measured = node.create_publisher(JointState, joint_states, qos.SENSOR)
        else:
            self._joints = PolledSubscription(
                node, JointState, joint_states, self._take_joints, qos.SENSOR, timed=True
            )
        self.topics = [self._plans, *filter(None, [self._joints])]  # what it hears

    def start(self) -> Loop:
        """Command from now on, from what is measured now on."""
        for topic in self.topics:
            topic.drop()
        robot, way = self.robot, self.backend
        self.commander = Commander(self._config, robot, way.delay_s, self._doubts, way.settle_s)
        self._loop = Loop('commanding', self._period, self._tick)
        return self._loop

    def stop(self) -> None:
        """Brake to rest, then stop commanding; the loop has ended before."""
        commander = self.commander
        commander.disarm()
        began, rests = time.monotonic(), 0
        while commander.ready and rests < _RESTS and time.monotonic() - began < _LONGEST_BRAKING_S:
            time.sleep(self._period)
            self._command(commander)
            rests += commander.resting
        self.commander = None

    def close(self) -> None:
        """Forget robot and topics."""
        for topic in self.topics:
            topic.close()
        if self._joints is None:
            self._node.destroy_publisher(self._measured)
        self.backend.close()
        self._node.destroy_publisher(self._applied)

    @property
    def state(self) -> Machine:
        """The bridge's state."""
        commander = self.commander
        return Machine() if commander is None else commander.machine

    def arm(self) -> None:
        """Follow plans from now on, or raise ArmError with what is in the way."""
        with self.lock:
            if text := self.backend.fault():
                raise ArmError(f'{text}. Disarm to acknowledge this, then arm again')
            self._check_clock()
            self.commander.arm(time.monotonic())

    def disarm(self) -> None:
        """Brake to rest, acknowledge what went wrong, and clear it where the robot keeps it."""
        with self.lock:
            if self.commander is not None:
                self.commander.disarm()
            if self.backend.fault():
                self.backend.recover()

    def trip(self, fault: Fault) -> None:
        """Brake and hold for a fault that was found elsewhere."""
        with self.lock:
            if self.commander is not None:
                self.commander.trip(fault)

    def enable(self, enabled: bool) -> None:
        """Take what the operator's enabling switch says."""
        with self.lock:
            if self.commander is not None:
                self.commander.enable(time.monotonic(), enabled)

    def _check_clock(self) -> None:
        """Raise ArmError if the robot's clock is off and the backend relies on it."""
        # messages take a while, and some longer: the one that was quickest tells the clocks apart
        ahead, slack = max(self._ahead, default=0.0), self.backend.clock_slack_s
        if abs(ahead) > slack:
            raise ArmError(
                f"the stamps of joint states differ from this computer's clock by {ahead:.3f} s, "
                f'at most {slack:g} s: synchronise the clocks, or set trajectory_stamped to false'
            )

    def _tick(self, moment: float) -> None:
        waited = self._measure(moment + _WAIT * self._period)
        if self._sent is not None and self._loop is not None:
            self._loop.slip(self._regular.shift(self._period, waited))
        with self.lock:
            self._plans.poll()
            commander = self.commander
            if not commander.ready:  # before any joint state nothing is commanded
                return
            if text := self.backend.fault():
                commander.trip(Fault(faults.ROBOT, text))
            self._command(commander)
            if self._sent is not None:
                self.latencies.add(time.time() - self._sent)

    def _measure(self, until: float) -> float:
        """Take joint states, waiting a little for one that is due; return how long [s]."""
        self._sent, waited, began = None, 0.0, time.monotonic()
        while True:
            with self.lock:
                if self._joints is not None:
                    self._joints.poll()
                elif (measured := self.backend.measure()) is not None:
                    self._take_measured(measured)
            now = time.monotonic()
            if self._sent is not None:
                self._regular.note(now)
                return waited
            if now >= until or not self._regular.is_due(until):
                return waited
            time.sleep(_LOOK_S)
            waited = time.monotonic() - began

    def _command(self, commander: Commander) -> None:
        now = time.monotonic()
        if commander.is_behind(now) or self.backend.is_late(now):
            before = now - self._period
            alone = self.backend.resume(before)
            if alone is not None:
                commander.resume(before, alone)
        command, elapsed = commander.step(now)
        self.periods.add(elapsed)
        cycle = Cycle(now, command, commander.position, commander.machine.engaged)
        applied = self.backend.send(cycle)
        if self.backend.drives:
            commander.follow(now, applied)
        # both clocks read together: between two readings the process may be interrupted
        stamp = self._stamps.at(now, moving=False)
        self._applied.publish(convert.write_applied(self.robot, stamp, applied))

    def _take_joints(self, message: JointState, sent: float) -> None:
        rows = self._task.commanded_rows
        try:
            stamp, position, velocity = convert.read_joints(self.robot, message)
        except EmppiError as error:  # not used: the age of the last good one grows until we brake
            self.input_error = str(error)
            return
        self.input_error, self._sent = '', sent
        self._ahead.append(stamp - self._node.get_clock().now().nanoseconds * 1e-9)
        now = time.monotonic()
        self.commander.measure(Measurement(now, stamp, position[rows], velocity[rows]))

    def _take_measured(self, measured: Measured) -> None:
        robot, rows = self.robot, self._task.commanded_rows
        stamp, position, velocity, _ = measured
        self._sent = stamp
        now = time.monotonic()
        self.commander.measure(Measurement(now, stamp, position[rows], velocity[rows]))
        self._measured.publish(convert.write_joints(robot, stamp, position, velocity))

    def _take_plan(self, message: JointTrajectory) -> None:
        now = self._node.get_clock().now().nanoseconds * 1e-9
        try:
            plan = convert.read_plan(self.robot, message, now)
        except EmppiError as error:
            self.rejected, self.rejection = self.rejected + 1, str(error)
            return
        self.commander.receive(plan._replace(start=plan.start + time.monotonic() - now))
