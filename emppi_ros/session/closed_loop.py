"""
The closed loop in one process: simulated robot, bridge, planner and belief, on simulated time.

A plan takes effect one planning period after the state it was made from was measured, as it
does over ROS. Everything is derived from one seed: the same seed gives the same bits.
"""

from collections.abc import Callable, Mapping
import time

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import particles
from emppi_ros.bridge import jerk_limiter, state_machine, watchdog
from emppi_ros.bridge.commander import BridgeConfig
from emppi_ros.bridge.state_machine import Machine
from emppi_ros.bridge.watchdog import Bridge
from emppi_ros.control.plan import Plan
from emppi_ros.core.errors import AllDivergedError, StaleInputError
from emppi_ros.session.controllers import single_model
from emppi_ros.session.particle_filter import ParticleFilter
from emppi_ros.session.planner import Planner
from emppi_ros.session.success import SuccessMonitor
from emppi_ros.session.trace import Frame, Trace
from emppi_ros.sim.simulated_robot import PoseReading, SimulatedRobot, draw_truth
from emppi_ros.state.estimator import Estimator, Observation
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_NEVER_S, _ANY = 1e9, 10**9
_FRAMES_HZ = 50.0  # of what is kept of a run


class ClosedLoop:
    """A task under control; `run` goes on until success or the end of time."""

    def __init__(
        self,
        task: Task,
        seed: int,
        controller: str = 'emppi',
        truth: Mapping[str, float] | None = None,
    ) -> None:
        """Draw hidden true parameters from the seed (or take them by name)."""
        self.task, self._learns = task, controller == 'emppi'
        self.trace = Trace(draw_truth(task, seed, truth))
        self.robot = SimulatedRobot(task, self.trace.truth, seed)
        self.filter = ParticleFilter(task, seed)
        theta = single_model(task, controller, self.trace.truth)
        self.planner = Planner(task, seed, None if theta is None else 1)
        self.planner.set_belief(
            self.filter.belief if theta is None else particles.uniform(theta[None])
        )
        self.estimator = Estimator(task)
        self._stage = self.planner.stage
        self._learned_at = -np.inf
        self._config = BridgeConfig(plan_lost_s=_NEVER_S, late_plans=_ANY)  # nobody arms again
        self._applied = TimeSeries('applied commands', reach_s=np.inf)
        self._judged = SuccessMonitor(task, self.trace, np.random.default_rng([seed, 4]))
        self._dt, self._steps = task.simulation.timestep_s, 0
        self._begin(state_machine.arm(Machine()))
        self._aim()

    @property
    def plan(self) -> Plan | None:
        """The plan under way."""
        return self._bridge.plans.current

    def run(
        self,
        duration_s: float | None = None,
        stop_at_success: bool = True,
        progress: Callable[[float], None] | None = None,
    ) -> Trace:
        """Run to success or for the task's time; `progress` gets the simulated time."""
        steps = round((duration_s or self.task.file.duration_s) / self._dt)
        for _ in range(steps):
            if not self.step():
                continue
            if progress is not None:
                progress(self.robot.time)
            if self.trace.success and stop_at_success and not self.task.file.targets:
                break
        return self.trace

    def step(self) -> bool:
        """Go on by one step of the physics; return whether the task was judged after it."""
        now, rate_hz = self.robot.time, self.task.planner.rate_hz
        if self._steps % self._every(self.task.simulation.joint_state_rate_hz) == 0:
            reading = self.robot.read_joints()
            self.trace.readings.append(reading)
            self.estimator.add_joints(reading.stamp, reading.position, reading.velocity)
            if not self.task.tracked:
                self._observe_joints(reading.stamp)
        for pose in self.robot.read_poses():
            self.trace.poses.append(pose)
            self._observe(pose)
        if self._steps % self._every(rate_hz) == 0:
            self._plan(now + 1.0 / rate_hz)
        if self._steps % (bridge := self._every(self._config.rate_hz)) == 0:
            self._move(now, bridge * self._dt)
        self.robot.step()
        self._steps += 1
        judged = self._steps % self._every(_FRAMES_HZ) == 0
        if judged:
            self._judge()
        return judged

    def _every(self, rate_hz: float) -> int:
        """Return after how many steps of the physics something of a rate is due again."""
        return max(1, round(1.0 / rate_hz / self._dt))

    def _judge(self) -> None:
        """Look whether the task is done; if another target is due, let all know of it."""
        error = self.task.error(self.robot.model, self.robot.data)
        qpos, qvel = self.robot.data.qpos.copy(), self.robot.data.qvel.copy()
        self.trace.frames.append(Frame(self.robot.time, qpos, qvel, error))
        lost = self.task.is_lost(self.robot.data)
        if not self._judged.judge(error, lost, self.robot.time):
            return
        self._aim()
        if lost:
            self.robot.put_back()
            self.estimator.clear()
            self.filter.restart()
            self._begin(self._bridge.machine)

    def _aim(self) -> None:
        """Show the next target to the robot's world and to the planner's."""
        if self.task.target is not None:
            quaternion = self._judged.next_target()
            self.robot.aim(self.task.target, quaternion)
            self.planner.ensemble.set_mocap_quat(self.task.target, quaternion)

    def _begin(self, state: Machine) -> None:
        """Stand still where the robot is, and plan from there."""
        self.planner.reset_plan()
        self.planned: Plan | None = None  # last, followed or not
        start = jerk_limiter.at_rest(self.task.robot, self._measure())
        self._bridge = Bridge(start, state)
        self._applied.append(self.robot.time - 1e-6, self._bridge.command.value)
        self.robot.command(self._bridge.command.value)

    def _plan(self, start: float) -> None:
        """Plan from the newest state, for one period later."""
        stamp = self.estimator.stamp
        try:
            state = self.estimator.state(stamp)
        except StaleInputError:
            return  # nothing measured yet: the robot stays at rest
        began = time.perf_counter()
        try:
            seen = self.estimator.tracks(stamp)
            plan, info = self.planner.plan_from(state, stamp, start, self._commands, seen)
        except AllDivergedError:
            self.trace.diverged += self.planner.ensemble.models * self.planner.ensemble.rollouts
            self.planner.reset_plan()
            return  # without a new plan the bridge brakes
        self.trace.plan_s.append(time.perf_counter() - began)
        self._grasp()
        self.trace.diverged += info.diverged
        self.planned, self._bridge = plan, watchdog.receive(self._bridge, plan)

    def _grasp(self) -> None:
        """Let the robot, and those who predict it, grasp as the planner's stage does."""
        if self.planner.stage is not self._stage:
            self._stage = self.planner.stage
            self.robot.hold(self._stage.grasp)
            self.filter.hold(self._stage.grasp)
            self.trace.stages.append((self.robot.time, self._stage.name))

    def _commands(self, times: Array) -> Array:
        """Return what is in force at `times`: applied commands, then the plan under way."""
        rows = self._applied.hold(times)
        plan = self._bridge.plans.current
        if plan is not None:
            for i in np.flatnonzero(times > self._applied.last_stamp):
                rows[i] = plan.at(times[i])
        return rows

    def _move(self, now: float, dt: float) -> None:
        """Let the bridge give its next command."""
        position = self._measure()
        self._bridge = watchdog.step(
            self._config, self.task.robot, self._bridge, now, position, dt, delay_s=0.0
        )
        command = self._bridge.command.value
        self.robot.command(command)
        self._applied.append(now, command)
        self.trace.commands.append((now, command))

    def _observe(self, reading: PoseReading) -> None:
        """Take a tracked pose, and learn from it."""
        pose = self.estimator.add_pose(reading.name, reading.stamp, reading.pose)
        if pose is None or not self._learns:
            return
        self._learn(reading.stamp, self.estimator.observation(reading.stamp, reading.name, pose))

    def _observe_joints(self, stamp: float) -> None:
        """Learn from joints alone, where the task tracks nothing else."""
        if not self._learns or stamp - self._learned_at < self.task.belief.interval_s - 1e-9:
            return
        self._learn(stamp, self.estimator.observation(stamp))

    def _learn(self, stamp: float, moment: Observation) -> None:
        """Update the belief, and let the planner plan with it."""
        self._learned_at, began = stamp, time.perf_counter()
        update = self.filter.observe(stamp, moment, self._applied.hold)
        self.trace.learn_s.append(time.perf_counter() - began)
        if update is not None:
            self.trace.degenerate += update.reinjected
            self.trace.ess.append(update.ess)
            self.trace.beliefs.append((stamp, self.filter.belief))
            self.planner.set_belief(self.filter.belief)

    def _measure(self) -> Array:
        return self.robot.read_joints().position[self.task.commanded_rows]
