"""
A sliding window of least squares by `mujoco.minimize`, with a Gauss-Newton covariance.

The residuals are the prediction errors from each measurement of the last 2 s to the next, in units
of their standard deviation, and the deviation from the prior in units of its own. The covariance
is (J' J)^-1, times the mean squared residual if that exceeds 1.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from mujoco import minimize
import numpy as np

from benchmarks.belief.estimators import GaussianEstimator
from emppi_ros.belief.measurement_model import LONGEST_S, Predictor
from emppi_ros.belief.particle_filter import FilterUpdate
from emppi_ros.core.arrays import Array
from emppi_ros.state.estimator import Observation
from emppi_ros.state.time_series import Commands, TimeSeries
from emppi_ros.tasks.task import Task

WINDOW_S = 2.0
EVERY_S = 0.5  # between two solutions
_ITERATIONS = 3  # from the last solution
_STEP = 0.02  # of differences, in sd of the prior: contacts change the model in smaller ones
_WORST = 1e3  # residual of a prediction that diverged
_REACH = 6.0  # bounds, in sd of the prior
_CELL_S = 1e-3  # to which past commands are sampled
_LATEST_S = 0.25  # delay of commands up to which past ones are kept


class Step(NamedTuple):
    """Two successive measurements, and the commands between them."""

    begin: float
    end: float
    before: Observation
    after: Observation
    commands: Commands
    equalities: tuple[int, ...]


class WindowEstimator(GaussianEstimator):
    """Least squares over the last WINDOW_S seconds, solved every EVERY_S."""

    def __init__(self, task: Task, seed: int = 0) -> None:
        """Start from the prior; `seed` is unused."""
        super().__init__(task)
        self._single = Predictor(task, 1, 1)
        self._varied = Predictor(task, max(1, len(self.uncertain)), task.planner.threads)
        self._steps: deque[Step] = deque()
        self._last: tuple[float, Observation] | None = None
        self._equalities: tuple[int, ...] = ()
        self._solved_at = -np.inf

    def restart(self) -> None:
        """Start again from the next measurement; keep the belief."""
        self._last = None

    def activate(self, equalities: Sequence[int]) -> None:
        """Predict with these equality constraints active from now on."""
        self._equalities = tuple(equalities)

    def observe(
        self, stamp: float, observation: Observation, commands: Commands
    ) -> FilterUpdate | None:
        """Add measurements to the window, and solve when it is time."""
        last, self._last = self._last, (stamp, observation)
        if last is None or not 0.0 < stamp - last[0] <= LONGEST_S:
            return None
        kept = _copy(commands, last[0] - _LATEST_S, stamp)
        self._steps.append(Step(last[0], stamp, last[1], observation, kept, self._equalities))
        while self._steps[0].end <= stamp - WINDOW_S:
            self._steps.popleft()
        if stamp - self._solved_at >= EVERY_S - 1e-9 and len(self.uncertain):
            self._solved_at = stamp
            self._solve()
        return FilterUpdate(1.0, False, False)

    def _solve(self) -> None:
        """Solve the least squares problem from the last solution."""
        center = self.task.prior.center[self.uncertain]
        root = np.linalg.inv(np.linalg.cholesky(self.prior_covariance))

        def residual(x: Array) -> Array:
            """Return residuals (n, k) of unbounded coordinates (U, k) in sd of the prior."""
            columns = [self._errors(self._single, self._z(point[None])) for point in x.T]
            prior = root @ (x * self.spread[:, None])
            return np.concatenate([np.concatenate(columns).T, prior])

        def jacobian(x: Array, r: Array) -> Array:
            """Return the derivatives (n, U) of residuals (n, 1)."""
            # towards the prior's mean: models far away diverge more easily
            sides = np.where(x[:, 0] > 0.0, -_STEP, _STEP)
            varied = x[:, 0] + np.diag(sides)
            moved = self._errors(self._varied, self._z(varied)).T
            slope = (moved - r[: len(moved)]) / sides
            return np.concatenate([slope, root * self.spread])

        reach = np.full(len(self.uncertain), _REACH)
        start = (self.mean - center) / self.spread
        x, _ = minimize.least_squares(
            start,
            residual,
            bounds=[-reach, reach],
            jacobian=jacobian,
            max_iter=_ITERATIONS,
            xtol=1e-3,
            verbose=minimize.Verbosity.SILENT,
        )
        x = x.reshape(-1, 1)
        r = residual(x)
        j = jacobian(x, r)
        data = r[: len(r) - len(x), 0]
        scale = max(1.0, float(data @ data) / max(1, len(data) - len(x)))
        precision = j[: -len(x)].T @ j[: -len(x)] / scale + j[-len(x) :].T @ j[-len(x) :]
        self.mean = center + self.spread * x[:, 0]
        self.covariance = np.outer(self.spread, self.spread) * np.linalg.inv(precision)

    def _z(self, x: Array) -> Array:
        """Return unbounded coordinates (k, U) of x (k, U) in sd of the prior about its mean."""
        return self.task.prior.center[self.uncertain] + self.spread * x

    def _errors(self, predictor: Predictor, z: Array) -> Array:
        """Return the errors (k, n) of all steps with each of the models."""
        predictor.write(self.to_theta(z))
        columns = []
        for step in self._steps:
            predictor.activate(step.equalities)
            start = (step.begin, predictor.fit(step.before))
            predicted = predictor.predict(start, step.end, step.commands)
            columns += [deviation.values for deviation in predictor.compare(predicted, step.after)]
        errors = np.concatenate(columns, axis=1)
        return np.where(np.isfinite(errors), np.clip(errors, -_WORST, _WORST), _WORST)


def _copy(commands: Commands, begin: float, end: float) -> Commands:
    """Return the commands from `begin` to `end` [s], for later: a time series forgets."""
    times = np.arange(begin, end + _CELL_S, _CELL_S)
    rows = commands(times)
    kept = TimeSeries('commands', span_s=np.inf, reach_s=np.inf)
    last = None
    for time, row in zip(times.tolist(), rows, strict=True):
        if last is None or not np.array_equal(row, last):
            kept.append(time, row)
            last = row
    return kept
