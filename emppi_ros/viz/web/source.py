"""What the live page shows, and what it may ask for: one interface, whoever is behind it."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from emppi_ros.tasks.task import Task
from emppi_ros.tasks.tuning import Value
from emppi_ros.viz.shapes.layers import Seen

Array = npt.NDArray[np.float64]


class Snapshot(NamedTuple):
    """What is known at one moment. Nothing in it changes later."""

    task: Task  # with the numbers that it was tuned to
    run: int  # another one after a reset, and after another task
    clock: float  # s
    qpos: Array  # (nq,) of the task's scene
    turned: Array  # (n, 4) quaternions of the scene's n mocap bodies, such as a target
    theta: Array | None  # (P,) true parameters of the scene; None where nobody knows them
    seen: Seen | None  # None before all was measured once
    stage: str
    error: float  # length of the success residual; NaN before it is known
    ess: float  # effective sample size before resampling
    latencies: Mapping[str, float]  # ms, by what takes them
    state: str  # the bridge's, in a word
    armed: bool
    paused: bool
    notes: tuple[str, ...] = ()  # what is wrong, or slow, in words


class Source(Protocol):
    """A robot under control, simulated or not. Requests that are refused raise EmppiError."""

    name: str  # where all this is from, in words
    takes: tuple[str, ...]  # what `latencies` there are
    resets: str  # what `reset` does, in words

    def look(self) -> Snapshot | None:
        """Return what is known now; None before anything is."""

    def watch(self, watched: bool) -> None:
        """Gather what only pictures need, or no longer."""

    def arm(self, armed: bool) -> None:
        """Follow plans; or brake, and acknowledge a fault."""

    def pause(self, paused: bool) -> None:
        """Brake to rest and stay armed; or go on."""

    def reset(self) -> None:
        """Put all back to its start."""

    def tune(self, values: Mapping[str, Value]) -> None:
        """Go on with other numbers, by their names in the task's YAML."""

    def go_over(self, task: str) -> None:
        """Go over to another task, by its name."""

    def close(self) -> None:
        """End."""
