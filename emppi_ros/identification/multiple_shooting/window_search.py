"""
Least squares over windows, first independent and short, then longer, then continuous.

At first windows are an eighth of their length, so that chaotic motion does not mislead the search;
then they grow, and at last their continuity is a residual whose weight grows. If the model
explains longer or continuous windows not nearly as well as the shortest ones, windows stay as they
are. If part of the motion in the shortest windows remains unexplained, the search was perhaps in a
local minimum, and begins again from other parameters.
"""

from collections.abc import Callable, Sequence
import contextlib
from dataclasses import replace
from typing import Any, NamedTuple

import mujoco
from mujoco import minimize
import numpy as np
import scipy.linalg

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.inferred_joints import displaced_models
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    continuity,
    initial_particles,
    sobol_parameters,
)
from emppi_ros.identification.multiple_shooting.training_data import LIMIT, TrainingData

DIVISIONS = 8, 4, 2, 1  # of a window, in searches in which they are independent
CONTINUITY_WEIGHTS = 1e4, 1e10  # of the searches after these
RESTARTS = 7  # of the first search
ITERATIONS = 50  # of each search
MAX_ITERATIONS = (RESTARTS + len(DIVISIONS) + len(CONTINUITY_WEIGHTS)) * ITERATIONS
_PACE = 8  # iterations from which the rest of a search is foreseen
_STATE_BOUND = 1e3  # of start states, in units of their scale
_DIVERGED = 1e50  # a residual whose square is still finite
_SHORTEST = 12  # steps of a part of a window
_MOST_PARTS = 100  # the search is dense: long recordings are divided less
_WORSE = 2.0  # times the errors in the shortest windows: the model does not explain longer ones
_UNEXPLAINED = 0.05  # share of the motion within the shortest windows: a local minimum, perhaps
_EXPLAINED = 2.0  # times the noise: with larger errors in the shortest windows it explains none


class _HopelessSearchError(Exception):
    """A search that would not explain the motion if it went on at its pace."""


class WindowEstimate(NamedTuple):
    """Coordinates of the estimate, and the covariance of those of the P parameters."""

    z: Array  # (D,) parameters and start states of windows, as of a particle of `csvgd`
    covariance: Array  # (P, P) with a unit prior variance
    log_p: float
    defect: float  # RMS discontinuity between windows, in units of the scale of states
    windows: int
    worse: float | None  # factor on the errors of longer windows; None: they are continuous
    by_joints: Array  # (P, P) covariance that errors of inferred joints add

    @property
    def sd(self) -> Array:
        """The standard deviations (P,) of the parameters, relative to their prior."""
        return np.sqrt(np.diag(self.covariance + self.by_joints))

    def note(self, data: TrainingData) -> str:
        """Return a note for the user if the model does not explain continuous windows."""
        if self.worse is None:
            return ''
        times = (
            'that hardly shrink' if np.isinf(self.worse) else f'{self.worse:.2g} times as large'
        )
        length = len(data.problem.controls) * data.problem.model.opt.timestep / self.windows
        return (
            f'independent windows of {length:.3g} s: longer or continuous ones leave errors '
            f'{times}: the model does not explain longer motions'
        )


