"""What is measured and applied, in the order in which it arrives."""

import json

import numpy as np
import numpy.typing as npt

from emppi_ros.state.estimator import Estimator
from emppi_ros.state.time_series import Series
from emppi_ros.state.tracking import Pose
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]


class Measurements:
    """Joint states, tracked poses and applied commands of a task."""

    MEMORY = ('estimator', 'applied', 'tuned')

    def __init__(self, task: Task) -> None:
        """Wait for the first of each."""
        self.task = task
        self.tuned = ''  # what `tune` was told last
        self.estimator = Estimator(task)
        self.applied = Series('applied commands', reach_s=np.inf)

    def tune(self, text: str) -> None:
        """Go on with the task's YAML, as JSON, with other numbers; nothing is forgotten."""
        self.task, self.tuned = self.task.tuned(json.loads(text)), text

    def resume(self) -> None:
        """Go on from what is remembered, which was another's."""
        if self.tuned:
            self.tune(self.tuned)

    def joints(self, stamp: float, position: Array, velocity: Array) -> None:
        """Take a joint state, in the order of the robot's joints."""
        self.estimator.add_joints(stamp, position, velocity)

    def command(self, stamp: float, values: Array) -> None:
        """Take what was commanded, in the order of the robot's commanded joints."""
        self.applied.append(stamp, values)

    def pose(self, name: str, stamp: float, position: Array, quaternion: Array) -> None:
        """Take where an object was seen: (3,) m and (4,) wxyz."""
        self.estimator.add_pose(name, stamp, Pose(position, quaternion))

    def clear(self) -> None:
        """Forget all of it."""
        self.estimator.clear()
        self.applied.clear()
