"""
The node `belief`: a particle filter over what the task does not know.

It learns at every tracked pose, or, where nothing is tracked, from joint states every
`interval_s`; always once the joint states and applied commands up to that time are there. What
it believes it says again every quarter of a second, even if it learned nothing.
"""

from collections import deque
from collections.abc import Callable, Mapping
import functools
import json
import sys
import threading
import time
from typing import Any

import numpy as np
from sensor_msgs.msg import PointCloud2
from std_srvs.srv import Trigger

from emppi_ros.core import weights
from emppi_ros.core.errors import StaleInputError
from emppi_ros.nodes.belief import saver
from emppi_ros.nodes.belief.saver import BeliefSaver
from emppi_ros.nodes.common import process, qos
from emppi_ros.nodes.common.diagnostics import OK, WARN, Report
from emppi_ros.nodes.common.inputs import Inputs
from emppi_ros.nodes.common.parameters import BeliefParameters, declare_all
from emppi_ros.nodes.common.polling import Loop
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.nodes.topics.journal import JournalTopic
from emppi_ros.nodes.topics.task import FollowingNode, StageTopic
from emppi_ros.session.belief_session import BeliefSession, StampedBelief
from emppi_ros.session.journal import BELIEF, Journal
from emppi_ros.session.metadata import describe
from emppi_ros.tasks.stages import Stage
from emppi_ros.tasks.task import Task

_POLL_S = 0.01
_REPEAT_S = 0.25  # who says nothing for longer than the planner waits is dead to it
_MOST_EVENTS = 100  # in a message of the journal


