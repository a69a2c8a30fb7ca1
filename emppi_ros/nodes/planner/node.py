"""
The node `planner`: plans at a fixed rate in its own thread.

At time t_k it predicts the state at t_k + period from the latest estimate, and publishes a plan
that starts then. It also publishes the task that all other nodes follow.
"""

from collections import deque
from collections.abc import Mapping
import json
import math
import statistics
import time
import traceback
from typing import Any

from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.core.errors import ConfigError, EmppiError, SwapError
from emppi_ros.journal import journal
from emppi_ros.journal.journal import Journal, describe
from emppi_ros.nodes.common import convert, parameters, qos
from emppi_ros.nodes.common.clock_sync import is_simulated
from emppi_ros.nodes.common.diagnostics import ERROR, OK, WARN, Durations, Report
from emppi_ros.nodes.common.inputs import MeasurementInputs
from emppi_ros.nodes.common.lifecycle import ManagedNode
from emppi_ros.nodes.common.polling import Loop
from emppi_ros.nodes.planner.parameter_tuning import ParameterTuning
from emppi_ros.nodes.planner.task_switch import TaskSwitch
from emppi_ros.nodes.topics.belief_cloud import BeliefSubscriber
from emppi_ros.nodes.topics.candidates import CandidatesPublisher
from emppi_ros.nodes.topics.task import STAGE, TOPIC
from emppi_ros.planning.planner import Planner
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task, parse_task, task_text

_TIMEOUTS = ('input_timeout_s', 'belief_timeout_s')  # may be set while the node is not active
_GRACE_CYCLES = 100  # at startup, without a warning that there is no plan
_SHARE = 0.7  # of the time between plans that planning may take
_JUDGED_PLANS = 20
_MOST_PERIODS = 4


class PlanningStats:
    """
    Counters of the planning cycles, and start times of the last hundred plans.

    `stride` is the number of periods from one plan to the next. It rises on a machine that is too
    slow, so that the median of 20 plans takes at most 70 % of the time.
    """

    def __init__(self, period_s: float) -> None:
        self._period = period_s
        self._judged: deque[float] = deque(maxlen=_JUDGED_PLANS)
        self.stride = 1
        self.cycles = self.misses = 0
        self.times = Durations()
        self.starts: deque[float] = deque(maxlen=100)

    def add(self, start: float, duration: float, late: bool) -> None:
        """Record a plan that starts at `start` and took `duration` to compute [s]."""
        self.starts.append(start)
        self.times.add(duration)
        self.misses += late
        self._judged.append(duration)
        if len(self._judged) == _JUDGED_PLANS:
            periods = statistics.median(self._judged) / (_SHARE * self._period)
            stride = min(max(1, math.ceil(periods)), _MOST_PERIODS)
            if stride != self.stride:
                self.stride = stride
                self._judged.clear()

    def values(self) -> dict[str, object]:
        """Return all statistics by name, for diagnostics."""
        starts = list(self.starts)
        span = starts[-1] - starts[0] if len(starts) > 1 else math.nan
        return {
            'cycles': self.cycles,
            'deadline_misses': self.misses,
            'stride': self.stride,
            'deadline_miss_fraction': self.misses / max(self.cycles, 1),
            'plan_ms_p50': self.times.quantile_ms(0.5),
            'plan_ms_p99': self.times.quantile_ms(0.99),
            'plan_ms_recent': self.times.take_recent_ms(),
            'rate_hz': (len(starts) - 1) / span,
        }