class ResidualFunction:
    """Residuals at a point and their derivatives, from one simulation."""

    def __init__(self, shooter: MultipleShooting, weight: float) -> None:
        """Give the continuity of windows a weight."""
        self.shooter, self.weight = shooter, weight
        self.simulated: Callable[[], None] = lambda: None  # called after each simulation
        self.measured = np.isfinite(shooter.problem.noise)
        self.z = np.empty(0)  # (D,) of the least squares, after `search`
        self._point: bytes = b''
        self._value = np.empty(0)

    def value(self, z: Array) -> Array:
        """Return residuals (n, k) at points (D, k), or (D,)."""
        columns = []
        for point in z.reshape(len(z), -1).T:
            self._update(point)
            columns.append(self._value)
        return np.stack(columns, axis=1)

    def jacobian(self, z: Array, _: Array) -> Array:
        """Return derivatives (n, D) at a point."""
        self._update(z.ravel())
        return self._jacobian

    def _update(self, point: Array) -> None:
        if point.tobytes() == self._point:
            return
        shooter, self._point = self.shooter, point.tobytes()
        windows = shooter.simulate(point[None])
        self.simulated()
        if windows.diverged.any():
            if not self._value.size:
                raise IdentificationError('the model diverges: limits or time step are too large')
            self._value = np.full_like(self._value, _DIVERGED)  # the search rejects this step
            return
        noise = shooter.noise[..., self.measured]
        errors = (windows.states[0] - shooter.measurements)[..., self.measured] / noise
        slopes = np.moveaxis(windows.slopes[0][..., self.measured] / noise, 0, -1)
        full = np.zeros((*errors.shape, shooter.size))
        full[..., : shooter.unknown] = slopes[..., : shooter.unknown]
        for window in range(shooter.first, shooter.windows):
            columns = shooter.start_slice(window)
            full[window, ..., columns] = slopes[window, ..., shooter.unknown :]
        defects, normals = continuity(shooter, point[None], windows)
        root = np.sqrt(self.weight)
        self.defect = float(np.sqrt(np.mean(defects**2))) if defects.size else 0.0
        self._value = np.concatenate([errors.ravel(), root * defects[0]])
        self._jacobian = np.concatenate([full.reshape(-1, shooter.size), root * normals[0]])
        self.rows = errors.size  # of the value that are errors, zero where nothing was measured
        self.count = int(np.sum(np.isfinite(noise)))

    def search(
        self, z: Array, progress: Callable[[int, float], None], most: float = np.inf
    ) -> int:
        """
        Search from a point (D,), and return the number of iterations.

        `progress` gets iterations and cost, also while steps are rejected. _HopelessSearchError if
        the cost would not fall below `most` by the last iteration at the pace of the last ones.
        """
        costs: list[float] = []

        def watch(trace: Sequence[Any]) -> None:
            costs[:] = [float(step.objective) for step in trace]
            progress(len(costs), costs[-1])
            if len(costs) > _PACE and costs[-1] > most:
                turns = (ITERATIONS - len(costs)) / _PACE
                if costs[-1] * (costs[-1] / costs[-1 - _PACE]) ** turns > most:
                    raise _HopelessSearchError

        self.simulated = lambda: progress(len(costs), costs[-1]) if costs else None
        bound = np.full(self.shooter.size, _STATE_BOUND)
        bound[: self.shooter.unknown] = LIMIT
        z, trace = minimize.least_squares(
            z,
            self.value,
            [-bound, bound],
            self.jacobian,
            max_iter=ITERATIONS,
            verbose=minimize.Verbosity.SILENT,
            iter_callback=watch,
        )
        self.z, self.simulated = z.ravel(), lambda: None
        return len(trace)

    @property
    def squares(self) -> float:
        """The least sum of squared errors, in units of the noise."""
        return float(np.sum(self.value(self.z)[: self.rows, 0] ** 2))

    def rms(self, unknowns: int) -> float:
        """Return the errors per degree of freedom with so many unknowns."""
        return float(np.sqrt(self.squares / max(self.count - unknowns, 1)))

    @property
    def unexplained(self) -> float:
        """The errors relative to the motion within windows, as root mean squares."""
        noise = self.shooter.noise[..., self.measured]
        values = self.shooter.measurements[..., self.measured]
        observed = np.isfinite(noise)
        count = np.maximum(np.sum(observed, axis=1, keepdims=True), 1)
        mean = np.sum(values, axis=1, keepdims=True, where=observed) / count
        motion = max(float(np.sum(((values - mean) / noise) ** 2)), np.finfo(float).tiny)
        return float(np.sqrt(self.squares / motion))


