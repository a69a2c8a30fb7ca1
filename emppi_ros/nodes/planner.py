"""
The node `planner`: plans at a fixed rate, in a thread of its own.

At time t_k it takes the newest estimate, plans from where that will have led by
t_k + period, and publishes the plan that starts then. It also publishes the task that all
nodes follow.
"""

from collections import deque
from collections.abc import Mapping
import functools
import sys
import time
import traceback
from typing import Any

import numpy as np
import numpy.typing as npt
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge.plan import Plan
from emppi_ros.errors import EmppiError, SwapError
from emppi_ros.loop.planner import Planner
from emppi_ros.nodes import convert, process, qos
from emppi_ros.nodes.believing import BeliefTopic
from emppi_ros.nodes.candidates import CandidatesTopic
from emppi_ros.nodes.diagnostics import ERROR, OK, WARN, Report
from emppi_ros.nodes.figures import Figures
from emppi_ros.nodes.following import STAGE, TOPIC
from emppi_ros.nodes.inputs import Inputs
from emppi_ros.nodes.managed import ManagedNode
from emppi_ros.nodes.parameters import Planning, declare_all
from emppi_ros.nodes.polling import Loop
from emppi_ros.nodes.swapping import Swapping
from emppi_ros.nodes.tuning import Tuning
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import Task, parse_task, task_text

Array = npt.NDArray[np.float64]
_PATIENCE = 100  # cycles before the first plan that are nobody's fault


class PlannerNode(ManagedNode):
    """Measurements and belief in, plans out."""

    def __init__(self, **kwargs: object) -> None:
        """Declare parameters."""
        super().__init__('planner', **kwargs)
        self._settings = declare_all(self, Planning)
        self._text_publisher = self.create_publisher(String, TOPIC, qos.LATCHED)
        self._swapping = Swapping(self, self, self._settings.robot, self._settings.seed)
        self._tuning = Tuning(self, self._set)

    @property
    def believes(self) -> bool:
        """Whether a belief has been received."""
        return self._belief.latest is not None

    @property
    def failed(self) -> bool:
        """Whether the node was to start by itself and cannot: its task is at fault."""
        return super().failed or (self.autostart and bool(self.problem))

    def setup(self) -> None:
        """Load the task and tell everyone."""
        text = task_text(self._settings.task, self._settings.robot)
        task = parse_task(text, self._settings.task)
        self._publisher = self.create_publisher(JointTrajectory, 'emppi/plan', qos.DEFAULT)
        self._stage_publisher = self.create_publisher(String, STAGE, qos.LATCHED)
        self._adopt(task, Planner(task, np.random.default_rng([self._settings.seed, 3])))
        self.tell(text)

    def start(self) -> None:
        """Plan from now on, and go over to other tasks on request."""
        self.go_on()
        self._swapping.open = True

    def stop(self) -> None:
        """Let the cycle under way end, and start no other."""
        self._swapping.cancel()
        super().stop()
        self._planner.forget()

    def teardown(self) -> None:
        """Forget the task."""
        self._drop()
        self.destroy_publisher(self._publisher)
        self.destroy_publisher(self._stage_publisher)
        self._tuning.forget()

    def go_over(self, task: Task, planner: Planner) -> None:
        """Plan no more; be ready for another task."""
        super().stop()
        self._drop()
        self._adopt(task, planner)
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
        self.tell(tuning.to_text(data))

    def _adopt(self, task: Task, planner: Planner) -> None:
        self.task, self._planner = task, planner
        planner.warm_up()
        self._period = 1.0 / task.planner.rate_hz
        self._plans: deque[Plan] = deque(maxlen=10)
        self._error, self.figures = '', Figures()
        self.inputs = Inputs(self, task)
        self._belief = BeliefTopic(self, task)
        self._candidates = CandidatesTopic(self, task, planner)
        self._tuning.show(task.data)
        self._tell_stage()

    def _drop(self) -> None:
        self.inputs.close()
        self._belief.close()
        self._candidates.close()

    def report(self) -> Report:
        """Return how planning goes."""
        values = {
            **self.figures.values(),
            'stage': self._planner.stage.name,
            'age_s emppi/belief': self._belief.age,
            **{f'age_s {k}': v for k, v in self.inputs.ages(self.now()).items()},
        }
        rejected = [*self.inputs.errors.values(), *filter(None, [self._belief.error])]
        if self._error:
            return Report(ERROR, '; '.join([self._error, *rejected]), values)
        if rejected:
            return Report(WARN, '; '.join(rejected), values)
        return Report(OK, 'planning' if self.state == 'active' else 'not active', values)

    def plan(self, moment: float) -> JointTrajectory:
        """Return the plan of the cycle that begins at `moment`, or raise an EmppiError."""
        belief = self._belief.current(self._settings.belief_timeout_s)
        self.inputs.poll()
        self.inputs.check_ages(moment, self._settings.input_timeout_s)
        stamp = self.inputs.estimator.stamp
        state = self.inputs.estimator.state(stamp)
        self._planner.believe(belief)
        if self._planner.task is not (task := self.task):
            self._planner.tune(task)
        start = moment + self._period
        seen = self.inputs.estimator.seen(stamp)
        before = self._planner.stage
        self._candidates.watch(moment)
        commands = functools.partial(self.inputs.commands, plans=self._plans)
        plan, info = self._planner.cycle(state, stamp, start, commands, seen)
        if self._planner.stage is not before:
            self._tell_stage()
        self._plans.append(plan)
        self.figures.diverged += info.diverged
        return convert.write_plan(self.task.robot, plan)

    def _tell_stage(self) -> None:
        self._stage_publisher.publish(String(data=self._planner.stage.name))

    def _cycle(self, moment: float) -> None:
        start = moment + self._period
        self.figures.cycles += 1
        began = time.perf_counter()
        try:
            message = self.plan(moment)
        except EmppiError as error:  # no plan: the bridge brakes; the next cycle tries again
            self._error = str(error)
            self._planner.forget()
            # at first all wait for one another
            if self.figures.starts or self.figures.cycles > _PATIENCE:
                self.get_logger().warning(f'no plan: {error}', throttle_duration_sec=2.0)
            return
        except Exception as error:  # of a cost, a residual, the physics: all the same to the robot
            self._error = f'{type(error).__name__}: {error}'
            self._planner.forget()
            self.get_logger().error(
                f'no plan:\n{traceback.format_exc()}', throttle_duration_sec=2.0
            )
            return
        self._error = ''
        self.figures.times.add(time.perf_counter() - began)
        self.figures.starts.append(start)
        late = self.now() > start
        self.figures.misses += late
        self._publisher.publish(message)  # late or not, it is better than the one before
        self._candidates.show(start)


def main() -> None:
    """Run the node, a little nicer than those that move the robot."""
    sys.exit(process.run(PlannerNode, nice=5))


if __name__ == '__main__':
    main()