class PlannerNode(ManagedNode):
    """Compute plans from measurements and the belief."""

    # from `setup` on
    task: Task
    _belief: BeliefSubscriber

    def __init__(self, **kwargs: Any) -> None:
        super().__init__('planner', **kwargs)
        self._settings = parameters.declare_all(self, parameters.PlannerParameters, _TIMEOUTS)
        parameters.on_change(self, _TIMEOUTS, self._set_timeouts)
        self._text_publisher = self.create_publisher(String, TOPIC, qos.LATCHED)
        self._switch = TaskSwitch(self, self._settings.robot)
        self._tuning = ParameterTuning(self, self._apply_parameters)
        # for all tasks: a recorder could miss events of a new one
        self._events = self.create_publisher(String, journal.PLANNER, qos.DEFAULT)

    @property
    def failed(self) -> bool:
        """Whether the loop has failed, or autostart failed because of the task."""
        return super().failed or (self.autostart and bool(self.problem))

    @property
    def urgent(self) -> bool:
        """Whether to run at real-time priority: not while another task is prepared."""
        return self.state == 'active' and not self._switch.busy

    def setup(self) -> None:
        """Load the task and publish it."""
        text = task_text(self._settings.task, self._settings.robot)
        task = parse_task(text, self._settings.task)
        data = self._tuning.at_startup(task.data)
        if data != task.data:
            task, text = task.tuned(data), tuning.to_text(data)
        planner = self.create_planner(task, text)
        self._publisher = self.create_publisher(JointTrajectory, 'emppi/plan', qos.DEFAULT)
        self._stage_publisher = self.create_publisher(String, STAGE, qos.LATCHED)
        self._install(planner)
        self.publish_task(text)

    def start(self) -> None:
        """Start planning and accept task switches."""
        self.resume()
        self._switch.open = True

    def stop(self) -> None:
        """Stop after the current cycle."""
        self._switch.cancel()
        super().stop()
        self.session.reset_plan()

    def teardown(self) -> None:
        """Release the task."""
        self._close_topics()
        self.destroy_publisher(self._publisher)
        self.destroy_publisher(self._stage_publisher)
        self._tuning.clear()

    def create_planner(self, task: Task, text: str) -> Planner:
        """Return a planner with a journal, given a task and its YAML text."""
        seed = self._settings.seed
        planner = Planner(task, seed)
        Journal(planner, describe(task, text, seed))
        return planner

    def replace_planner(self, planner: Planner) -> None:
        """Stop planning and install a planner for another task."""
        super().stop()
        self._close_topics()
        self._install(planner)
        self._belief.close()  # the belief node still publishes for the previous task

    def publish_task(self, text: str) -> None:
        """Publish the YAML of the task."""
        self._text_publisher.publish(String(data=text))

    def resume(self) -> None:
        """Start planning, from messages that arrive from now on."""
        self.inputs.clear()
        self._belief.close()
        self._belief = BeliefSubscriber(self, self.task)
        # A late cycle can still meet its deadline if planning takes half a period; skipping it
        # would leave the bridge without a plan whenever one cycle takes slightly too long.
        simulated = is_simulated(self)
        self.loop = Loop('planning', self._period, self._cycle, self.now, True, simulated)

    def tune(self, data: Mapping[str, Any]) -> None:
        """Apply task YAML with other tunable values, from the next cycle on."""
        self._apply(data)
        self._tuning.show(data)

    def _set_timeouts(self, values: Mapping[str, Any]) -> None:
        if self.state == 'active':
            raise ConfigError('the planner is active: deactivate it to change its timeouts')
        self._settings = parameters.changed(self, self._settings, values)

    def _apply_parameters(self, data: Mapping[str, Any]) -> None:
        if self._switch.busy:
            raise SwapError('a task switch is in progress; set the parameter when it is done')
        self._apply(data)

    def _apply(self, data: Mapping[str, Any]) -> None:
        self.task = self.task.tuned(data)
        self._tuned.append(json.dumps(data))
        self.publish_task(tuning.to_text(data))

    def _install(self, planner: Planner) -> None:
        self.session, task = planner, planner.task
        planner.warm_up()
        self.task, self._period = task, 1.0 / task.planner.rate_hz
        self._tuned: deque[str] = deque(maxlen=1)  # JSON, for the next cycle
        self._last_belief: Belief | None = None  # that the session uses
        self._error, self.stats, self._ticks = '', PlanningStats(self._period), 0
        assert planner.journal is not None
        self._journal = planner.journal
        self.inputs = MeasurementInputs(self, task, planner)
        self._belief = BeliefSubscriber(self, task)
        self._candidates = CandidatesPublisher(self, task, planner)
        self._tuning.show(task.data)
        self._publish_stage()

    def _close_topics(self) -> None:
        for topic in (self.inputs, self._belief, self._candidates):
            topic.close()

    def report(self) -> Report:
        """Return the state and statistics of planning."""
        values = {
            **self.stats.values(),
            'diverged_rollouts': self.session.diverged,
            'stage': self.session.stage.name,
            'age_s emppi/belief': self._belief.age,
            **{f'age_s {k}': v for k, v in self.inputs.ages(self.now()).items()},
        }
        problems = filter(None, [self._error, *self.inputs.errors.values(), self._belief.error])
        if text := '; '.join(problems):
            return Report(ERROR if self._error else WARN, text, values)
        return Report(OK, 'planning' if self.state == 'active' else 'not active', values)

    def plan(self, moment: float) -> JointTrajectory:
        """Return the plan for the cycle at time `moment`; EmppiError if there is none."""
        belief = self._belief.current(self._settings.belief_timeout_s)
        self.inputs.poll()
        self.inputs.check_ages(moment, self._settings.input_timeout_s)
        if belief is not self._last_belief:
            self.session.set_belief(belief)
            self._last_belief = belief
        while self._tuned:
            self.session.tune(self._tuned.popleft())
        before = self.session.stage
        self._candidates.request(moment)
        plan = self.session.plan(moment)
        if self.session.stage is not before:
            self._publish_stage()
        return convert.write_plan(self.task.robot, plan)

    def _publish_stage(self) -> None:
        self._stage_publisher.publish(String(data=self.session.stage.name))

    def _cycle(self, moment: float) -> None:
        self._ticks += 1
        if self._ticks % self.stats.stride:
            return  # this machine is too slow to plan in each period
        self._journal.begin_cycle(self._events.get_subscription_count(), moment)
        self._work(moment)
        if text := self._journal.take():  # after the plan, which must not wait
            self._events.publish(String(data=text))

    def _work(self, moment: float) -> None:
        start = moment + self._period
        self.stats.cycles += 1
        started = time.perf_counter()
        try:
            message = self.plan(moment)
        except EmppiError as error:  # the bridge brakes; the next cycle tries again
            self._error = str(error)
            self.session.reset_plan()
            if self.stats.starts or self.stats.cycles > _GRACE_CYCLES:
                self.get_logger().warning(f'no plan: {error}', throttle_duration_sec=2.0)
            return
        except Exception as error:  # e.g. in a cost function of the user
            self._error = f'{type(error).__name__}: {error}'
            self.session.reset_plan()
            self.get_logger().error(
                f'no plan:\n{traceback.format_exc()}', throttle_duration_sec=2.0
            )
            return
        self._error = ''
        self.stats.add(start, time.perf_counter() - started, late=self.now() > start)
        self._publisher.publish(message)  # even if late, it is newer than the previous one
        self._candidates.publish(start)
