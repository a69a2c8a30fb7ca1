"""
The closed loop in one process: what the nodes run, on a simulated robot and in simulated time.

Planner, belief and bridge are the objects that the ROS nodes wrap, and get the same measurements,
commands and plans as over ROS, without delay. A plan takes effect one planning period after its
state was measured. The same seed gives the same bits.
"""

from collections.abc import Callable, Mapping
import dataclasses
import json
import time

import numpy as np

from emppi_ros.app.trace import Frame, SuccessMonitor, Trace
from emppi_ros.belief import belief_monitor
from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.bridge.commander import BridgeConfig, Commander
from emppi_ros.bridge.faults import Fault
from emppi_ros.bridge.monitors import NEVER, Measurement, MonitorConfig
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import AllDivergedError, ConfigError, StaleInputError, unknown
from emppi_ros.model.parameters import nominal_values
from emppi_ros.planning.planner import Planner
from emppi_ros.priors import particles
from emppi_ros.robots.plan import Plan
from emppi_ros.sim.simulated_robot import JointReading, SimulatedRobot
from emppi_ros.sim.true_parameters import GivenTruth, draw_truth
from emppi_ros.tasks.task import Task
from emppi_ros.tasks.tuning import Value, tune
from emppi_ros.tracking.camera import Camera

CONTROLLERS = ('emppi', 'mppi-true', 'mppi-nominal', 'mppi-mean', 'mppi-wrong', 'no-update')
_FRAME_RATE_HZ = 50.0  # of success checks and recorded frames


