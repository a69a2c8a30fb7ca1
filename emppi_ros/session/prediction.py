"""From one measurement to the next by each of M models, and where each goes on from."""

from collections.abc import Sequence
import math

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.belief import likelihood
from emppi_ros.belief.likelihood import Deviation, PoseResidual
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.session.planner import Commands
from emppi_ros.state import articulation
from emppi_ros.state.estimator import Observation
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
LONGEST_S = 0.5  # beyond such a gap in measurements, a prediction says nothing


class Prediction:
    """Predicts for a task; what it goes on from it is told each time."""

    def __init__(self, task: Task, models: int, threads: int) -> None:
        """Make the models."""
        self._task, self._config = task, task.belief
        self._ensemble = Ensemble(task.model, task.parameters, models, 1, threads)
        self._order = np.argsort(task.map.ctrl)

    def tune(self, task: Task) -> None:
        """Go on with a task that differs in numbers alone."""
        self._task, self._config = task, task.belief

    def write(self, theta: Array) -> None:
        """Give each model its parameters (M, P)."""
        self._ensemble.write(theta)

    def hold(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints in force: a stage's grasp."""
        self._ensemble.activate(equalities)

    def fit(self, moment: Observation) -> State:
        """Return the estimated state as each model sees it, (nq,) or (M, nq)."""
        return articulation.fit_state(self._task, self._ensemble, moment.estimated, moment.tracks)

    def predict(self, last: tuple[float, State], stamp: float, commands: Commands) -> State:
        """Return what each model predicts for `stamp`, (M, nq) and (M, nv)."""
        interval = stamp - last[0]
        count = math.ceil(interval / self._config.substep_s - 1e-6)
        times = last[0] + (np.arange(count) + 0.5) * interval / count
        return self._ensemble.predict(last[1], commands(times)[:, self._order], interval / count)

    def compare(self, predicted: State, moment: Observation) -> list[Deviation]:
        """Return how predictions differ from what was measured."""
        errors = []
        for name, item in self._task.jointed.items():
            joints = articulation.for_ensemble(self._ensemble, item)
            q = predicted.qpos[:, item.qpos]
            residuals = articulation.residuals(joints, q, moment.tracks[name])
            errors.append(PoseResidual(item.qvel, *residuals))
        return likelihood.deviations(
            self._config.likelihood, self._task.model, predicted, moment.measured, errors
        )

    def correct(
        self, predicted: State, moment: Observation, fitted: State, interval: float
    ) -> State:
        """
        Return where each model goes on from: joints as measured, its object near its own.

        A tracked pose errs by more than an object moves between two of them, so that starting
        from it would blame the tracker's noise on the physics. Each model keeps its object
        where its own physics brought it and moves it to the measured pose by `object_gain`
        (the steady state of a Kalman filter per model); a gain of 1 is the paper's.
        """
        count = len(predicted.qpos)
        qpos, qvel = (np.broadcast_to(x, (count, x.shape[-1])).copy() for x in fitted)
        gain = self._config.object_gain
        if gain == 1.0:
            return State(qpos, qvel)
        velocity_gain = gain**2 / (2.0 - gain) / interval  # Benedict and Bordner 1962
        innovation = -likelihood.residuals(self._task.model, predicted, moment.measured)
        for item in self._task.objects.values():
            place, motion = slice(item.qpos, item.qpos + 7), slice(item.qvel, item.qvel + 6)
            qvel[:, motion] = predicted.qvel[:, motion] + velocity_gain * innovation[:, motion]
            qpos[:, place] = predicted.qpos[:, place]
            step = np.zeros_like(qvel)
            step[:, motion] = gain * innovation[:, motion]
            for row, move in zip(qpos, step, strict=True):
                mujoco.mj_integratePos(self._task.model, row, move, 1.0)
        for hung in self._task.jointed.values():
            change = qpos[:, hung.qpos] - predicted.qpos[:, hung.qpos]
            qpos[:, hung.qpos] = predicted.qpos[:, hung.qpos] + gain * change
            qvel[:, hung.qvel] = predicted.qvel[:, hung.qvel] + velocity_gain * change
        diverged = ~(np.isfinite(qpos).all(axis=1) & np.isfinite(qvel).all(axis=1))
        qpos[diverged], qvel[diverged] = moment.estimated
        return State(qpos, qvel)
