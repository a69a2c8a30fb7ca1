"""
What the node `belief` does with all that it hears, without ROS and clocks.

It learns at every tracked pose, or, where nothing is tracked, from joint states every
`interval_s`; always once joint states and applied commands up to that time are there, and from
one moment at a time: a belief that is behind still hears of stages and tasks. Whoever is told
the same in the same order, from the same seed, believes the same bit for bit.
"""

from collections import Counter, deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.core.errors import EmppiError
from emppi_ros.model.ensemble import State
from emppi_ros.session.particle_filter import ParticleFilter
from emppi_ros.state.estimator import Observation, jumped
from emppi_ros.state.measurements import Measurements
from emppi_ros.state.tracking import Pose
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
NUMBER = 2  # of the belief's random numbers, beside the seed
_LONGEST_WAIT_S = 0.5  # for joint states and applied commands to reach a pose's stamp


class Waiting(NamedTuple):
    """A moment to learn from, once all up to it is known."""

    stamp: float
    name: str  # of the object, '' for a moment without one
    pose: Pose | None


class Said(NamedTuple):
    """What is believed, to be published with a stamp; `ess` before resampling, if learned."""

    stamp: float
    belief: Belief
    ess: float


class Learning(Measurements):
    """Measurements and applied commands in, beliefs out."""

    MEMORY = (*Measurements.MEMORY, 'filter', '_waiting', '_learned_at', '_last', '_stage', 'ess')

    def __init__(self, task: Task, seed: int) -> None:
        """Draw particles from the task's prior."""
        super().__init__(task)
        self.filter = ParticleFilter(task, np.random.default_rng([seed, NUMBER]))
        self._waiting: deque[Waiting] = deque()
        self._learned_at = -np.inf
        self._last: tuple[float, State] | None = None
        self._stages = {stage.name: stage for stage in task.stages}
        self._stage = ''
        self.ess = self.ess_min = float(len(self.filter.belief.theta))
        self.counts: Counter[str] = Counter()  # updates, resampled, reinjected, jumps, skipped
        self.error = ''

    def pose(self, name: str, stamp: float, position: Array, quaternion: Array) -> None:
        """Take where an object was seen, to learn from it when its time has come."""
        self._waiting.append(Waiting(stamp, name, Pose(position, quaternion)))

    def clear(self) -> None:
        """Forget all that was measured, not what was learned."""
        super().clear()
        self._waiting.clear()

    def stage(self, name: str) -> None:
        """Predict with what a stage of the task grasps; other names are another task's."""
        if name in self._stages:
            self._stage = name
            self.filter.hold(self._stages[name].grasp)

    def tune(self, text: str) -> None:
        """Learn by other variances from the next moment on; what was learned is kept."""
        super().tune(text)
        self.filter.tune(self.task)

    def resume(self) -> None:
        """Go on from what is remembered, which was another's."""
        super().resume()
        self.stage(self._stage)

    def reset(self) -> None:
        """Draw from the prior again."""
        self.filter.reset()
        self.ess = float(len(self.filter.belief.theta))

    def say(self, stamp: float) -> Said:
        """Say what is believed, learned or not."""
        return Said(stamp, self.filter.belief, self.ess)

    @property
    def ready(self) -> bool:
        """Whether there is a moment to learn from, or to give up, now."""
        return bool(self._waiting) and (
            self._waiting[0].stamp <= self._known
            or self._waiting[-1].stamp - self._waiting[0].stamp >= _LONGEST_WAIT_S
        )

    def learn(self) -> list[Said]:
        """Learn from the next moment up to which all is known; return the belief, if updated."""
        stamp = self.estimator.joints_stamp
        due = self._learned_at + self.task.belief.interval_s - 1e-9
        if not self.task.tracked and stamp >= due and not self._waiting:
            self._waiting.append(Waiting(stamp, '', None))
        if not self.ready:
            return []
        waiting = self._waiting.popleft()
        if waiting.stamp > self._known:
            self.counts['skipped'] += 1
            self.error = 'no joint states or applied commands to learn with'
            return []
        return [self.say(waiting.stamp)] if self._learn(waiting) else []

    @property
    def _known(self) -> float:
        """Until when joint states and applied commands are there."""
        return min(self.estimator.joints_stamp, self.applied.last_stamp)

    def _learn(self, waiting: Waiting) -> bool:
        """Return whether the belief was updated."""
        try:
            estimator, pose = self.estimator, None
            if waiting.pose is not None:
                pose = estimator.add_pose(waiting.name, waiting.stamp, waiting.pose)
                if pose is None:
                    return False
            seen = estimator.observation(waiting.stamp, waiting.name, pose)
            self._learned_at = waiting.stamp
            return self._observe(waiting.stamp, seen)
        except EmppiError as error:  # the belief stays as it was
            self.error = str(error)
            return False

    def _observe(self, stamp: float, moment: Observation) -> bool:
        last, self._last = self._last, (stamp, moment.estimated)
        model, state = self.task.model, moment.estimated
        if last is not None and jumped(model, stamp - last[0], last[1], state):
            self.counts['jumps'] += 1
            self.filter.restart()
        update = self.filter.observe(stamp, moment, self.applied.hold)
        self.error = ''
        if update is None:
            return False
        self.counts.update(updates=1, resampled=update.resampled, reinjected=update.reinjected)
        self.ess, self.ess_min = update.ess, min(update.ess, self.ess_min)
        return True
