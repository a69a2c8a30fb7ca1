"""Connect the commander to ROS: joint states and plans in, commands out, at a fixed rate."""

from collections import deque
import math
import threading
import time

from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import faults
from emppi_ros.bridge.commander import BridgeConfig, Commander
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.monitors import Measurement, MonitorConfig
from emppi_ros.bridge.state_machine import Phase
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ArmError, EmppiError
from emppi_ros.nodes.backends import Backend, BackendCommand
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.clock_sync import ClockSync, CommandClock
from emppi_ros.nodes.common.diagnostics import Durations
from emppi_ros.nodes.common.inputs import APPLIED, PLAN
from emppi_ros.nodes.common.joint_states import JointStateReader
from emppi_ros.nodes.common.polling import Loop, PeriodEstimator, PolledSubscription
from emppi_ros.robots.robot import Robot
from emppi_ros.tasks.task import Task

_LONGEST_BRAKING_S = 3.0
_LONGEST_RESET_S = 5.0  # of a simulated robot, after which it is commanded again
_RESTS = 10  # commands of rest before stopping: the last ones may be lost with their sender
_WAIT = 0.8  # share of a period in which to wait for a joint state that is due
_POLL_S = 2.5e-4  # between two polls while waiting for it
_SIMULATED_SLACK_S = 0.1
_CLOCK_COUNT = 250  # joint states whose stamps are compared with the clock
_CLOCK_WAIT_S = 1.0  # for one that arrives without delay


