"""The bridge from one command to the next, on a clock that never jumps. No ROS here."""

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import faults, jerk_limiter, monitors, state_machine, watchdog
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.monitors import Measurement, MonitorConfig
from emppi_ros.bridge.state_machine import Machine, Phase
from emppi_ros.bridge.watchdog import Bridge, BridgeConfig
from emppi_ros.control.plan import Plan
from emppi_ros.core.errors import ArmError
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
_AT_REST, _STILL_S = 0.05, 0.1  # rad/s or m/s measured: more is braked, not cut off; s below it


class Commander:
    """Arms, pauses, follows plans, brakes and holds; knows nothing before it has measured."""

    def __init__(
        self,
        config: BridgeConfig,
        robot: Robot,
        delay_s: float = 0.0,
        doubts: MonitorConfig | None = None,
        settle_s: float = 0.0,
    ) -> None:
        """
        Start disarmed; the robot moves `delay_s` after it is commanded to.

        From rest it follows no plan before `settle_s`, in which the robot takes over where it is.
        """
        self._config, self._robot, self._delay = config, robot, delay_s
        self._settle, self._begins, self._settled_at = settle_s, False, -np.inf
        self._doubts, self._monitor = doubts or MonitorConfig(), monitors.begin()
        self._longest = 2.0 / config.rate_hz  # from one command to the next, if all is well
        self._bridge: Bridge | None = None
        self._stepped_at = self._moved_at = -np.inf
        self._enabled_at = -np.inf
        self._swap_at = np.inf

    @property
    def ready(self) -> bool:
        """Whether there is anything to command from."""
        return self._bridge is not None

    @property
    def machine(self) -> Machine:
        """Its state."""
        return Machine() if self._bridge is None else self._bridge.machine

    @property
    def position(self) -> Array:
        """Where the commanded joints were measured last (joints,); only if it is ready."""
        return self._position

    @property
    def resting(self) -> bool:
        """Whether its last command moves nothing."""
        return self._bridge is None or jerk_limiter.is_at_rest(self._robot, self._bridge.command)

    @property
    def still(self) -> bool:
        """Whether it is at rest: as commanded, and as measured; only if it is ready."""
        stopped = self.machine.phase not in (Phase.MOVING, Phase.STOPPING)
        return stopped and self._measured_at - self._moved_at >= _STILL_S

    @property
    def reason(self) -> str:
        """Why it is not following a plan, in words; '' while it is."""
        now = self.machine
        if self._bridge is None:
            return 'no joint state received yet'
        if now.fault is not None:
            held = now.phase is Phase.HELD
            return f'held: {now.fault.text}' if held else f'stopping: {now.fault.text}'
        if not now.armed:
            return 'not armed'
        if now.paused:
            return 'paused'
        if now.swapping:
            return 'at rest for another task'
        if now.phase is Phase.MOVING:
            return ''
        if self._begins or self._stepped_at < self._settled_at:
            return 'settling where it is'
        return 'waiting for a plan' if self._bridge.overdue is None else 'the plan is late'

    def measure(self, measured: Measurement) -> None:
        """Take where the commanded joints are; the first time says where to begin."""
        self._monitor = monitors.measure(self._doubts, self._robot, self._monitor, measured)
        if not self._monitor.used:
            return
        velocity, self._measured_at = measured.velocity, measured.time
        self._position, moves = measured.position, np.max(np.abs(velocity)) > _AT_REST
        self._moved_at = measured.time if moves else self._moved_at
        if self._bridge is None:
            command = jerk_limiter.at_rest(self._robot, self._position)
            if self._robot.command == 'velocity' and moves:
                limit = np.array(self._robot.limits.velocity)  # a measurement may be anything
                # left moving: brake from there
                command = command._replace(value=np.clip(velocity, -limit, limit))
            self._bridge = Bridge(command)
        if self._monitor.fault is not None:
            self.trip(self._monitor.fault)

    def receive(self, plan: Plan) -> None:
        """Take a checked plan whose start is on this clock; while not engaged, none counts."""
        if self._bridge is not None:
            self._bridge = watchdog.receive(self._bridge, plan)

    def enable(self, now: float, enabled: bool) -> None:
        """Take what the operator's enabling switch says."""
        self._enabled_at = now if enabled else -np.inf

    def arm(self, now: float) -> None:
        """Follow plans from now on, or raise ArmError with what is in the way."""
        if self._bridge is None:
            raise ArmError(self.reason)
        armed = state_machine.arm(self.machine)
        for fault in (self._monitor.fault, self._state_fault(now), self._switch_fault(now)):
            if fault is not None:
                raise ArmError(fault.text)
        self._change(armed)

    def disarm(self) -> None:
        """Brake to rest and stay there; what went wrong is acknowledged."""
        if self._bridge is not None:
            self._change(state_machine.disarm(self.machine))

    def pause(self, paused: bool) -> None:
        """Brake to rest until it is over, armed as before; ArmError if there is no robot yet."""
        if self._bridge is None:
            raise ArmError(self.reason)
        self._change(state_machine.pause(self.machine, paused))

    def swap(self, now: float, swapping: bool) -> None:
        """Brake to rest for another task, or go on as before; ArmError if there is no robot."""
        if self._bridge is None:
            raise ArmError(self.reason)
        if swapping != self.machine.swapping:
            self._swap_at = now
        self._change(state_machine.swap(self.machine, swapping))

    def trip(self, fault: Fault) -> None:
        """Brake to rest and hold, for a fault that was found elsewhere."""
        if self._bridge is not None:
            self._change(state_machine.trip(self.machine, fault))

    def is_behind(self, now: float) -> bool:
        """Return whether the last command is so long ago that it was a hiccup."""
        return np.isfinite(self._stepped_at) and now - self._stepped_at > self._longest

    def resume(self, now: float, command: Command) -> None:
        """Go on from what the robot does by itself at a time, not from the last command."""
        self._bridge = self._bridge._replace(command=command)
        self._stepped_at = now

    def step(self, now: float) -> tuple[Command, float]:
        """Return the next command, and how long after the last one it comes."""
        elapsed = now - self._stepped_at
        if not np.isfinite(elapsed):
            elapsed = 1.0 / self._config.rate_hz
        self._stepped_at = now
        for fault in (self._state_fault(now), self._switch_fault(now)):
            if fault is not None:
                self.trip(fault)
        self._end_swap(now)
        if self._begins:
            self._settled_at, self._begins = now + self._settle, False
        if now < self._settled_at:
            self._bridge = watchdog.forget(self._bridge)
        self._bridge = watchdog.step(
            self._config,
            self._robot,
            self._bridge,
            now,
            self._position,
            min(elapsed, self._longest),  # a hiccup is no licence for a jerk
            self._delay,
        )
        return self._bridge.command, elapsed

    def follow(self, now: float, applied: Array) -> None:
        """Take what the robot follows from now on (joints,), to see whether it does."""
        velocity = applied if self._robot.command == 'velocity' else self._bridge.command.rate
        self._monitor = monitors.command(self._doubts, self._robot, self._monitor, now, velocity)

    def _state_fault(self, now: float) -> Fault | None:
        """Return what is wrong with the joint states."""
        age = now - self._measured_at
        if age <= self._config.state_timeout_s:
            return None
        return Fault(faults.STATE_LATE, f'joint states are {age:.3f} s old')

    def _switch_fault(self, now: float) -> Fault | None:
        """Return whether the operator let go of the enabling switch, if there is to be one."""
        timeout = self._config.enable_timeout_s
        if timeout == 0.0 or now - self._enabled_at <= timeout:
            return None
        return Fault(faults.ENABLE_LOST, 'the enabling switch (topic emppi/enable) is not held')

    def _end_swap(self, now: float) -> None:
        """Wait for no task for ever: an arm that was armed is held, for a person to look."""
        if self.machine.swapping and now - self._swap_at > self._config.swap_timeout_s:
            text = 'the planner asked for rest to swap tasks, and never said that it was done'
            self.trip(Fault(faults.SWAP_LOST, text))
            self._change(state_machine.swap(self.machine, False))

    def _change(self, changed: Machine) -> None:
        """Go over to another state; whoever begins to move starts from where the robot is."""
        begins = changed.engaged and not self.machine.engaged
        self._bridge = watchdog.change(self._bridge, changed)
        if begins and self.resting:
            # a position that was commanded earlier may not be where the robot is now
            command = jerk_limiter.at_rest(self._robot, self._position)
            self._bridge, self._begins = self._bridge._replace(command=command), True
