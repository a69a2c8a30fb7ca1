"""When a task is done; where targets follow one another, when the next one is due, and which."""

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from emppi_ros.session.stage_tracker import ROUNDING_S, HoldTimer
from emppi_ros.session.trace import Attempt, Trace
from emppi_ros.state import tracking
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]


class SuccessMonitor:
    """Notes success and attempts in a trace."""

    def __init__(self, task: Task, trace: Trace, rng: np.random.Generator) -> None:
        """Wait for the first success; targets are drawn from `rng`."""
        self._task, self._trace, self._rng = task, trace, rng
        self._began, self._held = 0.0, HoldTimer()
        self._target = Rotation.identity()

    def judge(self, error: float, lost: bool, now: float) -> bool:
        """Return whether an attempt has ended, given the length of the success residual."""
        success, targets = self._task.file.success, self._task.file.targets
        reached = self._held.update(error < success.below, now, success.hold_s)
        if reached and self._trace.success_time is None:
            self._trace.success_time = now
        if targets is None:
            return False
        if not (reached or lost or now - self._began >= targets.attempt_s - ROUNDING_S):
            return False
        self._trace.attempts.append(Attempt(self._began, now, reached, lost))
        self._began, self._held = now, HoldTimer()
        if lost:
            self._target = Rotation.identity()  # what is put back lies as at first
        return True

    def next_target(self) -> Array:
        """Return another orientation to reach: a quaternion (4,), wxyz."""
        targets = self._task.file.targets
        axis = self._rng.standard_normal(3)
        least, most = (targets.least_turn_rad, targets.turn_rad) if targets else (0.0, 0.0)
        angle = self._rng.uniform(least, most)
        self._target = Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)) * self._target
        return tracking.to_quaternion(self._target)
