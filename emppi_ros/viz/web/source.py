"""The interface between the web page and the robot that it shows and controls."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from emppi_ros.tasks.task import Task
from emppi_ros.tasks.tuning import Value
from emppi_ros.viz.shapes.task_shapes import DisplayState

Array = npt.NDArray[np.float64]


class Snapshot(NamedTuple):
    """The state of a robot under control at one time; nothing in it changes later."""

    task: Task  # with the current tuning
    run: int  # counts resets and task switches
    clock: float  # s
    qpos: Array  # (nq,)
    mocap_quat: Array  # (n, 4) of the scene's n mocap bodies, such as a target
    theta: Array | None  # (P,) true parameters; None if unknown
    display: DisplayState | None  # None until everything was measured once
    stage: str
    error: float  # norm of the success residual; NaN until it is known
    ess: float  # effective sample size before resampling
    latencies: Mapping[str, float]  # ms, by name
    state: str  # of the bridge
    armed: bool
    paused: bool
    notes: tuple[str, ...] = ()  # warnings


class RobotSource(Protocol):
    """A robot under control, simulated or real. Refused requests raise EmppiError."""

    name: str  # shown to operators
    latency_names: tuple[str, ...]  # keys of `Snapshot.latencies`
    reset_effect: str  # what `reset` does, completes "Resets ..."

    def snapshot(self) -> Snapshot | None:
        """Return the current state; None until there is one."""

    def set_watched(self, watched: bool) -> None:
        """Start or stop collecting what only the page needs."""

    def arm(self, armed: bool) -> None:
        """Follow plans; or brake and acknowledge a fault."""

    def pause(self, paused: bool) -> None:
        """Brake to rest but stay armed; or resume."""

    def reset(self) -> None:
        """Reset robot, objects and belief."""

    def tune(self, values: Mapping[str, Value]) -> None:
        """Change tunable parameters, by their names in the task's YAML."""

    def switch_task(self, task: str) -> None:
        """Switch to another task, by its name."""

    def close(self) -> None:
        """Release all resources."""
