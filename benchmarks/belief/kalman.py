"""
A dual unscented Kalman filter of the parameters (Wan and van der Merwe, 2000), by FilterPy.

It compares the same predictions and measurements as the particle filter: each sigma point
predicts from the last measured state, objects partly from its own prediction. Parameters change
by a random walk whose variance is that of the jumps and the drift that the task expects.
"""

from collections.abc import Sequence

import numpy as np

from benchmarks.belief.estimators import GaussianEstimator
from emppi_ros.belief.measurement_model import LONGEST_S, Predictor
from emppi_ros.belief.particle_filter import FilterUpdate
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import import_optional
from emppi_ros.model.ensemble import State
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import Commands
from emppi_ros.tasks.task import Task

_JUMP_VARIANCE = 3.0  # of the prior's: half of the jumps redraw from it, half add four times it
_LEAST_VARIANCE = 1e-12  # of the prior's: rounding must not make the covariance singular


class KalmanEstimator(GaussianEstimator):
    """An unscented Kalman filter over unbounded parameters."""

    def __init__(self, task: Task, seed: int = 0) -> None:
        """Start from the prior; `seed` is unused."""
        super().__init__(task)
        kalman = import_optional(
            'filterpy.kalman',
            lambda error: f"{error.name} is not installed: pip install 'emppi_ros[bench]'",
        )
        size = len(self.uncertain)
        # kappa 0: all weights are positive, as of a cubature
        points = kalman.JulierSigmaPoints(size, kappa=0.0)
        self._filter = kalman.UnscentedKalmanFilter(
            size, 1, dt=1.0, hx=None, fx=lambda x, dt: x, points=points
        )
        self._filter.x, self._filter.P = self.mean.copy(), self.covariance.copy()
        self._predictor = Predictor(task, 2 * size + 1, task.planner.threads)
        self._last: tuple[float, State] | None = None

    def restart(self) -> None:
        """Start again from the next measurement; keep the belief."""
        self._last = None

    def activate(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints active."""
        self._predictor.activate(equalities)

    def observe(
        self, stamp: float, observation: Observation, commands: Commands
    ) -> FilterUpdate | None:
        """Update with measurements."""
        last, self._last = self._last, None
        elapsed = stamp - last[0] if last is not None else 0.0
        self._filter.Q = np.diag(elapsed * self._variance_rate())
        self._filter.predict()
        self._predictor.write(self.to_theta(self._filter.sigmas_f))
        fitted = self._predictor.fit(observation)
        self._last = (stamp, fitted)
        if last is None or not 0.0 < elapsed <= LONGEST_S:
            return None
        predicted = self._predictor.predict(last, stamp, commands)
        deviations = self._predictor.compare(predicted, observation)
        errors = np.concatenate([deviation.values for deviation in deviations], axis=1)
        if not np.isfinite(errors).all():
            return FilterUpdate(0.0, False, False)
        rows = iter(errors)
        self._filter.update(
            np.zeros(errors.shape[1]), R=np.eye(errors.shape[1]), hx=lambda _: next(rows)
        )
        least = np.diag(_LEAST_VARIANCE * self.spread**2)
        self._filter.P = 0.5 * (self._filter.P + self._filter.P.T) + least
        self.mean, self.covariance = self._filter.x.copy(), self._filter.P.copy()
        corrected = self._predictor.correct(predicted, observation, fitted, elapsed)
        self._last = (stamp, corrected)
        return FilterUpdate(float(len(errors)), False, False)

    def _variance_rate(self) -> Array:
        """Return the variance (U,) that the task's expected changes add per second."""
        changes = self.task.belief.changes
        if changes is None:
            return np.zeros(len(self.uncertain))
        names = [self.task.parameters[i].name for i in self.uncertain]
        changing = np.array([changes.of is None or name in changes.of for name in names])
        rate = _JUMP_VARIANCE * changes.rate_hz
        rate += 0.0 if changes.drift_s is None else 1.0 / changes.drift_s
        return np.where(changing, rate * self.spread**2, 0.0)
