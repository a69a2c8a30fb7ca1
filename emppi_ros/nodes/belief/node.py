"""
The node `belief`: a particle filter over the unknown parameters of the task.

It updates the belief at every tracked pose or, if nothing is tracked, from joint states every
`interval_s`, once the joint states and applied commands up to that time have arrived.
"""

from collections import deque
from collections.abc import Callable, Mapping
import functools
import json
import threading
import time
from typing import Any

import numpy as np
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String
from std_srvs.srv import Trigger

from emppi_ros.belief import explanations
from emppi_ros.belief.belief_session import BeliefSession, StampedBelief
from emppi_ros.core import weights
from emppi_ros.core.errors import EmppiError, StaleInputError
from emppi_ros.journal.journal import BELIEF, Journal, describe
from emppi_ros.nodes.belief import saver
from emppi_ros.nodes.belief.saver import SAVE, BeliefSaver
from emppi_ros.nodes.common import interfaces, parameters, qos
from emppi_ros.nodes.common.diagnostics import OK, WARN, Report
from emppi_ros.nodes.common.inputs import MeasurementInputs
from emppi_ros.nodes.common.lifecycle import serve
from emppi_ros.nodes.common.polling import Loop
from emppi_ros.nodes.topics import belief_cloud
from emppi_ros.nodes.topics.named_belief import NAMED, write_named_belief
from emppi_ros.nodes.topics.task import TOPIC, TaskFollowerNode, follow_stage
from emppi_ros.tasks.cost import Stage
from emppi_ros.tasks.task import Task, parse_task

_POLL_S = 0.01
_REPEAT_S = 0.25  # well below the planner's belief_timeout_s
_MAX_EVENTS = 100  # in a journal message


