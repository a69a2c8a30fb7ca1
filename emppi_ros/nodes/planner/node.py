"""
The node `planner`: plans at a fixed rate, in a thread of its own.

At time t_k it takes the newest estimate, plans from where that will have led by t_k + period,
and publishes the plan that starts then. It also publishes the task that all nodes follow.
"""

from collections import deque
from collections.abc import Mapping
import json
import sys
import time
import traceback
from typing import Any

from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.belief.particles import Belief
from emppi_ros.core.errors import EmppiError, SwapError
from emppi_ros.nodes.common import convert, parameters, process, qos
from emppi_ros.nodes.common.diagnostics import ERROR, OK, WARN, Report
from emppi_ros.nodes.common.inputs import Inputs
from emppi_ros.nodes.common.lifecycle import ManagedNode
from emppi_ros.nodes.common.polling import Loop
from emppi_ros.nodes.planner.parameter_tuning import ParameterTuning
from emppi_ros.nodes.planner.planning_stats import PlanningStats
from emppi_ros.nodes.switching.task_switch import TaskSwitch
from emppi_ros.nodes.topics.belief import BeliefTopic
from emppi_ros.nodes.topics.candidates import CandidatesTopic
from emppi_ros.nodes.topics.journal import JournalTopic
from emppi_ros.nodes.topics.task import STAGE, TOPIC
from emppi_ros.session import journal, metadata
from emppi_ros.session.journal import Journal
from emppi_ros.session.planner import Planner
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task, parse_task, task_text

_PATIENCE = 100  # cycles before the first plan that are nobody's fault


