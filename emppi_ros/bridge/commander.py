"""
Turn plans into commands, and stop the robot when something is wrong.

The caller supplies joint states, plans, operator requests and the time of one monotonic clock. A
late plan is tolerated at first: the arm begins to brake when it must in order to be at rest in
time, and continues if a plan arrives before `plan_lost_s`, when a fault is raised.
"""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.bridge import faults, jerk_limiter, monitors, state_machine
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.jerk_limiter import Command
from emppi_ros.bridge.monitors import Measurement, MonitorConfig, MonitorState
from emppi_ros.bridge.state_machine import Machine, Phase
from emppi_ros.core.config import non_negative, positive
from emppi_ros.core.errors import ArmError, ConfigError
from emppi_ros.robots import continuous_joints
from emppi_ros.robots.plan import Plan
from emppi_ros.robots.robot import Robot

Array = npt.NDArray[np.float64]
_MOVING = 0.05  # rad/s or m/s measured: above, the arm is braked smoothly, not stopped at once
_STILL_S = 0.1  # without measured motion, after which the robot counts as still
_NOT_LATE_S = 0.051  # age up to which no plan is late, so that planners at 20 Hz are in time
_NEXT_START_S = 0.06  # a plan is not late if the next one, already received, starts within this
_LATE_PLANS_WINDOW_S = 60.0  # in which late plans are counted
_HARDWARE_LIMITS = {'plan_timeout_s': 0.2, 'plan_lost_s': 0.25, 'state_timeout_s': 0.1}


@dataclass(frozen=True)
class BridgeConfig:
    """Settings of the bridge."""

    rate_hz: float = positive(250.0, doc='commands per second')
    plan_timeout_s: float = positive(
        0.1, doc='age of a plan, from its start, at which the robot brakes'
    )
    rest_within_s: float = positive(
        0.206, doc='age of a plan by which the arm is at rest; slow arms brake earlier for this'
    )
    plan_lost_s: float = positive(0.13, doc='age of a plan that is a fault')
    late_plans: int = non_negative(
        20,
        doc='how often per minute motion may resume after braking for a late plan',
    )
    state_timeout_s: float = positive(0.05, doc='age of the joint states that is a fault')
    enable_timeout_s: float = non_negative(
        0.0,
        doc='age of the last true message on emppi/enable that is a fault; 0: no enabling switch',
    )
    swap_timeout_s: float = positive(15.0, doc='duration of a task switch that is a fault')

    def __post_init__(self) -> None:
        """Check the keys against each other."""
        if self.plan_lost_s < self.plan_timeout_s:
            raise ConfigError(
                f'plan_lost_s: {self.plan_lost_s:g} is below plan_timeout_s '
                f'{self.plan_timeout_s:g}; the arm brakes first, then it holds'
            )

    def check_hardware(self) -> None:
        """Raise ConfigError if a timeout is too long for a real robot."""
        for name, limit in _HARDWARE_LIMITS.items():
            if (value := getattr(self, name)) > limit:
                raise ConfigError(f'{name}: {value:g} s; on hardware at most {limit:g} s')


class PlanQueue(NamedTuple):
    """The plan in force and those that start later; a plan is in force until the next starts."""

    current: Plan | None = None
    upcoming: tuple[Plan, ...] = ()  # by start time

    def add(self, plan: Plan) -> 'PlanQueue':
        """Return the queue with a plan in place of later ones; ignore one that is out of order."""
        if self.current is not None and plan.start < self.current.start:
            return self
        earlier = tuple(p for p in self.upcoming if p.start < plan.start)
        return self._replace(upcoming=(*earlier, plan))

    def advance(self, now: float) -> 'PlanQueue':
        """Return the queue with the newest plan that has started by `now` as the current one."""
        current, upcoming = self
        while upcoming and upcoming[0].start <= now:
            current, upcoming = upcoming[0], upcoming[1:]
        return PlanQueue(current, upcoming)


class LatePlans(NamedTuple):
    """Plans that came too late."""

    start: float | None = None  # start of the plan that is late, and not followed
    resumed: tuple[float, ...] = ()  # s, when motion continued after a late plan