class BeliefNode(TaskFollowerNode):
    """Estimate parameters from measurements and applied commands."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__('belief', **kwargs)
        self._lock = threading.Lock()  # of the session
        self._turn = threading.Lock()  # taken before it by services, for which the loop makes way
        self._settings = parameters.declare_all(self, parameters.BeliefParameters)
        # for all tasks: a recorder could miss events of a new one
        self._events = self.create_publisher(String, BELIEF, qos.DEFAULT)
        self._named = None
        if interfaces.AVAILABLE:
            self._named = self.create_publisher(interfaces.Belief, NAMED, qos.NEWEST)
        serve(self, Trigger, 'emppi/reset_belief', self._reset)
        self._saver = BeliefSaver(self._settings.save_to)
        serve(self, Trigger, SAVE, self._save)

    def setup(self) -> None:
        """Load the task and draw particles from its prior."""
        self.task = self.follow.take()
        self.task, prior = saver.with_prior(self.task, self._settings.prior)
        self._prior = prior  # its text
        if prior:
            self.get_logger().info(f'prior: {self.task.prior.describe()}')
        seed = self._settings.seed
        self.session = BeliefSession(self.task, seed)
        self._journal = Journal(self.session, describe(self.task, self.follow.text, seed, prior))
        self._logged_until = -np.inf  # s, changes of parameters
        self._todo: deque[Callable[[], None]] = deque()  # to call in the loop's thread
        self._publisher = self.create_publisher(PointCloud2, 'emppi/belief', qos.LATCHED)
        self._inputs = MeasurementInputs(self, self.task, self.session)
        self._stage = follow_stage(self, self.task.stages, self._enter)

    def start(self) -> None:
        """Start to update the belief."""
        self._inputs.clear()
        self._active = True
        self._journal.begin_cycle(self._events.get_subscription_count(), time.monotonic())
        self._publish_current()
        self.loop = Loop('learning', _POLL_S, self._work)

    def stop(self) -> None:
        """Stop updating, without the messages that wait."""
        self._active = False
        super().stop()

    def teardown(self) -> None:
        """Save the belief if it was updated, and release the task."""
        if self.session.counts['updates'] and self._settings.save_to and self.task.parameters:
            try:
                path = self._saver.save(self.task, self.session, self._settings.seed)
                self.get_logger().info(f'belief saved: {path}')
            except EmppiError as error:
                self.get_logger().error(f'belief not saved: {error}')
        self._inputs.close()
        self.destroy_subscription(self._stage)
        self.destroy_publisher(self._publisher)
        super().teardown()

    def try_task(self, text: str) -> Task:
        """Return the task in a YAML text; the node's prior must fit it."""
        task = parse_task(text, TOPIC)
        saver.with_prior(task, self._settings.prior)
        return task

    def tune_task(self, data: Mapping[str, Any]) -> None:
        """Use other noise variances from the next measurement on; keep the belief."""
        self.task = self.task.tuned(data)
        self._todo.append(functools.partial(self.session.tune, json.dumps(data)))

    def report(self) -> Report:
        """Return the mean and spread of the belief, and statistics of the filter."""
        session, counts, monitor = self.session, self.session.counts, self.session.filter.monitor
        belief = session.filter.belief
        theta, log_weights = belief
        mean = weights.mean(log_weights, theta)
        sd = np.sqrt(np.diag(weights.covariance(log_weights, theta)))
        judgement = session.filter.judgement
        values: dict[str, object] = {
            'updates': counts['updates'],
            'ess': session.ess,
            'ess_min': session.ess_min,
            'entropy_nats': weights.entropy(log_weights),
            'diverged_predictions': monitor.diverged,
            'resampled': counts['resampled'],
            'reinjected': counts['reinjected'],
            'prior': self.task.prior.describe(),
            'out_of_prior': ', '.join(judgement.out_of_prior),
            'misfit': ', '.join(monitor.misfit),
            'collapsed': ', '.join(judgement.collapsed),
            'changes': counts['changes'],
            'unidentifiable': ', '.join(judgement.unidentifiable),
            'restarts_after_jumps': counts['jumps'],
            'skipped': counts['skipped'],
            'late': counts['late'],
            'outliers': session.estimator.outliers,
            **{f'age_s {k}': v for k, v in self._inputs.ages(self.now()).items()},
        }
        for quantity, (bias, variance) in monitor.innovations.statistics().items():
            values[f'innovation_mean {quantity}'] = bias
            values[f'innovation_variance {quantity}'] = variance
        # times in full: seconds since 1970 have more digits than other values
        for change in list(session.filter.changes.events):
            values[f'changed {change.parameter}'] = f'{change.stamp:.3f}'
            values[f'changed_from {change.parameter}'] = change.before
        distance = self.task.prior.distance(belief)
        for i, parameter in enumerate(self.task.parameters):
            values |= {f'mean {parameter.name}': mean[i], f'sd {parameter.name}': sd[i]}
            values |= {f'from_prior {parameter.name}': distance[i]}
            values |= {f'sd_left {parameter.name}': judgement.remaining[i]}
        doubts = (
            explanations.late(explanations.late_share(counts)),
            explanations.misfit(monitor.misfit),
            explanations.out_of_prior(judgement.out_of_prior),
            explanations.collapsed(judgement.collapsed),
        )
        problems = [*filter(None, [self.follow.changed, session.error, *doubts])]
        problems += self._inputs.errors.values()
        return Report(WARN if problems else OK, '; '.join(problems) or 'learning', values)

    def _enter(self, stage: Stage) -> None:
        self._todo.append(functools.partial(self.session.set_stage, stage.name))

    def _work(self, moment: float) -> None:
        """Take new messages and update the belief as far as they are complete."""
        with self._lock:
            self._journal.begin_cycle(self._events.get_subscription_count(), moment)
            self._inputs.poll()
        updated = self._update()
        with self._lock:
            # before the first update, poses are old
            if (error := self.session.error) and self.session.counts['updates']:
                self.get_logger().warning(f'no update: {error}', throttle_duration_sec=2.0)
            if repeat := time.monotonic() > self._published_at + _REPEAT_S:
                self._publish_current()
            if updated or repeat or self._journal.pending >= _MAX_EVENTS:
                if text := self._journal.take():
                    self._events.publish(String(data=text))

    def _update(self) -> int:
        """Do all updates that are due unless the node is stopped; return how many."""
        count, due = 0, True
        while due and self._active:
            with self._turn:  # a waiting service comes next: updates may be due for seconds
                pass
            with self._lock:
                while self._todo:
                    self._todo.popleft()()
                for belief in self.session.update():
                    self._publish(belief)
                    count += 1
                self._log_changes()
                due = self.session.ready
        return count

    def _log_changes(self) -> None:
        for change in self.session.filter.changes.since(self._logged_until):
            self.get_logger().info(f'{explanations.change(change)} (at {change.stamp:.2f} s)')
            self._logged_until = change.stamp
            self.diagnostics.publish()  # at once, for displays

    def _publish_current(self) -> None:
        self._publish(self.session.stamped(self.now()))

    def _publish(self, belief: StampedBelief) -> None:
        self._published_at = time.monotonic()
        self._publisher.publish(belief_cloud.write_belief(self.task, belief.stamp, belief.belief))
        if self._named is not None and self._named.get_subscription_count():
            updates = self.session.counts['updates']
            self._named.publish(write_named_belief(self.task, belief, updates))

    def _reset(self) -> str:
        self._check_task()
        settings, message = self._settings, 'the belief was reset to the prior'
        # the file may be a belief that this node saved
        read = settings.prior != settings.save_to
        if read and self._prior != saver.with_prior(self.task, settings.prior)[1]:
            self.swap_task()
            return f'{message}, which was read again: {self.task.prior.describe()}'
        with self._turn, self._lock:
            self.session.reset()
            self._publish_current()
        return message

    def _save(self) -> str:
        self._check_task()
        with self._turn, self._lock:
            return self._saver.save(self.task, self.session, self._settings.seed)

    def _check_task(self) -> None:
        if self.state not in ('inactive', 'active'):
            raise StaleInputError('no task yet')