class PlannerNode(ManagedNode):
    """Measurements and belief in, plans out."""

    def __init__(self, **kwargs: object) -> None:
        """Declare parameters."""
        super().__init__('planner', **kwargs)
        self._settings = parameters.declare_all(self, parameters.PlannerParameters)
        self._text_publisher = self.create_publisher(String, TOPIC, qos.LATCHED)
        self._swapping = TaskSwitch(self, self, self._settings.robot)
        self._tuning = ParameterTuning(self, self._set)
        self._journaling = JournalTopic(self, journal.PLANNER)

    @property
    def failed(self) -> bool:
        """Whether the node was to start by itself and cannot: its task is at fault."""
        return super().failed or (self.autostart and bool(self.problem))

    @property
    def urgent(self) -> bool:
        """Whether it works in a cycle's time; otherwise it would lock its user out."""
        return self.state == 'active' and not (self._swapping.busy or self.figures.overloaded)

    def setup(self) -> None:
        """Load the task and tell everyone."""
        text = task_text(self._settings.task, self._settings.robot)
        fresh = self.make(parse_task(text, self._settings.task), text)
        self._publisher = self.create_publisher(JointTrajectory, 'emppi/plan', qos.DEFAULT)
        self._stage_publisher = self.create_publisher(String, STAGE, qos.LATCHED)
        self._adopt(fresh)
        self.tell(text)

    def start(self) -> None:
        """Plan from now on, and go over to other tasks on request."""
        self.go_on()
        self._swapping.open = True

    def stop(self) -> None:
        """Let the cycle under way end, and start no other."""
        self._swapping.cancel()
        super().stop()
        self.session.reset_plan()

    def teardown(self) -> None:
        """Forget the task."""
        self._drop()
        self.destroy_publisher(self._publisher)
        self.destroy_publisher(self._stage_publisher)
        self._tuning.forget()

    def make(self, task: Task, text: str) -> Planner:
        """Return a planner for a task, with a journal."""
        seed = self._settings.seed
        planner = Planner(task, seed)
        Journal(planner, metadata.describe(task, text, seed))
        return planner

    def go_over(self, fresh: Planner) -> None:
        """Plan no more; be ready for another task."""
        super().stop()
        self._drop()
        self._adopt(fresh)
        self._belief.close()  # what comes now is of the task before

    def tell(self, text: str) -> None:
        """Publish the task's YAML."""
        self._text_publisher.publish(String(data=text))

    def go_on(self) -> None:
        """Plan from now on, from what comes now."""
        self.inputs.clear()
        self._belief.close()
        self._belief = BeliefTopic(self, self.task)
        # a cycle that begins late ends in time all the same, if planning takes half a period:
        # to skip it leaves the bridge without a plan when one cycle took a little too long
        self.loop = Loop('planning', self._period, self._cycle, self.now, late=True)

    def tune(self, data: Mapping[str, Any]) -> None:
        """Go on with the task's YAML with other numbers, from the next cycle on."""
        self._go_on_with(data)
        self._tuning.show(data)

    def _set(self, data: Mapping[str, Any]) -> None:
        if self._swapping.busy:
            raise SwapError('another task was asked for, and is under way: set it afterwards')
        self._go_on_with(data)

    def _go_on_with(self, data: Mapping[str, Any]) -> None:
        self.task = self.task.tuned(data)
        self._numbers.append(json.dumps(data))
        self.tell(tuning.to_text(data))

    def _adopt(self, fresh: Planner) -> None:
        self.session, task = fresh, fresh.task
        fresh.warm_up()
        self.task, self._period = task, 1.0 / task.planner.rate_hz
        self._numbers: deque[str] = deque(maxlen=1)  # for the next cycle; the last ones count
        self._believed: Belief | None = None  # what the session was told last
        self._error, self.figures = '', PlanningStats(self._period)
        self._journaling.follow(fresh.journal)
        self.inputs = Inputs(self, task, fresh)
        self._belief = BeliefTopic(self, task)
        self._candidates = CandidatesTopic(self, task, fresh)
        self._tuning.show(task.data)
        self._tell_stage()

    def _drop(self) -> None:
        for topic in (self.inputs, self._belief, self._candidates):
            topic.close()

    def report(self) -> Report:
        """Return how planning goes."""
        values = {
            **self.figures.values(),
            'diverged_rollouts': self.session.diverged,
            'stage': self.session.stage.name,
            'age_s emppi/belief': self._belief.age,
            **{f'age_s {k}': v for k, v in self.inputs.ages(self.now()).items()},
        }
        problems = filter(None, [self._error, *self.inputs.errors.values(), self._belief.error])
        if words := '; '.join(problems):
            return Report(ERROR if self._error else WARN, words, values)
        return Report(OK, 'planning' if self.state == 'active' else 'not active', values)

    def plan(self, moment: float) -> JointTrajectory:
        """Return the plan of the cycle that begins at `moment`, or raise an EmppiError."""
        belief = self._belief.current(self._settings.belief_timeout_s)
        self.inputs.poll()
        self.inputs.check_ages(moment, self._settings.input_timeout_s)
        if belief is not self._believed:
            self.session.set_belief(belief)
            self._believed = belief
        while self._numbers:
            self.session.tune(self._numbers.popleft())
        before = self.session.stage
        self._candidates.watch(moment)
        plan = self.session.plan(moment)
        if self.session.stage is not before:
            self._tell_stage()
        return convert.write_plan(self.task.robot, plan)

    def _tell_stage(self) -> None:
        self._stage_publisher.publish(String(data=self.session.stage.name))

    def _cycle(self, moment: float) -> None:
        self._journaling.begin(moment)
        self._work(moment)
        self._journaling.send()  # after the plan, which nobody is to wait for

    def _work(self, moment: float) -> None:
        start = moment + self._period
        self.figures.cycles += 1
        began = time.perf_counter()
        try:
            message = self.plan(moment)
        except EmppiError as error:  # no plan: the bridge brakes; the next cycle tries again
            self._error = str(error)
            self.session.reset_plan()
            if self.figures.starts or self.figures.cycles > _PATIENCE:  # at first all wait
                self.get_logger().warning(f'no plan: {error}', throttle_duration_sec=2.0)
            return
        except Exception as error:  # of a cost, a residual, the physics: all the same to the robot
            self._error = f'{type(error).__name__}: {error}'
            self.session.reset_plan()
            self.get_logger().error(
                f'no plan:\n{traceback.format_exc()}', throttle_duration_sec=2.0
            )
            return
        self._error = ''
        self.figures.add(start, time.perf_counter() - began, late=self.now() > start)
        self._publisher.publish(message)  # late or not, it is better than the one before
        self._candidates.show(start)


def main() -> None:
    """Run the node: before all others, but not before those that move the robot."""
    sys.exit(process.run(PlannerNode, nice=5, real_time=1))


if __name__ == '__main__':
    main()