class ClosedLoop:
    """A simulated task under control; `run` steps it until success or until time is up."""

    task: Task  #: the task
    robot: SimulatedRobot  #: the simulation: `robot.model`, `robot.data`, `robot.time` [s]
    belief: BeliefSession  #: the belief and its inputs
    planner: Planner  #: the planner and its inputs
    bridge: Commander  #: the bridge; it is armed from the start
    plan: Plan | None  #: the newest plan; the bridge follows it from its start
    trace: Trace  #: the record of the run so far

    def __init__(
        self,
        task: Task,
        seed: int,
        controller: str = 'emppi',
        truth: GivenTruth | None = None,
        probe_s: float = 0.0,
        view: Camera | None = None,
    ) -> None:
        """
        Draw the true parameters with the seed, except those given by name in `truth`.

        The controller 'no-update' keeps the prior; 'mppi-mean', 'mppi-true', 'mppi-nominal' and
        'mppi-wrong' plan with a single model; that of 'mppi-true' follows changes. A true value
        that changes is a sequence of times [s] and values, in the units of the task:
        `{'payload_mass': [(0.0, 0.3), (5.0, 1.2)]}`. Until `probe_s` plans gather information
        before they do the task. With a `view`, objects are tracked in depth images of this camera;
        without, true poses with noise are measured.

        ConfigError if the controller is unknown, or with `probe_s` if it has a single model or
        the task no parameters. ParameterError if a name in `truth` is not a parameter of the task,
        or a value is out of its bounds.
        """
        self.task, self._learns = task, controller == 'emppi'
        self.robot = SimulatedRobot(task, draw_truth(task, seed, truth), seed, view)
        self.trace = Trace([(0.0, self.robot.truth)])
        self.belief = BeliefSession(task, seed)
        self._knows_truth = controller == 'mppi-true'
        theta = single_model(task, controller, self.trace.truth)
        self.planner = Planner(task, seed, None if theta is None else 1)
        self.planner.set_belief(
            self.filter.belief if theta is None else particles.uniform(theta[None])
        )
        if probe_s > 0.0:
            self.planner.probe(probe_s)
        self._stage = self.planner.stage
        # planning takes no simulated time: only a plan that diverged is late; the next may not be
        self._config = BridgeConfig(plan_lost_s=1e9, late_plans=10**9)
        self._success = SuccessMonitor(task, self.trace, np.random.default_rng([seed, 4]))
        self._dt, self._steps = task.simulation.timestep_s, 0
        self.plan = None
        self._fault: Fault | None = None  # in the trace already
        self.bridge = self._new_bridge()
        self.bridge.arm(self.robot.time)
        self._set_next_target()

    @property
    def filter(self) -> ParticleFilter:
        """The particle filter; `filter.belief` is the current belief."""
        return self.belief.filter

    def run(
        self,
        duration_s: float | None = None,
        stop_at_success: bool = True,
        progress: Callable[[float], None] | None = None,
    ) -> Trace:
        """
        Run until success, or for `duration_s` [s] of simulated time; return the record of the run.

        The time limit is by default the task's. Tasks with a sequence of targets do not stop at
        success. `progress` is called with the simulated time [s] at 50 Hz. A second call continues
        the run, and extends the same trace.
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
        if self._is_due(self.task.simulation.joint_state_rate_hz):
            self._measure_joints()
        self._measure_poses()
        if self._is_due(self._config.rate_hz):
            self._command()
        if self._learns:
            self._update_belief()
        if self._is_due(self.task.planner.rate_hz):
            self._plan()
        self._step_physics()
        self._steps += 1
        checked = self._is_due(_FRAME_RATE_HZ)
        if checked:
            self._check_success()
        return checked

    def _is_due(self, rate_hz: float) -> bool:
        """Return whether what happens at a rate happens in this physics step."""
        return self._steps % max(1, round(1.0 / rate_hz / self._dt)) == 0

    def _measure_joints(self) -> None:
        reading = self.robot.read_joints()
        self.trace.readings.append(reading)
        for session in (self.planner, self.belief):
            session.add_joints(reading.stamp, reading.position, reading.velocity)
        self.bridge.measure(self._measurement(reading))

    def _measurement(self, reading: JointReading) -> Measurement:
        """Return the part of a joint state that the bridge uses."""
        state = self.task.commanded_state(reading.position, reading.velocity)
        return Measurement(reading.stamp, reading.stamp, *state)

    def _measure_poses(self) -> None:
        """Give the tracked poses that have arrived to planner and belief."""
        for reading in self.robot.read_poses():
            self.trace.poses.append(reading)
            self.planner.add_pose(reading.name, reading.stamp, *reading.pose)
            if self._learns:
                self.belief.add_pose(reading.name, reading.stamp, *reading.pose)

    def _command(self) -> None:
        now = self.robot.time
        command = self.bridge.step(now)[0].value
        self.bridge.follow(now, command)
        self.robot.command(command)
        for session in (self.planner, self.belief):
            session.add_command(now, command)
        self.trace.commands.append((now, command))
        fault = self.bridge.machine.fault
        if fault is not None and fault is not self._fault:
            self.trace.faults.append((now, fault.text))
        self._fault = fault

    def _update_belief(self) -> None:
        """Update the belief with complete measurements, and give it to the planner."""
        started, before = time.perf_counter(), self.belief.counts['reinjected']
        updates = self.belief.update()
        while self.belief.ready:
            updates += self.belief.update()
        if not updates:
            return
        self.trace.update_s.append(time.perf_counter() - started)
        self.trace.degenerate += self.belief.counts['reinjected'] - before
        self.trace.ess.append(self.belief.ess)
        self.trace.beliefs.extend((update.stamp, update.belief) for update in updates)
        last = self.trace.changes[-1].stamp if self.trace.changes else -np.inf
        self.trace.changes += self.filter.changes.since(last)
        self.planner.set_belief(updates[-1].belief)

    def _plan(self) -> None:
        started = time.perf_counter()
        try:
            self.plan = self.planner.plan(self.robot.time)
        except (StaleInputError, AllDivergedError):  # without a new plan the bridge brakes
            self.planner.reset_plan()
            return
        finally:
            self.trace.diverged = self.planner.diverged
        self.trace.plan_s.append(time.perf_counter() - started)
        self._follow_stage()
        self.bridge.receive(self.plan)

    def _follow_stage(self) -> None:
        """Activate the grasp of the planner's stage in the simulation and in the belief."""
        if self.planner.stage is not self._stage:
            self._stage = self.planner.stage
            self.robot.activate(self._stage.grasp)
            self.belief.set_stage(self._stage.name)
            self.bridge.tolerate(self._stage.settings.residual_rad_per_s)
            self.trace.stages.append((self.robot.time, self._stage.name))

    def _step_physics(self) -> None:
        """Advance the simulation; record a change of the true parameters."""
        now, before = self.robot.time, self.robot.truth
        self.robot.step()
        if self.robot.truth is not before:
            self.trace.truths.append((now, self.robot.truth))
            if self._knows_truth:
                self.planner.set_belief(particles.uniform(self.robot.truth[None]))

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
            self._restart()

    def _set_next_target(self) -> None:
        if self.task.target is not None:
            quaternion = self._success.sample_target()
            self.robot.data.mocap_quat[self.task.target] = quaternion
            self.planner.ensemble.set_mocap_quat(self.task.target, quaternion)

    def _restart(self) -> None:
        """Continue from a reset scene: only belief, stage and the operator's requests stay."""
        self.planner.clear()
        self.planner.reset_plan()
        self.belief.clear()
        self.plan, self._fault, machine = None, None, self.bridge.machine
        self.bridge = self._new_bridge()
        if machine.armed:
            self.bridge.arm(self.robot.time)
        self.bridge.pause(machine.paused)

    def _new_bridge(self) -> Commander:
        """Return a disarmed bridge that has measured the robot."""
        bridge = Commander(
            self._config, self.task.robot, monitor_config=_monitor_config(self.task)
        )
        bridge.tolerate(self._stage.settings.residual_rad_per_s)
        bridge.measure(self._measurement(self.robot.read_joints()))
        return bridge


