"""Which stage of its task a run is in, judged by what was measured."""

import mujoco

from emppi_ros.model.ensemble import State
from emppi_ros.session.hold_timer import Held
from emppi_ros.tasks.residuals import Residual, norm
from emppi_ros.tasks.stages import Stage
from emppi_ros.tasks.task import Task


class Staging:
    """Begins with a task's first stage; goes on, and back, as the stages' conditions say."""

    MEMORY = ('_index', '_held')

    def __init__(self, task: Task) -> None:
        """Begin."""
        self._task, self._data = task, mujoco.MjData(task.model)
        self._index, self._held = 0, Held()

    @property
    def stage(self) -> Stage:
        """The stage that it is in."""
        return self._task.stages[self._index]

    def tune(self, task: Task) -> None:
        """Go on, in the same stage, with a task that differs in numbers alone."""
        self._task = task

    def advance(self, state: State, stamp: float) -> Stage:
        """Return the stage that goes with a state (nq,) measured at `stamp`."""
        if len(self._task.stages) == 1:
            return self.stage
        self._data.qpos[:], self._data.qvel[:] = state
        mujoco.mj_forward(self._task.model, self._data)
        until, back_above = self.stage.settings.until, self.stage.settings.back_above
        if back_above is not None:
            before = self._task.stages[self._index - 1]
            if self._error(before.until) > back_above:
                self._index, self._held = self._index - 1, Held()
                return self.stage
        if until is not None:
            near = self._error(self.stage.until) < until.below
            if self._held.note(near, stamp, until.hold_s):
                self._index, self._held = self._index + 1, Held()
        return self.stage

    def _error(self, residual: Residual | None) -> float:
        if residual is None:
            return 0.0
        return norm(residual, self._data)