class BeliefNode(FollowingNode):
    """Measurements and applied commands in, belief out."""

    def __init__(self, **kwargs: object) -> None:
        """Wait for the task."""
        super().__init__('belief', **kwargs)
        self._lock = threading.Lock()  # between learning and a reset
        self._settings = declare_all(self, BeliefParameters)
        self._journaling = JournalTopic(self, BELIEF)
        self.create_service(Trigger, 'emppi/reset_belief', self._reset)
        self._saving = BeliefSaver(self, self._settings.save_to, self._asked_to_save)

    def setup(self) -> None:
        """Take the task; draw particles from its prior."""
        self.task = self.follow.take()
        self.task, prior = saver.with_prior(self.task, self._settings.prior)
        if prior:
            self.get_logger().info(f'prior: {self.task.prior.describe()}')
        seed = self._settings.seed
        self.session = BeliefSession(self.task, seed)
        journal = Journal(self.session, describe(self.task, self.follow.text, seed, prior))
        self._todo: deque[Callable[[], None]] = deque()  # for the thread of the loop
        self._publisher = self.create_publisher(PointCloud2, 'emppi/belief', qos.LATCHED)
        self._journaling.follow(journal)
        self._inputs = Inputs(self, self.task, self.session)
        self._stage = StageTopic(self, self.task, self._enter)

    def start(self) -> None:
        """Learn from now on."""
        self._inputs.clear()
        self._learning = True
        self._journaling.begin(time.monotonic())
        self._say()
        self.loop = Loop('learning', _POLL_S, self._work)

    def stop(self) -> None:
        """Learn no more, not even from what has arrived."""
        self._learning = False
        super().stop()

    def teardown(self) -> None:
        """Forget the task, once what was learned of it is saved."""
        if self.session.counts['updates']:
            self._saving.keep(self.task, self.session, self._settings.seed)
        self._inputs.close()
        self._stage.close()
        self.destroy_publisher(self._publisher)
        super().teardown()

    def try_task(self, text: str) -> Task:
        """Return the task in a YAML text, which the prior that this node was given must fit."""
        task = super().try_task(text)
        saver.with_prior(task, self._settings.prior)
        return task

    def tune_task(self, data: Mapping[str, Any]) -> None:
        """Learn by other variances from the next measurement on; what was learned is kept."""
        self.task = self.task.tuned(data)
        self._todo.append(functools.partial(self.session.tune, json.dumps(data)))

    def report(self) -> Report:
        """Return what is believed, and how surely."""
        session, counts, monitor = self.session, self.session.counts, self.session.filter.monitor
        belief = session.filter.belief
        theta, log_weights = belief
        mean = weights.mean(log_weights, theta)
        sd = np.sqrt(np.diag(weights.covariance(log_weights, theta)))
        outside = ', '.join(monitor.out_of_prior(belief))
        values: dict[str, object] = {
            'updates': counts['updates'],
            'ess': session.ess,
            'ess_min': session.ess_min,
            'entropy_nats': weights.entropy(log_weights),
            'diverged_predictions': monitor.diverged,
            'resampled': counts['resampled'],
            'reinjected': counts['reinjected'],
            'prior': self.task.prior.describe(),
            'out_of_prior': outside,
            'unidentifiable': ', '.join(monitor.unidentifiable),
            'restarts_after_jumps': counts['jumps'],
            'skipped': counts['skipped'],
            **{f'age_s {k}': v for k, v in self._inputs.ages(self.now()).items()},
        }
        for quantity, (bias, variance) in monitor.innovations.statistics().items():
            values[f'innovation_mean {quantity}'] = bias
            values[f'innovation_variance {quantity}'] = variance
        distance, left = self.task.prior.distance(belief), monitor.remaining
        for i, parameter in enumerate(self.task.parameters):
            values |= {f'mean {parameter.name}': mean[i], f'sd {parameter.name}': sd[i]}
            values |= {f'from_prior {parameter.name}': distance[i]}
            values |= {f'sd_left {parameter.name}': left[i]}
        problems = [*filter(None, [self.follow.changed, session.error])]
        problems += [f'contradicts its prior: {outside}'] if outside else []
        problems += self._inputs.errors.values()
        return Report(WARN if problems else OK, '; '.join(problems) or 'learning', values)

    def _enter(self, stage: Stage) -> None:
        self._todo.append(functools.partial(self.session.set_stage, stage.name))

    def _work(self, moment: float) -> None:
        """Take what has arrived, and learn from every moment up to which all is known."""
        with self._lock:
            self._journaling.begin(moment)
            self._inputs.poll()
            learned = self._catch_up()
            if self.session.error and self.session.counts['updates']:  # at first poses are old
                self.get_logger().warning(
                    f'not learned: {self.session.error}', throttle_duration_sec=2.0
                )
            if repeat := time.monotonic() > self._published_at + _REPEAT_S:
                self._say()
            if learned or repeat or self._journaling.waiting >= _MOST_EVENTS:
                self._journaling.send()

    def _catch_up(self) -> int:
        """Learn from one moment after the other, unless we are stopped; return how often."""
        count = 0
        while self._learning:
            while self._todo:
                self._todo.popleft()()
            for said in self.session.update():
                self._publish(said)
                count += 1
            if not self.session.ready:
                break
        return count

    def _say(self) -> None:
        self._publish(self.session.stamped(self.now()))

    def _publish(self, said: StampedBelief) -> None:
        self._published_at = time.monotonic()
        self._publisher.publish(belief_cloud.write_belief(self.task, said.stamp, said.belief))

    def _reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self.state in ('inactive', 'active')
        if not response.success:
            response.message = 'no task yet'
            return response
        with self._lock:
            self.session.reset()
            self._say()
        response.message = 'the belief is the prior again'
        return response

    def _asked_to_save(self) -> str:
        """Save what is believed now; return that in words, or raise an EmppiError."""
        if self.state not in ('inactive', 'active'):
            raise StaleInputError('no task yet')
        with self._lock:
            return self._saving.save(self.task, self.session, self._settings.seed)


def main() -> None:
    """Run the node, nicer than the planner, which has deadlines."""
    sys.exit(process.run(BeliefNode, nice=10))


if __name__ == '__main__':
    main()
