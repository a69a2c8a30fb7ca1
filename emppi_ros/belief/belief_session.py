"""
The belief of a task, from measurements in the order of arrival, without ROS or clocks.

The belief is updated at every tracked pose, or every `interval_s` if the task tracks no object,
as soon as joint states and applied commands up to that time have arrived. If updates take longer
than that, the belief skips poses: the planner needs the belief of now. The same calls in the same
order, with the same seed, return the same bits.
"""

from collections import Counter, deque
from typing import NamedTuple

import numpy as np

from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError
from emppi_ros.core.pose import Pose
from emppi_ros.journal import snapshot
from emppi_ros.journal.journal import Measurements, journaled
from emppi_ros.model.ensemble import State
from emppi_ros.priors.particles import Belief
from emppi_ros.state.estimator import JumpDetector
from emppi_ros.tasks.task import Task

_LONGEST_WAIT_S = 0.5  # for joint states and applied commands to reach a pose's stamp
_LATE_S, _LONGEST_LAG_S = 0.1, 0.3  # of the next pose behind the newest: see _catch_up


@snapshot.restorable
class PendingUpdate(NamedTuple):
    """An update that waits for joint states and commands up to its stamp."""

    stamp: float
    name: str  # of the tracked object; '' without one
    pose: Pose | None


class StampedBelief(NamedTuple):
    """A belief to publish; `ess` is the effective sample size before resampling."""

    stamp: float
    belief: Belief
    ess: float


class BeliefSession(Measurements):
    """Orders measurements and commands, and updates the particle filter."""

    MEMORY = Measurements.MEMORY
    MEMORY += ('filter', '_waiting', '_learned_at', '_last', '_jump_detector', '_stage', 'ess')

    def __init__(self, task: Task, seed: int) -> None:
        """Draw the particles from the task's prior."""
        super().__init__(task)
        self.filter = ParticleFilter(task, seed)
        self._waiting: deque[PendingUpdate] = deque()
        self._learned_at = -np.inf
        self._last: tuple[float, State] | None = None
        self._jump_detector = JumpDetector(task.model)
        self._stages = {stage.name: stage for stage in task.stages}
        self._stage = ''
        self.ess = self.ess_min = float(len(self.filter.belief.theta))
        self.counts: Counter[str] = Counter()  # updates, resampled, reinjected, jumps, ...
        self.error = ''

    @journaled('pose')
    def add_pose(self, name: str, stamp: float, position: Array, quaternion: Array) -> None:
        """Queue a tracked pose, (3,) [m] and wxyz (4,), for `update`."""
        self._waiting.append(PendingUpdate(stamp, name, Pose(position, quaternion)))

    @journaled('clear')
    def clear(self) -> None:
        """Discard all measurements; keep the belief."""
        super().clear()
        self._waiting.clear()

    @journaled('stage')
    def set_stage(self, name: str) -> None:
        """Predict with the grasp of a stage; ignore the names of other tasks' stages."""
        if name in self._stages:
            self._stage = name
            self.filter.activate(self._stages[name].grasp)

    @journaled('tune')
    def tune(self, text: str) -> None:
        """Change tunable parameters, such as variances; keep the belief."""
        super().tune(text)
        self.filter.tune(self.task)

    def resume(self) -> None:
        """Apply tuned parameters and stage of a restored snapshot."""
        super().resume()
        self.set_stage(self._stage)

    @journaled('reset')
    def reset(self) -> None:
        """Draw the particles from the prior again."""
        self.filter.reset()
        self.ess = float(len(self.filter.belief.theta))

    @journaled('say')
    def stamped(self, stamp: float) -> StampedBelief:
        """Return the current belief with a stamp."""
        return StampedBelief(stamp, self.filter.belief, self.ess)

    @property
    def ready(self) -> bool:
        """Whether the next pending update can be done or has waited too long."""
        return bool(self._waiting) and (
            self._waiting[0].stamp <= self._complete_until
            or self._waiting[-1].stamp - self._waiting[0].stamp >= _LONGEST_WAIT_S
        )

    @journaled('learn')
    def update(self) -> list[StampedBelief]:
        """Do the next pending update whose data are complete; return the belief if it changed."""
        stamp = self.estimator.joints_stamp
        due = self._learned_at + self.task.belief.interval_s - 1e-9
        if not self.task.tracked and stamp >= due and not self._waiting:
            self._waiting.append(PendingUpdate(stamp, '', None))
        if not self.ready:
            return []
        self._catch_up()
        pending = self._waiting.popleft()
        if pending.stamp > self._complete_until:
            self.counts['skipped'] += 1
            self.error = 'no joint states or applied commands for a belief update'
            return []
        return [self.stamped(pending.stamp)] if self._apply(pending) else []

    @property
    def _complete_until(self) -> float:
        """Time up to which joint states and applied commands have arrived."""
        return min(self.estimator.joints_stamp, self.applied.last_stamp)

    def _catch_up(self) -> None:
        """Skip poses if the next one is far behind (docs/architecture.md)."""
        complete = [pending for pending in self._waiting if pending.stamp <= self._complete_until]
        lag = complete[-1].stamp - complete[0].stamp if complete else 0.0
        if lag < _LATE_S:
            return
        if lag < _LONGEST_LAG_S:
            end = self._learned_at + _LATE_S
            newest = {pose.name: pose.stamp for pose in complete if pose.stamp <= end}
            skipped = [pose for pose in complete if pose.stamp < newest.get(pose.name, -np.inf)]
            kept = [pose for pose in complete if pose.stamp >= newest.get(pose.name, -np.inf)]
        else:
            skipped, kept = complete[:-2], complete[-2:]
            self.filter.restart()
        for pending in skipped:
            if pending.pose is not None:
                self.estimator.add_pose(pending.name, pending.stamp, pending.pose)
        self._waiting = deque([*kept, *list(self._waiting)[len(complete) :]])
        self.counts['late'] += len(skipped)

    def _apply(self, pending: PendingUpdate) -> bool:
        """Update the filter, after a restart if the state jumped; return whether it changed."""
        stamp, pose = pending.stamp, pending.pose
        try:
            if pose is not None:
                pose = self.estimator.add_pose(pending.name, stamp, pose)
                if pose is None:
                    return False
            observation = self.estimator.observation(stamp, pending.name, pose)
            self._learned_at = stamp
            last, self._last = self._last, (stamp, observation.estimated)
            if last is not None and self._jump_detector.update(
                stamp - last[0], last[1], observation.estimated
            ):
                self.counts['jumps'] += 1
                self.filter.restart()
            update = self.filter.observe(stamp, observation, self.applied)
        except EmppiError as error:  # keep the belief
            self.error = str(error)
            return False
        self.error = ''
        if update is None:
            return False
        flags = {name: int(getattr(update, name)) for name in ('resampled', 'reinjected')}
        self.counts.update(updates=1, changes=len(update.changes), **flags)
        self.ess, self.ess_min = update.ess, min(update.ess, self.ess_min)
        return True