class Commander:
    """Follow plans, brake and hold; needs one measurement before it commands anything."""

    def __init__(
        self,
        config: BridgeConfig,
        robot: Robot,
        delay_s: float = 0.0,
        monitor_config: MonitorConfig | None = None,
        settle_s: float = 0.0,
    ) -> None:
        """
        Start disarmed.

        The robot moves `delay_s` after a command. When it is newly armed at rest, no plan is
        followed for `settle_s`, in which the robot's controller settles at the measured position.
        """
        self._config, self._robot, self._delay = config, robot, delay_s
        self._settle, self._settles, self._settled_at = settle_s, False, -np.inf
        self._monitor_config, self._monitor = monitor_config or MonitorConfig(), MonitorState()
        self._tolerated = self._monitor_config  # in the stage of the task
        self._longest = 2.0 / config.rate_hz  # regular time between commands, at most
        self.machine = Machine()
        self.position: Array  # (joints,) as measured last; once ready
        self._command: Command | None = None  # the last one; none before the first measurement
        self._plans = PlanQueue()
        self._late = LatePlans()
        self._stepped_at = self._moved_at = -np.inf
        self._enabled_at = -np.inf
        self._swap_at = np.inf

    def configure(self, config: BridgeConfig) -> None:
        """Use other timeouts from the next command on; the rate must stay the same."""
        self._config = config

    def limit(self, robot: Robot) -> None:
        """Keep the limits of a robot from the next command on, which are no looser."""
        self._robot = robot

    def tolerate(self, residual_rad_per_s: float | None) -> None:
        """Tolerate a larger residual than configured; None: as configured."""
        config = self._monitor_config
        largest = max(config.residual_rad_per_s, residual_rad_per_s or 0.0)
        self._tolerated = dataclasses.replace(config, residual_rad_per_s=largest)

    @property
    def tolerated_residual(self) -> float:
        """The residual that is tolerated now [rad/s or m/s]."""
        return self._tolerated.residual_rad_per_s

    @property
    def ready(self) -> bool:
        """Whether a joint state was measured, so that commands are possible."""
        return self._command is not None

    @property
    def measured(self) -> Measurement | None:
        """The newest measurement that was used."""
        return self._monitor.last

    @property
    def resting(self) -> bool:
        """Whether the last command moves nothing."""
        return self._command is None or jerk_limiter.is_at_rest(self._robot, self._command)

    @property
    def still(self) -> bool:
        """Whether the robot is at rest, by commands and by measurements; valid once ready."""
        stopped = self.machine.phase not in (Phase.MOVING, Phase.STOPPING)
        return stopped and self._measured_at - self._moved_at >= _STILL_S

    @property
    def reason(self) -> str:
        """Why no plan is followed, for the operator; '' while one is."""
        machine = self.machine
        if self._command is None:
            return 'no joint state received yet'
        if machine.fault is not None:
            held = machine.phase is Phase.HELD
            return f'held: {machine.fault.text}' if held else f'stopping: {machine.fault.text}'
        if not machine.armed:
            return 'not armed'
        if machine.paused:
            return 'paused'
        if machine.swapping:
            return 'at rest for a task switch'
        if machine.phase is Phase.MOVING:
            return ''
        if self._settles or self._stepped_at < self._settled_at:
            return 'settling at the measured position'
        return 'waiting for a plan' if self._late.start is None else 'the plan is late'

    def measure(self, measurement: Measurement) -> None:
        """Take a measurement of the commanded joints; commands start from the first one."""
        config, robot = self._tolerated, self._robot
        self._monitor = monitors.measure(config, robot, self._monitor, measurement)
        if not self._monitor.used or self._monitor.last is None:
            return
        measurement = self._monitor.last
        velocity, self._measured_at = measurement.velocity, measurement.time
        self.position, moves = measurement.position, np.max(np.abs(velocity)) > _MOVING
        self._moved_at = measurement.time if moves else self._moved_at
        if self._command is None:
            command = jerk_limiter.at_rest(robot, self.position)
            if robot.command == 'velocity' and moves:  # brake from there
                limit = np.array(robot.limits.velocity)  # a measured value may be anything
                command = command._replace(value=np.clip(velocity, -limit, limit))
            self._command = command
        if fault := self._monitor.fault:
            self.trip(fault)

    def receive(self, plan: Plan) -> None:
        """Take a checked plan that starts on this clock; ignore it unless plans are followed."""
        if not self.machine.engaged:
            return
        rows = self._robot.continuous
        if len(rows) and self._robot.command == 'position' and len(plan.values):
            # the planner may count turns from another start
            start = continuous_joints.nearest(plan.values[0], self.position, rows)
            plan = plan._replace(values=plan.values + (start - plan.values[0]))
        self._plans = self._plans.add(plan)

    def enable(self, now: float, enabled: bool) -> None:
        """Take the state of the operator's enabling switch."""
        self._enabled_at = now if enabled else -np.inf

    def arm(self, now: float) -> None:
        """Follow plans from now on; ArmError says what prevents it."""
        self._last_command()
        armed = state_machine.arm(self.machine)
        if fault := self._monitor.fault or self._input_fault(now):
            raise ArmError(fault.text)
        self._change(armed)

    def disarm(self) -> None:
        """Brake to rest, stay there, and acknowledge a fault."""
        self._change(state_machine.disarm(self.machine))

    def pause(self, paused: bool) -> None:
        """Brake to rest and stay armed, or continue; ArmError before the first measurement."""
        self._last_command()
        self._change(self.machine._replace(paused=paused))

    def swap(self, now: float, swapping: bool) -> None:
        """Rest for a task switch, or continue; ArmError before the first measurement."""
        self._last_command()
        if swapping != self.machine.swapping:
            self._swap_at = now
        self._change(self.machine._replace(swapping=swapping))

    def trip(self, fault: Fault) -> None:
        """Brake to rest and hold because of a fault."""
        self._change(state_machine.trip(self.machine, fault))

    def is_behind(self, now: float) -> bool:
        """Return whether the last command is so old that cycles were missed."""
        return np.isfinite(self._stepped_at) and now - self._stepped_at > self._longest

    def resume(self, now: float, command: Command) -> None:
        """Continue from the robot's own motion at a time instead of from the last command."""
        self._command, self._stepped_at = command, now

    def step(self, now: float) -> tuple[Command, float]:
        """Return the next command, and the time since the last one [s]."""
        elapsed = now - self._stepped_at
        if not np.isfinite(elapsed):
            elapsed = 1.0 / self._config.rate_hz
        self._stepped_at = now
        if fault := self._input_fault(now):
            self.trip(fault)
        self._check_swap(now)
        if self._settles:
            self._settled_at, self._settles = now + self._settle, False
        if now < self._settled_at:
            self._drop_plans()
        dt = min(elapsed, self._longest)  # a missed cycle does not allow a larger step
        self._plans = self._plans.advance(now)
        self._check_plan(now, dt + self._delay)
        robot, last = self._robot, self._last_command()
        plan, target = self._plans.current, None  # no plan after a fault
        if plan is not None and plan.start != self._late.start:
            target = plan.at(now)
            if robot.command == 'velocity' and self._is_late(plan, now + dt, dt + self._delay):
                # no faster than the last command, or the arm would take 9 ms longer to brake
                low, high = np.minimum(last.value, 0.0), np.maximum(last.value, 0.0)
                target = np.clip(target, low, high)
        command = jerk_limiter.shape(robot, last, target, self.position, dt)
        self._command = command
        self.machine = state_machine.advance(self.machine, target is not None, self.resting)
        return command, elapsed

    def follow(self, now: float, applied: Array) -> None:
        """Take the command that is in force from now on (joints,), to monitor the robot by it."""
        velocity = applied if self._robot.command == 'velocity' else self._last_command().rate
        self._monitor = monitors.command(
            self._tolerated, self._robot, self._monitor, now, velocity
        )

    def _last_command(self) -> Command:
        """Return the last command; ArmError before the first measurement."""
        if self._command is None:
            raise ArmError(self.reason)
        return self._command

    def _change(self, changed: Machine) -> None:
        """Enter another state; plans from before an interruption are dropped."""
        engages = changed.engaged and not self.machine.engaged
        if changed.engaged != self.machine.engaged:
            self._drop_plans()
        self.machine = changed
        if engages and self.resting:
            # the robot may have been moved since the last position was commanded
            self._command = jerk_limiter.at_rest(self._robot, self.position)
            self._settles = True

    def _drop_plans(self) -> None:
        self._plans, self._late = PlanQueue(), self._late._replace(start=None)

    def _input_fault(self, now: float) -> Fault | None:
        """Return a fault if joint states are too old, or a required switch is not held."""
        age, timeout = now - self._measured_at, self._config.enable_timeout_s
        if age > self._config.state_timeout_s:
            return Fault(faults.STATE_LATE, f'joint states are {age:.3f} s old')
        if timeout and now - self._enabled_at > timeout:
            text = 'the enabling switch (topic emppi/enable) is not held'
            return Fault(faults.ENABLE_LOST, text)
        return None

    def _check_swap(self, now: float) -> None:
        """End a task switch that takes too long; an armed arm is held for an operator."""
        if self.machine.swapping and now - self._swap_at > self._config.swap_timeout_s:
            text = 'the planner requested rest for a task switch, and did not end it in time'
            self.trip(Fault(faults.SWAP_LOST, text))
            self._change(self.machine._replace(swapping=False))

    def _is_late(self, plan: Plan, now: float, delay_s: float) -> bool:
        """Return whether the robot must brake at `now` in order to be at rest in time."""
        config, upcoming = self._config, self._plans.upcoming
        next_start = upcoming[0].start if upcoming else np.inf
        age = now - plan.start
        if age <= _NOT_LATE_S or next_start <= plan.start + _NEXT_START_S:
            return False
        braking_time = jerk_limiter.braking_time(self._robot, self._last_command())
        return age > min(config.plan_timeout_s, config.rest_within_s - braking_time) - delay_s

    def _check_plan(self, now: float, delay_s: float) -> None:
        """Mark a late plan, and raise a fault if it is too late or plans are late too often."""
        plan, late, config = self._plans.current, self._late, self._config
        if plan is None:  # unless plans are followed
            return
        age = now - plan.start
        if age > config.plan_lost_s:
            self.trip(Fault(faults.PLAN_LATE, f'the plan is {age:.3f} s old'))
        elif plan.start == late.start:
            return  # already braking for this plan
        elif self._is_late(plan, now, delay_s):
            self._late = late._replace(start=plan.start)
        elif late.start is not None:
            resumed = (*(t for t in late.resumed if t > now - _LATE_PLANS_WINDOW_S), now)
            if len(resumed) > config.late_plans:
                text = (
                    f'plans were late {len(resumed)} times in a minute: is the planner overloaded?'
                )
                self.trip(Fault(faults.PLANNER_SLOW, text))
            else:
                self._late = LatePlans(None, resumed)
