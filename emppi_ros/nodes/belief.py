"""
The node `belief`: a particle filter over what the task does not know.

It learns at every tracked pose, or, where nothing is tracked, from joint states every
`interval_s`; always once the joint states and applied commands up to that time are there. What
it believes it says again every quarter of a second, even if it learned nothing.
"""

from collections import deque
from collections.abc import Callable, Mapping
import functools
import sys
import threading
import time
from typing import Any, NamedTuple

import numpy as np
from sensor_msgs.msg import PointCloud2
from std_srvs.srv import Trigger

from emppi_ros import weights
from emppi_ros.errors import EmppiError
from emppi_ros.loop.filter import Filter
from emppi_ros.nodes import cloud, process, qos
from emppi_ros.nodes.diagnostics import OK, WARN, Report
from emppi_ros.nodes.following import FollowingNode, StageTopic
from emppi_ros.nodes.inputs import Inputs
from emppi_ros.nodes.parameters import Believing, declare_all
from emppi_ros.nodes.polling import Loop
from emppi_ros.state.estimator import Moment, jumped
from emppi_ros.state.tracking import Pose
from emppi_ros.tasks.task import Task

_LONGEST_WAIT_S = 0.5  # for joint states and applied commands to reach a pose's stamp
_POLL_S = 0.01
_REPEAT_S = 0.25  # who says nothing for longer than the planner waits is dead to it


class _Waiting(NamedTuple):
    stamp: float
    name: str  # of the object, '' for a moment without one
    pose: Pose | None


