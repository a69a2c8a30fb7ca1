"""The current stage of a task, from measured states and the conditions of the stages."""

import mujoco

from emppi_ros.model.ensemble import State
from emppi_ros.tasks.hold_timer import HoldTimer
from emppi_ros.tasks.residuals import Residual, norm
from emppi_ros.tasks.stages import Stage
from emppi_ros.tasks.task import Task


class StageTracker:
    """Starts in the first stage; enters the next or previous one by their conditions."""

    MEMORY = ('_index', '_held')

    def __init__(self, task: Task) -> None:
        """Start in the first stage."""
        self._task, self._data = task, mujoco.MjData(task.model)
        self._index, self._held = 0, HoldTimer()

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self._task.stages[self._index]

    def tune(self, task: Task) -> None:
        """Use the tuned parameters of the same task; stay in the stage."""
        self._task = task

    def advance(self, state: State, stamp: float) -> Stage:
        """Return the stage after a state, measured at `stamp` [s]."""
        if len(self._task.stages) == 1:
            return self.stage
        self._data.qpos[:], self._data.qvel[:] = state
        mujoco.mj_forward(self._task.model, self._data)
        until, back_above = self.stage.settings.until, self.stage.settings.back_above
        if back_above is not None:
            before = self._task.stages[self._index - 1]
            if self._error(before.until) > back_above:
                self._index, self._held = self._index - 1, HoldTimer()
                return self.stage
        if until is not None:
            near = self._error(self.stage.until) < until.below
            if self._held.update(near, stamp, until.hold_s):
                self._index, self._held = self._index + 1, HoldTimer()
        return self.stage

    def _error(self, residual: Residual | None) -> float:
        if residual is None:
            return 0.0
        return norm(residual, self._data)
