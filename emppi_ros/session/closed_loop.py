"""
The closed loop in one process: simulated robot, bridge, planner and belief, on simulated time.

A plan takes effect one planning period after its state was measured, as with the ROS nodes. The
same seed gives the same bits.
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
from emppi_ros.core import weights
from emppi_ros.core.errors import AllDivergedError, ConfigError, StaleInputError, unknown
from emppi_ros.model.parameters import nominal_values
from emppi_ros.session.particle_filter import ParticleFilter
from emppi_ros.session.planner import Planner
from emppi_ros.session.trace import Frame, SuccessMonitor, Trace
from emppi_ros.sim.simulated_robot import PoseReading, SimulatedRobot, draw_truth
from emppi_ros.state.estimator import Estimator, Observation
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
CONTROLLERS = ('emppi', 'mppi-true', 'mppi-nominal', 'mppi-mean', 'mppi-wrong', 'no-update')
_NEVER_S, _UNLIMITED = 1e9, 10**9
_FRAME_RATE_HZ = 50.0  # of success checks and recorded frames


class ClosedLoop:
    """
    A simulated task under control; `run` steps it until success or until time is up.

    Attributes
    ----------
    task : Task
        The task.
    robot : SimulatedRobot
        The simulation: `robot.model`, `robot.data`, `robot.time` [s].
    filter : ParticleFilter
        The filter; `filter.belief` is the current belief.
    planner : Planner
        The planner.
    estimator : Estimator
        The state estimator.
    trace : Trace
        The record of the run so far.

    """

    def __init__(
        self,
        task: Task,
        seed: int,
        controller: str = 'emppi',
        truth: Mapping[str, float] | None = None,
    ) -> None:
        """
        Draw the true parameters with the seed, except those given by name in `truth`.

        Parameters
        ----------
        task : Task
            The task to run.
        seed : int
            Source of all randomness.
        controller : str
            'emppi'; 'no-update' keeps the prior; 'mppi-mean', 'mppi-true', 'mppi-nominal' and
            'mppi-wrong' plan with a single model.
        truth : mapping, optional
            True values by parameter name, in the units of the task.

        Raises
        ------
        ConfigError
            If the controller is unknown.
        ParameterError
            If a name in `truth` is not a parameter of the task.

        """
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
        self._config = BridgeConfig(plan_lost_s=_NEVER_S, late_plans=_UNLIMITED)  # without faults
        self._applied = TimeSeries('applied commands', reach_s=np.inf)
        self._success = SuccessMonitor(task, self.trace, np.random.default_rng([seed, 4]))
        self._dt, self._steps = task.simulation.timestep_s, 0
        self._start_at_rest(state_machine.arm(Machine()))
        self._set_next_target()

    @property
    def plan(self) -> Plan | None:
        """The plan that the bridge executes."""
        return self._bridge.plans.current

    def run(
        self,
        duration_s: float | None = None,
        stop_at_success: bool = True,
        progress: Callable[[float], None] | None = None,
    ) -> Trace:
        """
        Run until success, or for `duration_s` of simulated time.

        Parameters
        ----------
        duration_s : float, optional
            Time limit [s]; the task's `duration_s` if not given.
        stop_at_success : bool
            Whether to stop at success; tasks with a sequence of targets never do.
        progress : callable, optional
            Called with the simulated time [s] at 50 Hz.

        Returns
        -------
        Trace
            The record of the run. A second call continues the run, and extends the same trace.

        """
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
        """Advance by one physics step; return whether success was checked after it."""
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
            self._step_bridge(now, bridge * self._dt)
        self.robot.step()
        self._steps += 1
        checked = self._steps % self._every(_FRAME_RATE_HZ) == 0
        if checked:
            self._check_success()
        return checked

    def _every(self, rate_hz: float) -> int:
        """Return the number of physics steps in a period of a rate."""
        return max(1, round(1.0 / rate_hz / self._dt))

    def _check_success(self) -> None:
        """Record a frame and check success; set the next target after an attempt."""
        error = self.task.error(self.robot.model, self.robot.data)
        qpos, qvel = self.robot.data.qpos.copy(), self.robot.data.qvel.copy()
        self.trace.frames.append(Frame(self.robot.time, qpos, qvel, error))
        lost = self.task.is_lost(self.robot.data)
        if not self._success.update(error, lost, self.robot.time):
            return
        self._set_next_target()
        if lost:
            self.robot.reset_state()
            self.estimator.clear()
            self.filter.restart()
            self._start_at_rest(self._bridge.machine)

    def _set_next_target(self) -> None:
        """Set the next target in the simulation and in the planner's models."""
        if self.task.target is not None:
            quaternion = self._success.sample_target()
            self.robot.set_mocap_quat(self.task.target, quaternion)
            self.planner.ensemble.set_mocap_quat(self.task.target, quaternion)

    def _start_at_rest(self, state: Machine) -> None:
        """Command the robot's current position at rest, and discard the plan."""
        self.planner.reset_plan()
        self.planned: Plan | None = None  # the newest, executed or not
        start = jerk_limiter.at_rest(self.task.robot, self._measure())
        self._bridge = Bridge(start, state)
        self._applied.append(self.robot.time - 1e-6, self._bridge.command.value)
        self.robot.command(self._bridge.command.value)

    def _plan(self, start: float) -> None:
        """Plan from the newest state; the plan begins at `start` [s]."""
        stamp = self.estimator.stamp
        try:
            state = self.estimator.state(stamp)
        except StaleInputError:
            return  # no measurements yet: the robot stays at rest
        started = time.perf_counter()
        try:
            tracks = self.estimator.tracks(stamp)
            plan, info = self.planner.plan_from(state, stamp, start, self._commands, tracks)
        except AllDivergedError:
            self.trace.diverged += self.planner.ensemble.models * self.planner.ensemble.rollouts
            self.planner.reset_plan()
            return  # without a new plan the bridge brakes
        self.trace.plan_s.append(time.perf_counter() - started)
        self._update_stage()
        self.trace.diverged += info.diverged
        self.planned, self._bridge = plan, watchdog.receive(self._bridge, plan)

    def _update_stage(self) -> None:
        """Activate the grasp of the planner's stage in the simulation and in the filter."""
        if self.planner.stage is not self._stage:
            self._stage = self.planner.stage
            self.robot.activate(self._stage.grasp)
            self.filter.activate(self._stage.grasp)
            self.trace.stages.append((self.robot.time, self._stage.name))

    def _commands(self, times: Array) -> Array:
        """Return the commands at `times`: the applied ones, then those of the current plan."""
        rows = self._applied.hold(times)
        plan = self._bridge.plans.current
        if plan is not None:
            for i in np.flatnonzero(times > self._applied.last_stamp):
                rows[i] = plan.at(times[i])
        return rows

    def _step_bridge(self, now: float, dt: float) -> None:
        """Apply the bridge's next command."""
        position = self._measure()
        self._bridge = watchdog.step(
            self._config, self.task.robot, self._bridge, now, position, dt, delay_s=0.0
        )
        command = self._bridge.command.value
        self.robot.command(command)
        self._applied.append(now, command)
        self.trace.commands.append((now, command))

    def _observe(self, reading: PoseReading) -> None:
        """Add a tracked pose and update the belief with it."""
        pose = self.estimator.add_pose(reading.name, reading.stamp, reading.pose)
        if pose is None or not self._learns:
            return
        self._update_belief(
            reading.stamp, self.estimator.observation(reading.stamp, reading.name, pose)
        )

    def _observe_joints(self, stamp: float) -> None:
        """Update the belief with joint states alone, for tasks without tracked objects."""
        if not self._learns or stamp - self._learned_at < self.task.belief.interval_s - 1e-9:
            return
        self._update_belief(stamp, self.estimator.observation(stamp))

    def _update_belief(self, stamp: float, observation: Observation) -> None:
        """Update the belief and pass it to the planner."""
        self._learned_at, started = stamp, time.perf_counter()
        update = self.filter.observe(stamp, observation, self._applied.hold)
        self.trace.update_s.append(time.perf_counter() - started)
        if update is not None:
            self.trace.degenerate += update.reinjected
            self.trace.ess.append(update.ess)
            self.trace.beliefs.append((stamp, self.filter.belief))
            self.planner.set_belief(self.filter.belief)

    def _measure(self) -> Array:
        return self.robot.read_joints().position[self.task.commanded_rows]


