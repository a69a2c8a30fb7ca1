"""The record of a closed loop, and the monitor that enters success and attempts into it."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.belief.changes import DetectedChange
from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import to_quaternion
from emppi_ros.priors.particles import Belief
from emppi_ros.sim.simulated_robot import JointReading, PoseReading
from emppi_ros.tasks.hold_timer import ROUNDING_S, HoldTimer
from emppi_ros.tasks.task import Task


class Frame(NamedTuple):
    """The true state at one time, for plots and videos."""

    time: float  #: simulated time [s]
    qpos: Array  #: (nq,) positions
    qvel: Array  #: (nv,) velocities
    error: float  #: norm of the success residual


class Attempt(NamedTuple):
    """One attempt to reach a target, in tasks with a sequence of targets."""

    start: float
    end: float
    reached: bool
    lost: bool


@dataclass
class Trace:
    """Measurements, commands, beliefs and results of a run."""

    truths: list[tuple[float, Array]]  #: times [s], true parameters (P,): first, then changes
    frames: list[Frame] = field(default_factory=list)  #: true states and errors, at 50 Hz
    beliefs: list[tuple[float, Belief]] = field(default_factory=list)  #: times [s], beliefs
    changes: list[DetectedChange] = field(default_factory=list)  #: that the belief detected
    plan_s: list[float] = field(default_factory=list)  #: computation time of each plan [s]
    update_s: list[float] = field(default_factory=list)  #: that of each belief update [s]
    ess: list[float] = field(default_factory=list)  #: sample size before each resampling
    readings: list[JointReading] = field(default_factory=list)  #: joint states
    poses: list[PoseReading] = field(default_factory=list)  #: tracked poses
    commands: list[tuple[float, Array]] = field(default_factory=list)  #: times [s], applied
    stages: list[tuple[float, str]] = field(default_factory=list)  #: times [s], entered stages
    attempts: list[Attempt] = field(default_factory=list)  #: at a sequence of targets
    faults: list[tuple[float, str]] = field(default_factory=list)  #: times [s], texts
    diverged: int = 0  #: number of diverged rollouts
    degenerate: int = 0  #: number of belief updates that no particle could explain
    success_time: float | None = None  #: time of success [s]

    def trim(self, count: int) -> None:
        """Keep at least the last `count` entries of each list, and at most twice as many."""
        for entries in vars(self).values():
            if isinstance(entries, list) and len(entries) > 2 * count:
                del entries[:-count]

    @property
    def truth(self) -> Array:
        """The true parameters (P,) at the end of the run."""
        return self.truths[-1][1]

    @property
    def success(self) -> bool:
        """Whether the task succeeded."""
        return self.success_time is not None


class SuccessMonitor:
    """Detects success and the end of attempts, and draws the targets."""

    def __init__(self, task: Task, trace: Trace, rng: np.random.Generator) -> None:
        """Start the first attempt at time 0; draw targets from `rng`."""
        self._task, self._trace, self._rng = task, trace, rng
        self._start, self._held = 0.0, HoldTimer()
        self._target = Rotation.identity()

    def update(self, error: float, lost: bool, now: float) -> bool:
        """Return whether an attempt has ended, given the norm of the success residual."""
        success, targets = self._task.file.success, self._task.file.targets
        reached = self._held.update(error < success.below, now, success.hold_s)
        if reached and self._trace.success_time is None:
            self._trace.success_time = now
        if targets is None:
            return False
        if not (reached or lost or now - self._start >= targets.attempt_s - ROUNDING_S):
            return False
        self._trace.attempts.append(Attempt(self._start, now, reached, lost))
        self._start, self._held = now, HoldTimer()
        if lost:
            self._target = Rotation.identity()  # the object is reset to its first orientation
        return True

    def sample_target(self) -> Array:
        """Draw the next target orientation: a quaternion (4,), wxyz."""
        targets = self._task.file.targets
        axis = self._rng.standard_normal(3)
        least, most = (targets.least_turn_rad, targets.turn_rad) if targets else (0.0, 0.0)
        angle = self._rng.uniform(least, most)
        self._target = Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)) * self._target
        return to_quaternion(self._target)
