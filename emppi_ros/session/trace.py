"""What happened in a closed loop."""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.sim.simulated_robot import JointReading, PoseReading

Array = npt.NDArray[np.float64]


class Frame(NamedTuple):
    """The true state at one moment, for plots and videos."""

    time: float
    qpos: Array
    qvel: Array
    error: float


class Attempt(NamedTuple):
    """One of a row of targets."""

    began: float
    ended: float
    reached: bool
    lost: bool


@dataclass
class Trace:
    """What happened in a run."""

    truth: Array  # (P,)
    frames: list[Frame] = dataclasses.field(default_factory=list)
    beliefs: list[tuple[float, Belief]] = dataclasses.field(default_factory=list)
    plan_s: list[float] = dataclasses.field(default_factory=list)
    learn_s: list[float] = dataclasses.field(default_factory=list)
    ess: list[float] = dataclasses.field(default_factory=list)
    readings: list[JointReading] = dataclasses.field(default_factory=list)  # as the planner had
    poses: list[PoseReading] = dataclasses.field(default_factory=list)
    commands: list[tuple[float, Array]] = dataclasses.field(default_factory=list)  # applied from
    stages: list[tuple[float, str]] = dataclasses.field(default_factory=list)  # entered when
    attempts: list[Attempt] = dataclasses.field(default_factory=list)  # where targets follow
    diverged: int = 0  # rollouts
    degenerate: int = 0  # belief updates that no particle could explain
    success_time: float | None = None

    def forget(self, most: int) -> None:
        """Keep at least the last `most` of whatever is listed, and never twice as many."""
        for listed in vars(self).values():
            if isinstance(listed, list) and len(listed) > 2 * most:
                del listed[:-most]

    @property
    def success(self) -> bool:
        """Whether the task was done in time."""
        return self.success_time is not None