class CommandLoop:
    """Commands the robot of one task between `start` and `stop`; the commander decides."""

    def __init__(
        self,
        node: Node,
        task: Task,
        backend: Backend,
        clock: CommandClock,
        config: BridgeConfig,
        monitor_config: MonitorConfig,
    ) -> None:
        self._node, self._task, self.backend = node, task, backend
        self.clock = clock
        self.robot = task.robot
        self._config, self._monitor_config = config, monitor_config
        self.lock = threading.RLock()  # between the loop and the services
        self._residual: float | None = None  # that the task's stage tolerates
        self.periods, self.latencies = Durations(), Durations()
        self._ahead: deque[float] = deque(maxlen=_CLOCK_COUNT)  # s, stamps before our clock
        self.rejected_plans, self.rejection, self.input_error = 0, '', ''
        self._reset_until: float | None = None  # s, monotonic clock, while the robot is reset
        self._sent: float | None = None  # when the newest joint state was sent, if it is new
        self._regular = PeriodEstimator()  # joint states
        self._period = 1.0 / config.rate_hz
        self._loop: Loop | None = None
        self.commander = self._new_commander()  # between `stop` and `start` without inputs
        self._stamps, self._reader = ClockSync(clock), JointStateReader(task.robot)
        self._applied = node.create_publisher(JointState, APPLIED, qos.DEFAULT)
        joint_states = task.robot.topics.joint_states
        self._plans = PolledSubscription(
            node, JointTrajectory, PLAN, self._receive_plan, qos.DEFAULT
        )
        if backend.measures:
            self._joints = None
            self._measured = qos.advertise(node, JointState, joint_states, qos.MEASURED)
            self.joints_profile = self._measured.qos_profile
        else:
            self._joints = PolledSubscription(
                node, JointState, joint_states, self._receive_joints, qos.SENSOR, timed=True
            )
            self.joints_profile = self._joints.profile
        self.subscriptions = [self._plans, *filter(None, [self._joints])]

    def start(self) -> Loop:
        """Start commanding, from new measurements only."""
        self._begin()
        clock = self.clock
        self._loop = Loop(
            'commanding', self._period, self._cycle, clock.now, simulated=clock.simulated
        )
        return self._loop

    def _begin(self) -> None:
        """Begin disarmed, from new measurements only."""
        for subscription in self.subscriptions:
            subscription.drop()
        self._reset_until = None
        self.commander = self._new_commander()

    def _new_commander(self) -> Commander:
        backend = self.backend
        commander = Commander(
            self._config, self.robot, backend.delay_s, self._monitor_config, backend.settle_s
        )
        commander.tolerate(self._residual)
        return commander

    @property
    def active(self) -> bool:
        """Whether the robot is commanded: between `start` and `stop`."""
        return self._loop is not None

    def begin_reset(self) -> bool:
        """
        Brake to rest, disarm, and command nothing until `end_reset`, or for some seconds.

        Return whether the robot is at rest; otherwise it is commanded as before, disarmed.
        """
        self.disarm()
        end = time.monotonic() + _LONGEST_BRAKING_S
        while time.monotonic() < end:
            with self.lock:
                if self.commander.resting:
                    self._reset_until = time.monotonic() + _LONGEST_RESET_S
                    return True
            time.sleep(self._period)
        return False

    def end_reset(self) -> None:
        """Begin disarmed, from new measurements of a robot that was reset."""
        with self.lock:
            if self._reset_until is not None:
                self._begin()

    def stop(self) -> None:
        """Brake to rest, then stop commanding; call it after the loop has ended."""
        commander = self.commander
        commander.disarm()
        began, rests = time.monotonic(), 0
        while commander.ready and rests < _RESTS and time.monotonic() - began < _LONGEST_BRAKING_S:
            time.sleep(self._period)
            self._command(commander)
            rests += commander.resting
        self.commander, self._loop = self._new_commander(), None

    def close(self) -> None:
        """Close topics and backend."""
        for subscription in self.subscriptions:
            subscription.close()
        if self._joints is None:
            self._node.destroy_publisher(self._measured)
        self.backend.close()
        self._node.destroy_publisher(self._applied)

    def arm(self, robot: Robot) -> None:
        """
        Follow plans from now on; ArmError says what prevents it.

        `robot` has the limits to keep, those of the task's robot or tighter ones.
        """
        self._await_prompt_state()
        with self.lock:
            if text := self.backend.fault():
                raise ArmError(f'{text}. Disarm to acknowledge this, then arm again')
            if self._reset_until is not None:
                raise ArmError('the simulator is resetting the robot')
            self._check_rate()
            self._check_clock()
            if text := self.backend.refusal():
                raise ArmError(text)
            self.commander.limit(robot)
            self.commander.arm(self.clock.now())

    def disarm(self) -> None:
        """Brake to rest, acknowledge a fault, and clear it if the robot itself holds it."""
        with self.lock:
            self.commander.disarm()
            if self.backend.fault():
                self.backend.recover()

    def configure(self, config: BridgeConfig) -> None:
        """Use other timeouts; ArmError unless the bridge is disarmed and at rest."""
        with self.lock:
            phase = self.commander.machine.phase
            if phase is not Phase.INACTIVE:
                raise ArmError(f'the bridge is {phase.value}: disarm it to change its timeouts')
            self._config = config
            self.commander.configure(config)

    def tolerate(self, residual_rad_per_s: float | None) -> None:
        """Tolerate a larger residual than configured, as the task's stage does; None: do not."""
        with self.lock:
            self._residual = residual_rad_per_s
            self.commander.tolerate(residual_rad_per_s)

    def _await_prompt_state(self) -> None:
        """Wait briefly for a joint state without delay: a late one looks like a slow clock."""
        end = time.monotonic() + _CLOCK_WAIT_S
        while time.monotonic() < end:
            with self.lock:
                ahead, slack = self._compare_clocks()
            if ahead >= -slack:
                return
            time.sleep(self._period)

    def _check_rate(self) -> None:
        """Raise ArmError if joint states are so rare that each would be late."""
        interval, timeout = self._regular.interval_s, self._config.state_timeout_s
        if math.isfinite(interval) and interval > timeout and not self.clock.simulated:
            raise ArmError(
                f'joint states arrive {1.0 / interval:.0f} times a second, at least '
                f'{1.0 / timeout:.0f} are needed (state_timeout_s: {timeout:g})'
            )

    def _check_clock(self) -> None:
        """Raise ArmError if the backend relies on the robot's clock, and it is off."""
        ahead, slack = self._compare_clocks()
        if abs(ahead) > slack:
            raise ArmError(
                f"the stamps of joint states differ from this computer's clock by {ahead:.4f} s, "
                f'at most {slack:g} s: synchronise the clocks, or run the bridge on the computer '
                'of the controller'
            )

    def _compare_clocks(self) -> tuple[float, float]:
        """Return by how much the robot's clock is ahead of ours, and what is allowed [s]."""
        # each message takes some time: the quickest one tells the clocks apart
        ahead, slack = max(self._ahead, default=0.0), self.backend.clock_slack_s
        if self.clock.simulated:  # /clock has steps, and overtakes other topics
            slack = max(slack, _SIMULATED_SLACK_S)
        return ahead, slack

    def _cycle(self, moment: float) -> None:
        waited = self._measure(moment + _WAIT * self._period)
        if self._sent is not None and self._loop is not None:
            self._loop.shift(self._regular.shift(self._period, waited))
        with self.lock:
            if self._reset_until is not None:
                if time.monotonic() < self._reset_until:
                    return
                self._begin()
            self._plans.poll()
            commander = self.commander
            if not commander.ready:  # nothing is commanded before the first joint state
                return
            if text := self.backend.fault():
                commander.trip(Fault(faults.ROBOT, text))
            self._command(commander)
            if self._sent is not None:
                self.latencies.add(time.time() - self._sent)

    def _measure(self, until: float) -> float:
        """Take joint states, waiting briefly for one that is due; return the wait [s]."""
        self._sent, waited, began = None, 0.0, self.clock.now()
        while True:
            with self.lock:
                if self._joints is not None:
                    self._joints.poll()
                elif (state := self.backend.measure()) is not None:
                    self._take_state(state.stamp, *state)
                    self._measured.publish(convert.write_joints(self.robot, *state))
            now = self.clock.now()
            if self._sent is not None:
                self._regular.note(now)
                return waited
            if now >= until or not self._regular.is_due(until):
                return waited
            time.sleep(_POLL_S)
            waited = self.clock.now() - began

    def _command(self, commander: Commander) -> None:
        now = self.clock.now()
        if commander.is_behind(now) or self.backend.is_late(now):
            before = now - self._period
            motion = self.backend.resume(before)
            if motion is not None:
                commander.resume(before, motion)
        command, elapsed = commander.step(now)
        self.periods.add(elapsed)
        engaged = commander.machine.engaged
        applied = self.backend.send(
            BackendCommand(now, command, commander.position, engaged, self._measured_at(commander))
        )
        if self.backend.drives:
            commander.follow(now, applied)
        # both clocks are read together: the process may be interrupted between two readings
        stamp = self._stamps.at(now, moving=False)
        self._applied.publish(convert.write_applied(self.robot, stamp, applied))

    def _measured_at(self, commander: Commander) -> float:
        """Return when the arm was at its measured position [s], by the stamp if there is one."""
        last = commander.measured
        if last is None:
            return math.inf
        return min(last.time, self._stamps.moment(last.stamp)) if last.stamp else last.time

    def _receive_joints(self, message: JointState, sent: float) -> None:
        try:
            state = self._reader.read(message)
        except EmppiError as error:  # dropped: the age of the last good one grows until we brake
            self.input_error = str(error)
            return
        if state is None:  # of other joints, or of some of the robot's
            return
        self.input_error = ''
        self._ahead.append(state[0] - self.clock.stamp_now())
        self._take_state(sent, *state)

    def _take_state(self, sent: float, stamp: float, position: Array, velocity: Array) -> None:
        self._sent, now, rows = sent, self.clock.now(), self._task.commanded_rows
        self.commander.measure(Measurement(now, stamp, position[rows], velocity[rows]))

    def _receive_plan(self, message: JointTrajectory) -> None:
        now = self.clock.stamp_now()
        try:
            plan = convert.read_plan(self.robot, message, now)
        except EmppiError as error:
            self.rejected_plans, self.rejection = self.rejected_plans + 1, str(error)
            return
        self.commander.receive(plan._replace(start=plan.start + self.clock.now() - now))