def estimate(
    data: TrainingData, start: Array, progress: Callable[[int, float], None], threads: int = 0
) -> WindowEstimate:
    """Return the estimate of a search from `start` (P,); `progress` gets iterations and cost."""
    done = 0

    def search(
        shooter: MultipleShooting, z: Array, weight: float = 0.0, most: float = np.inf
    ) -> ResidualFunction:
        nonlocal done
        result = ResidualFunction(shooter, weight)
        done += result.search(z, lambda n, cost: progress(done + n, cost), most)
        return result

    theta, kept, least = data.problem.coordinates(start), list[ResidualFunction](), 0.0
    length = len(data.problem.controls) // data.windows
    for division in DIVISIONS:
        parts = data.windows * division
        short = length % division or length // division < _SHORTEST or parts > _MOST_PARTS
        if division > 1 and short:
            continue
        shooter = MultipleShooting(data.problem, 1, parts, threads)
        z = initial_particles(shooter)[0]
        z[: shooter.unknown] = theta
        if kept:
            shorter = kept[-1].shooter
            starts = shorter.starts(kept[-1].z[None])[0]
            z[shooter.unknown :] = starts[:: shorter.windows // parts].ravel()
        now = search(shooter, z)
        if not kept:
            now = _search_elsewhere(now, search)
        worse = now.rms(len(z)) / least if kept else 1.0
        if worse > _WORSE and least < _EXPLAINED:
            return _describe(kept[-1], worse)
        kept.append(now)
        least = least or max(now.rms(len(z)), np.finfo(float).tiny)
        theta = now.z[: shooter.unknown]
    unknowns = shooter.unknown + len(shooter.firsts) * shooter.states
    most = 0.5 * (_WORSE * least) ** 2 * max(now.count - unknowns, 1)
    for weight in CONTINUITY_WEIGHTS:
        try:
            now = search(shooter, now.z, weight, most if least < _EXPLAINED else np.inf)
        except _HopelessSearchError:
            return _describe(kept[-1], np.inf)
    worse = now.rms(unknowns) / least
    if worse > _WORSE and least < _EXPLAINED:
        return _describe(kept[-1], worse)
    return _describe(now, None)


def _search_elsewhere(
    first: ResidualFunction, search: Callable[[MultipleShooting, Array], ResidualFunction]
) -> ResidualFunction:
    """Return a search, or the best of others from elsewhere if it does not explain the motion."""
    shooter, best, unknowns = first.shooter, first, len(first.z)
    if first.unexplained < _UNEXPLAINED:
        return first
    for parameters in sobol_parameters(shooter.problem, RESTARTS):
        if best.rms(unknowns) <= _EXPLAINED:
            break
        z = initial_particles(shooter)[0]
        z[: shooter.unknown] = parameters
        with contextlib.suppress(IdentificationError):  # the model diverges with these parameters
            best = min(best, search(shooter, z), key=lambda search: search.rms(unknowns))
    return best


def parameter_covariance(data: TrainingData, z: Array) -> Array:
    """
    Return the covariance (P, P) of the parameters about a point (D,), with a unit prior variance.

    Windows stay continuous if those of the problem are.
    """
    problem, unknown = data.problem, len(data.problem.parameters)
    residuals = ResidualFunction(MultipleShooting(problem, 1, data.windows, precise=True), 1.0)
    jacobian = residuals.jacobian(z, z)
    covariance, _ = _covariance(jacobian, residuals.rows, unknown, problem.continuous)
    return covariance[:unknown, :unknown]


def _covariance(
    jacobian: Array, rows: int, unknown: int, continuous: bool, variance: float = 1.0
) -> tuple[Array, Array]:
    """Return covariance and information (D, D) of residuals, of which `rows` are errors."""
    errors, constraints = jacobian[:rows], jacobian[rows:]
    information = errors.T @ errors / variance
    parameters = np.arange(unknown)
    information[parameters, parameters] += 1.0  # of the uniform prior, as a variance
    # windows remain continuous in every direction of the covariance
    joined = len(constraints) > 0 and continuous
    basis = scipy.linalg.null_space(constraints) if joined else np.eye(jacobian.shape[1])
    return basis @ np.linalg.solve(basis.T @ information @ basis, basis.T), information


def _describe(residuals: ResidualFunction, worse: float | None) -> WindowEstimate:
    """Return the estimate of a search; windows are continuous unless `worse` is given."""
    shooter, z, squares = residuals.shooter, residuals.z, residuals.squares
    problem = shooter.problem
    precise = MultipleShooting(problem, 1, shooter.windows, precise=True)
    jacobian = ResidualFunction(precise, residuals.weight).jacobian(z, z)
    freedom = max(residuals.count - len(z), 1)
    rows, constraints = jacobian[: residuals.rows], jacobian[residuals.rows :]
    parameters, continuous = np.arange(shooter.unknown), len(constraints) > 0 and worse is None
    covariance, information = _covariance(
        jacobian, residuals.rows, shooter.unknown, continuous, squares / freedom
    )
    by_joints = np.zeros_like(covariance)

    def residuals_with(model: mujoco.MjModel) -> Array:
        other = MultipleShooting(replace(problem, model=model), 1, shooter.windows)
        return ResidualFunction(other, residuals.weight).value(z)[:, 0]

    for ahead, behind in displaced_models(problem.model, problem.parameters):
        change = 0.5 * (residuals_with(ahead) - residuals_with(behind))
        step = np.zeros(len(z))
        if continuous:
            step -= np.linalg.pinv(constraints) @ change[residuals.rows :]
        slope = information @ step + rows.T @ change[: residuals.rows] / (squares / freedom)
        step -= covariance @ slope
        by_joints += np.outer(step, step)
    covariance, by_joints = (x[np.ix_(parameters, parameters)] for x in (covariance, by_joints))
    return WindowEstimate(
        z, covariance, -0.5 * squares, residuals.defect, shooter.windows, worse, by_joints
    )