class BeliefNode(FollowingNode):
    """Measurements and applied commands in, belief out."""

    def __init__(self, **kwargs: object) -> None:
        """Wait for the task."""
        super().__init__('belief', **kwargs)
        self._lock = threading.Lock()  # between learning and a reset
        self._settings = declare_all(self, Believing)
        self.create_service(Trigger, 'emppi/reset_belief', self._reset)

    def setup(self) -> None:
        """Take the task; draw particles from its prior."""
        self.task = self.follow.take()
        if self._settings.prior:
            self.task = self.task.with_prior(self._settings.prior)
            self.get_logger().info(f'prior: {self.task.prior.describe()}')
        self._filter = Filter(self.task, np.random.default_rng([self._settings.seed, 2]))
        self._waiting: deque[_Waiting] = deque()
        self._todo: deque[Callable[[], None]] = deque()  # a lock might be had too late
        self._learned_at, self._last = -np.inf, None
        self._updates = self._resampled = self._reinjected = self._jumps = self._skipped = 0
        self._ess = self._ess_min = float(len(self._filter.belief.theta))
        self._error = ''
        self._publisher = self.create_publisher(PointCloud2, 'emppi/belief', qos.LATCHED)
        self._inputs = Inputs(self, self.task, self._take_pose)
        self._stage = StageTopic(self, self.task, lambda grasp: self._do(self._filter.hold, grasp))

    def start(self) -> None:
        """Learn from now on."""
        self._waiting.clear()
        self._inputs.clear()
        self._learning = True
        self._publish(self.now())
        self.loop = Loop('learning', _POLL_S, self._work)

    def stop(self) -> None:
        """Learn no more, not even from what has arrived."""
        self._learning = False
        super().stop()

    def teardown(self) -> None:
        """Forget the task."""
        self._inputs.close()
        self._stage.close()
        self.destroy_publisher(self._publisher)
        super().teardown()

    def try_task(self, text: str) -> Task:
        """Return the task in a YAML text, which the prior that this node was given must fit."""
        task = super().try_task(text)
        if self._settings.prior:
            task.with_prior(self._settings.prior)
        return task

    def tune_task(self, data: Mapping[str, Any]) -> None:
        """Learn by other variances from the next measurement on; what was learned is kept."""
        self.task = self.task.tuned(data)
        self._do(self._filter.tune, self.task)

    def report(self) -> Report:
        """Return what is believed, and how surely."""
        theta, log_weights = self._filter.belief
        mean = weights.mean(log_weights, theta)
        sd = np.sqrt(np.diag(weights.covariance(log_weights, theta)))
        values: dict[str, object] = {
            'updates': self._updates,
            'ess': self._ess,
            'ess_min': self._ess_min,
            'entropy_nats': weights.entropy(log_weights),
            'resampled': self._resampled,
            'reinjected': self._reinjected,
            'prior': self.task.prior.describe(),
            'out_of_prior': ', '.join(self._outside(mean)),
            'restarts_after_jumps': self._jumps,
            'skipped': self._skipped,
            **{f'age_s {k}': v for k, v in self._inputs.ages(self.now()).items()},
        }
        for i, parameter in enumerate(self.task.parameters):
            values |= {f'mean {parameter.name}': mean[i], f'sd {parameter.name}': sd[i]}
        problems = [*filter(None, [self.follow.changed, self._error])]
        problems += self._inputs.errors.values()
        return Report(WARN if problems else OK, '; '.join(problems) or 'learning', values)

    def _outside(self, mean: np.ndarray) -> list[str]:
        """Return the parameters whose mean the prior holds for next to impossible."""
        low, high = self.task.prior.range
        return [self.task.parameters[i].name for i in np.flatnonzero((mean < low) | (mean > high))]

    def _do(self, act: Callable[[Any], None], what: object) -> None:
        self._todo.append(functools.partial(act, what))

    def _take_pose(self, name: str, stamp: float, pose: Pose) -> None:
        self._waiting.append(_Waiting(stamp, name, pose))

    def _work(self, _moment: float) -> None:
        """Take what has arrived, and learn from every moment up to which all is known."""
        with self._lock:
            self._inputs.poll()
            stamp = self._inputs.estimator.joints_stamp
            due = self._learned_at + self.task.belief.interval_s - 1e-9
            if not self.task.tracked and stamp >= due and not self._waiting:
                self._waiting.append(_Waiting(stamp, '', None))
            self._catch_up()
            if time.monotonic() > self._published_at + _REPEAT_S:
                self._publish(self.now())

    def _catch_up(self) -> None:
        while self._learning:
            while self._todo:
                self._todo.popleft()()
            if not self._waiting:
                return
            known = min(self._inputs.estimator.joints_stamp, self._inputs.applied.last_stamp)
            stamp = self._waiting[0].stamp
            if stamp > known and self._waiting[-1].stamp - stamp < _LONGEST_WAIT_S:
                return
            moment = self._waiting.popleft()
            if stamp > known:
                self._skipped += 1
                self._error = 'no joint states or applied commands to learn with'
            else:
                self._learn(moment)

    def _learn(self, moment: _Waiting) -> None:
        try:
            estimator, pose = self._inputs.estimator, None
            if moment.pose is not None:
                pose = estimator.add_pose(moment.name, moment.stamp, moment.pose)
                if pose is None:
                    return
            seen = estimator.moment(moment.stamp, moment.name, pose)
            self._learned_at = moment.stamp
            self._observe(moment.stamp, seen)
        except EmppiError as error:  # the belief stays as it was
            self._error = str(error)
            if self._updates:  # at first, poses are older than the first joint state
                self.get_logger().warning(f'not learned: {error}', throttle_duration_sec=2.0)

    def _observe(self, stamp: float, moment: Moment) -> None:
        last, self._last = self._last, (stamp, moment.estimated)
        model, state = self.task.model, moment.estimated
        if last is not None and jumped(model, stamp - last[0], last[1], state):
            self._jumps += 1
            self._filter.restart()
        update = self._filter.observe(stamp, moment, self._inputs.applied.hold)
        self._error = ''
        if update is not None:
            self._updates += 1
            self._resampled += update.resampled
            self._reinjected += update.reinjected
            self._ess, self._ess_min = update.ess, min(update.ess, self._ess_min)
            self._publish(stamp)

    def _publish(self, stamp: float) -> None:
        self._published_at = time.monotonic()
        self._publisher.publish(cloud.write_belief(self.task, stamp, self._filter.belief))

    def _reset(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success = self.state in ('inactive', 'active')
        response.message = 'no task yet'
        if response.success:
            with self._lock:
                self._filter.reset()
                self._ess = float(len(self._filter.belief.theta))
            self._publish(self.now())
            response.message = 'the belief is the prior again'
        return response


def main() -> None:
    """Run the node, nicer than the planner, which has deadlines."""
    sys.exit(process.run(BeliefNode, nice=10))


if __name__ == '__main__':
    main()
