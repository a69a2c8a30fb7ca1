"""Measurements and applied commands in the order of arrival: the base of both sessions."""

import json

import numpy as np
import numpy.typing as npt

from emppi_ros.core.pose import Pose
from emppi_ros.journal.journal import Journaled, journaled
from emppi_ros.state.estimator import Estimator
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]


class Measurements(Journaled):
    """Joint states, tracked poses and applied commands of a task."""

    MEMORY: tuple[str, ...] = ('estimator', 'applied', 'tuned')

    def __init__(self, task: Task) -> None:
        """Start without data."""
        self.task = task
        self.tuned = ''  # last argument of `tune`
        self.estimator = Estimator(task)
        self.applied = TimeSeries('applied commands', reach_s=np.inf)

    @journaled('tune')
    def tune(self, text: str) -> None:
        """Change tunable parameters; `text` is the task's YAML as JSON. Keep all data."""
        self.task, self.tuned = self.task.tuned(json.loads(text)), text

    def resume(self) -> None:
        """Apply the tuned parameters of a restored snapshot."""
        if self.tuned:
            self.tune(self.tuned)

    @journaled('joints')
    def add_joints(self, stamp: float, position: Array, velocity: Array) -> None:
        """Add a joint state, in the order of the robot's joints."""
        self.estimator.add_joints(stamp, position, velocity)

    @journaled('command')
    def add_command(self, stamp: float, values: Array) -> None:
        """Add an applied command, in the order of the robot's commanded joints."""
        self.applied.append(stamp, values)

    @journaled('pose')
    def add_pose(self, name: str, stamp: float, position: Array, quaternion: Array) -> None:
        """Add a tracked pose: position (3,) [m] and quaternion wxyz (4,)."""
        self.estimator.add_pose(name, stamp, Pose(position, quaternion))

    @journaled('clear')
    def clear(self) -> None:
        """Discard all data."""
        self.estimator.clear()
        self.applied.clear()
