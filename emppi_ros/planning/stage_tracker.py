"""The current stage of a task, from measured states and the conditions of the stages."""

from collections.abc import Mapping

import mujoco

from emppi_ros.model.ensemble import State
from emppi_ros.priors.particles import Belief
from emppi_ros.state.estimated_scene import EstimatedScene
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.cost import Stage
from emppi_ros.tasks.hold_timer import HoldTimer
from emppi_ros.tasks.residuals import Residual, norm
from emppi_ros.tasks.task import Task


class StageTracker:
    """Starts in the first stage; enters the next or previous one by their conditions."""

    MEMORY = ('_index', '_held')

    def __init__(self, task: Task) -> None:
        """Start in the first stage."""
        self._task, self._scene = task, EstimatedScene(task)
        self._index, self._held = 0, HoldTimer()

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self._task.stages[self._index]

    def tune(self, task: Task) -> None:
        """Use the tuned parameters of the same task; stay in the stage."""
        self._task = task

    def advance(
        self,
        state: State,
        stamp: float,
        tracks: Mapping[str, Track] | None = None,
        belief: Belief | None = None,
    ) -> Stage:
        """Return the stage after a state, measured at `stamp` [s], with a belief about joints."""
        if len(self._task.stages) == 1:
            return self.stage
        data = self._scene.update(state, tracks or {}, belief)
        until, back_above = self.stage.settings.until, self.stage.settings.back_above
        if back_above is not None:
            before = self._task.stages[self._index - 1]
            if _error(before.until, data) > back_above:
                self._index, self._held = self._index - 1, HoldTimer()
                return self.stage
        if until is not None:
            near = _error(self.stage.until, data) < until.below
            if self._held.update(near, stamp, until.hold_s):
                self._index, self._held = self._index + 1, HoldTimer()
        return self.stage


def _error(residual: Residual | None, data: mujoco.MjData) -> float:
    return 0.0 if residual is None else norm(residual, data)