class SupervisedLoop(ClosedLoop):
    """A closed loop that starts disarmed, like the ROS bridge."""

    def __init__(self, task: Task, seed: int = 0, truth: GivenTruth | None = None) -> None:
        super().__init__(task, seed, truth=truth)
        self.bridge.disarm()

    def arm(self, armed: bool) -> None:
        """Arm to execute plans, or disarm and acknowledge a fault; ArmError if refused."""
        if armed:
            self._forget_unexecuted_plans()
            self.bridge.arm(self.robot.time)
        else:
            self.bridge.disarm()

    def pause(self, paused: bool) -> None:
        """Brake to rest and stay armed, or resume."""
        self._forget_unexecuted_plans()
        self.bridge.pause(paused)

    def tune(self, values: Mapping[str, Value]) -> None:
        """Change tunable parameters from the next cycle on; ConfigError if a value is invalid."""
        self.task = self.task.tuned(tune(self.task.data, values))
        for session in (self.planner, self.belief):
            session.tune(json.dumps(self.task.data))

    def _forget_unexecuted_plans(self) -> None:
        """Start the next plan from rest unless the bridge follows plans."""
        if not self.bridge.machine.engaged:
            self.planner.reset_plan()


def _monitor_config(task: Task) -> MonitorConfig:
    """Return the thresholds of the bridge node, except for what simulated robots exceed."""
    # hands have noisier sensors and faster fingers than any robot; a model alone describes none
    if not task.file.real_time or not task.has_file:
        return MonitorConfig(**{field.name: NEVER for field in dataclasses.fields(MonitorConfig)})
    config = MonitorConfig(beyond_limits_rad=NEVER)  # limits of simulated joints are soft
    if task.follows_in_simulation:
        return config
    return dataclasses.replace(config, residual_rad_per_s=NEVER)


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
        names = [parameter.name for parameter in task.parameters]
        for name, value in task.simulation.wrong.items():
            values[names.index(name)] = value
    return values


def summarize(loop: ClosedLoop, controller: str, seed: int) -> dict[str, object]:
    """Return the summary of a run: the JSON object that `emppi run --json` prints."""
    trace, task = loop.trace, loop.task
    belief, judgement = loop.filter.belief, loop.filter.judgement
    outside, unidentifiable = judgement.out_of_prior, judgement.unidentifiable
    rows = {
        name: row | {'out_of_prior': name in outside, 'unidentifiable': name in unidentifiable}
        for name, row in belief_monitor.parameter_summary(task, belief, trace.truth).items()
    }
    plan_ms = 1e3 * np.array(trace.plan_s or [np.nan])
    attempts = {
        'all': len(trace.attempts),
        'reached': sum(attempt.reached for attempt in trace.attempts),
        'lost': sum(attempt.lost for attempt in trace.attempts),
    }
    return {
        'task': task.name,
        'controller': controller,
        'seed': seed,
        **({'prior': task.prior.describe()} if task.prior.file else {}),
        'success': trace.success,
        'time_s': round(trace.success_time or loop.robot.time, 3),
        'steps': len(trace.plan_s),
        'real_time': task.file.real_time,
        **({'attempts': attempts} if trace.attempts else {}),
        'final_error': trace.frames[-1].error,
        'parameters': rows,
        'misfit': list(loop.filter.monitor.misfit),
        'collapsed': judgement.collapsed,
        'reinjected': trace.degenerate,
        'changes': [
            {'parameter': change.parameter, 'time_s': round(change.stamp, 3)}
            for change in trace.changes
        ],
        'unresolved': belief_monitor.unresolved(task.prior, belief) if trace.beliefs else [],
        **({'ess_min': min(trace.ess)} if trace.ess else {}),
        'plan_ms': {
            'p50': float(np.percentile(plan_ms, 50)),
            'p99': float(np.percentile(plan_ms, 99)),
        },
        'diverged': trace.diverged,
        **({'faults': trace.faults} if trace.faults else {}),
    }