def single_model(task: Task, controller: str, truth: Array) -> Array | None:
    """Return the parameters (P,) of a controller with one model; None for an ensemble."""
    if controller not in CONTROLLERS:
        raise ConfigError(unknown('controller', controller, CONTROLLERS))
    if controller == 'mppi-true':
        return truth
    if controller == 'mppi-nominal':
        return nominal_values(task.parameters, task.model)
    if controller not in ('mppi-mean', 'mppi-wrong'):
        return None
    values = task.prior.mean()
    if controller == 'mppi-wrong':
        if not task.simulation.wrong:
            raise ConfigError(f'{task.where}: simulation: wrong: no values given')
        for i, parameter in enumerate(task.parameters):
            values[i] = task.simulation.wrong.get(parameter.name, values[i])
    return values


def summarize(loop: ClosedLoop, controller: str, seed: int) -> dict[str, object]:
    """Return the summary of a run: the JSON object that `emppi run --json` prints."""
    trace, task = loop.trace, loop.task
    belief, monitor = loop.filter.belief, loop.filter.monitor
    outside = monitor.out_of_prior(belief)
    mean = weights.mean(belief.log_weights, belief.theta)
    sd = np.sqrt(np.diag(weights.covariance(belief.log_weights, belief.theta)))
    plan_ms = 1e3 * np.array(trace.plan_s) if trace.plan_s else np.array([np.nan])
    return {
        'task': task.name,
        'controller': controller,
        'seed': seed,
        **({'prior': task.prior.describe()} if task.prior.file else {}),
        'success': trace.success,
        'time_s': round(trace.success_time or loop.robot.time, 3),
        'steps': len(trace.plan_s),
        'real_time': task.file.real_time,
        **_attempts(trace),
        'final_error': trace.frames[-1].error,
        'parameters': {
            parameter.name: {
                'mean': float(mean[i]),
                'sd': float(sd[i]),
                'true': float(trace.truth[i]),
                'out_of_prior': parameter.name in outside,
                'unidentifiable': parameter.name in monitor.unidentifiable,
            }
            for i, parameter in enumerate(task.parameters)
        },
        'plan_ms': {
            'p50': float(np.percentile(plan_ms, 50)),
            'p99': float(np.percentile(plan_ms, 99)),
        },
        'diverged': trace.diverged,
    }


def _attempts(trace: Trace) -> dict[str, object]:
    """Return the numbers of attempts, of reached targets and of lost objects, if there are any."""
    if not trace.attempts:
        return {}
    return {
        'attempts': {
            'all': len(trace.attempts),
            'reached': sum(one.reached for one in trace.attempts),
            'lost': sum(one.lost for one in trace.attempts),
        }
    }
