"""
The node `planner`: plans at a fixed rate, in a thread of its own.

At time t_k it takes the newest estimate, plans from where that will have led by
t_k + period, and publishes the plan that starts then. It also publishes the task that all
nodes follow.
"""

from collections import deque
from dataclasses import dataclass
import math
import sys
import time
import traceback

from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros import config
from emppi_ros.belief.particles import Belief
from emppi_ros.errors import EmppiError
from emppi_ros.loop.planning import Planning
from emppi_ros.nodes import convert, process, qos
from emppi_ros.nodes.believing import BeliefTopic
from emppi_ros.nodes.candidates import CandidatesTopic
from emppi_ros.nodes.diagnostics import ERROR, OK, WARN, Durations, Report
from emppi_ros.nodes.following import STAGE, TOPIC
from emppi_ros.nodes.inputs import Inputs
from emppi_ros.nodes.journaling import JournalTopic
from emppi_ros.nodes.managed import ManagedNode
from emppi_ros.nodes.parameters import Seeded, declare_all
from emppi_ros.nodes.polling import Loop
from emppi_ros.replay import journal
from emppi_ros.replay.about import describe
from emppi_ros.replay.journal import Journal
from emppi_ros.tasks.task import parse_task, task_text

_PATIENCE = 100  # cycles before the first plan that are nobody's fault


@dataclass(frozen=True)
class PlannerParameters(Seeded):
    """Parameters of the node."""

    task: str = config.key('panda_push', doc='name or path of the task')
    robot: str = config.key('', doc="robot in place of the task's own")
    input_timeout_s: float = config.positive(0.25, 'no plan from older measurements')
    belief_timeout_s: float = config.positive(1.0, 'nor from a belief not said for so long')


class PlannerNode(ManagedNode):
    """Measurements and belief in, plans out."""

    def __init__(self, **kwargs: object) -> None:
        """Declare parameters."""
        super().__init__('planner', **kwargs)
        self._parameters = declare_all(self, PlannerParameters)
        self._text_publisher = self.create_publisher(String, TOPIC, qos.LATCHED)

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
        text = task_text(self._parameters.task, self._parameters.robot)
        self.task = parse_task(text, self._parameters.task)
        seed = self._parameters.seed
        self.session = Planning(self.task, seed)
        self._planner = self.session.planner
        self._planner.warm_up()
        self._journal = Journal(self.session, describe(self.task, text, seed))
        self._period = 1.0 / self.task.planner.rate_hz
        self._believed: Belief | None = None  # what the session was told last
        self._cycles = self._misses = 0
        self._error, self._times, self._starts = '', Durations(), deque(maxlen=100)
        self.inputs = Inputs(self, self.task, self._journal)
        self._belief = BeliefTopic(self, self.task)
        self._candidates = CandidatesTopic(self, self.task, self._planner)
        self._journaling = JournalTopic(self, journal.PLANNER, self._journal)
        self._publisher = self.create_publisher(JointTrajectory, 'emppi/plan', qos.DEFAULT)
        self._stage_publisher = self.create_publisher(String, STAGE, qos.LATCHED)
        self._tell_stage()
        self._text_publisher.publish(String(data=text))

    def start(self) -> None:
        """Plan from now on."""
        self.inputs.clear()
        # a cycle that begins late ends in time all the same, if planning takes half a period:
        # to skip it leaves the bridge without a plan when one cycle took a little too long
        self.loop = Loop('planning', self._period, self._cycle, self.now, late=True)

    def stop(self) -> None:
        """Let the cycle under way end, and start no other."""
        super().stop()
        self._journal.tell('forget')

    def teardown(self) -> None:
        """Forget the task."""
        self.inputs.close()
        self._belief.close()
        self._candidates.close()
        self._journaling.close()
        self.destroy_publisher(self._publisher)
        self.destroy_publisher(self._stage_publisher)

    def report(self) -> Report:
        """Return how planning goes."""
        starts = list(self._starts)
        span = starts[-1] - starts[0] if len(starts) > 1 else math.nan
        values = {
            'cycles': self._cycles,
            'deadline_misses': self._misses,
            'deadline_miss_fraction': self._misses / max(self._cycles, 1),
            'plan_ms_p50': self._times.quantile_ms(0.5),
            'plan_ms_p99': self._times.quantile_ms(0.99),
            'plan_ms_recent': self._times.take_recent_ms(),
            'rate_hz': (len(starts) - 1) / span,
            'diverged_rollouts': self.session.diverged,
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
        belief = self._belief.current(self._parameters.belief_timeout_s)
        self.inputs.poll()
        self.inputs.check_ages(moment, self._parameters.input_timeout_s)
        if belief is not self._believed:
            self._journal.tell('believe', *belief)
            self._believed = belief
        before = self._planner.stage
        self._candidates.watch(moment)
        plan = self._journal.tell('plan', moment)
        if self._planner.stage is not before:
            self._tell_stage()
        return convert.write_plan(self.task.robot, plan)

    def _tell_stage(self) -> None:
        self._stage_publisher.publish(String(data=self._planner.stage.name))

    def _cycle(self, moment: float) -> None:
        self._journaling.begin(moment)
        self._work(moment)
        self._journaling.send()  # after the plan, which nobody is to wait for

    def _work(self, moment: float) -> None:
        start = moment + self._period
        self._cycles += 1
        began = time.perf_counter()
        try:
            message = self.plan(moment)
        except EmppiError as error:  # no plan: the bridge brakes; the next cycle tries again
            self._error = str(error)
            self._journal.tell('forget')
            if self._starts or self._cycles > _PATIENCE:  # at first all wait for one another
                self.get_logger().warning(f'no plan: {error}', throttle_duration_sec=2.0)
            return
        except Exception as error:  # of a cost, a residual, the physics: all the same to the robot
            self._error = f'{type(error).__name__}: {error}'
            self._journal.tell('forget')
            self.get_logger().error(
                f'no plan:\n{traceback.format_exc()}', throttle_duration_sec=2.0
            )
            return
        self._error = ''
        self._times.add(time.perf_counter() - began)
        self._starts.append(start)
        late = self.now() > start
        self._misses += late
        self._publisher.publish(message)  # late or not, it is better than the one before
        self._candidates.show(start)


def main() -> None:
    """Run the node, a little nicer than those that move the robot."""
    sys.exit(process.run(PlannerNode, nice=5))


if __name__ == '__main__':
    main()
