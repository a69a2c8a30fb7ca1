"""
Least squares over windows, first independent and short, then longer, then continuous.

`mujoco.minimize.least_squares` searches for the parameters and the starts of windows. At first
windows are independent and an eighth of their length, so that chaotic motion does not mislead the
search; then they grow, and at last their continuity is a residual whose weight grows. If the model
explains the shortest windows, but longer or continuous ones not nearly as well, it lacks something
that acts slowly, and windows stay as they are. If a twentieth of the motion in the shortest
windows remains unexplained, the search was perhaps in a local minimum, and begins again from other
parameters within the limits.
"""

from collections.abc import Callable, Iterator
import contextlib
from dataclasses import replace
from typing import NamedTuple

import mujoco
from mujoco import minimize
import numpy as np
import scipy.linalg

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.inferred_joints import displaced_models
from emppi_ros.identification.multiple_shooting import initial_particles, target_density
from emppi_ros.identification.multiple_shooting.particles import MultipleShooting
from emppi_ros.identification.multiple_shooting.problem import LIMIT
from emppi_ros.identification.multiple_shooting.training_data import TrainingData

DIVISIONS = 8, 4, 2, 1  # of a window, in searches in which they are independent
CONTINUITY_WEIGHTS = 1e4, 1e10  # of the searches after these
RESTARTS = 7  # of the first search
ITERATIONS = 50  # of each search
MAX_ITERATIONS = (RESTARTS + len(DIVISIONS) + len(CONTINUITY_WEIGHTS)) * ITERATIONS
_STATE_BOUND = 1e3  # of start states, in units of their scale
_DIVERGED = 1e50  # a residual whose square is still finite
_SHORTEST = 12  # steps of a part of a window
_MOST_PARTS = 100  # the search is dense: long recordings are divided less
_WORSE = 2.0  # times the errors in the shortest windows: the model does not explain longer ones
_UNEXPLAINED = 0.05  # share of the motion within the shortest windows: a local minimum, perhaps
_EXPLAINED = 2.0  # times the noise: with larger errors in the shortest windows it explains none


class WindowEstimate(NamedTuple):
    """Coordinates of the estimate, and their covariance."""

    z: Array  # (D,) parameters and start states of windows, as of a particle of `csvgd`
    covariance: Array  # (D, D) with a unit prior variance of the parameters
    log_p: float
    defect: float  # RMS discontinuity between windows, in units of the scale of states
    windows: int
    worse: float | None  # factor on the errors of longer windows; None: they are continuous
    by_joints: Array  # (D, D) covariance that errors of inferred joints add

    def sd(self, parameters: int) -> Array:
        """Return the standard deviations (P,) of the parameters, relative to their prior."""
        return np.sqrt(np.diag(self.covariance + self.by_joints)[:parameters])

    def share_by_joints(self, parameters: int) -> Array:
        """Return the shares (P,) of standard deviations that errors of joints alone would have."""
        return np.sqrt(np.diag(self.by_joints)[:parameters]) / self.sd(parameters)

    def note(self, data: TrainingData) -> str:
        """Return a note for the user if the model does not explain continuous windows."""
        if self.worse is None:
            return ''
        length = len(data.problem.controls) * data.problem.model.opt.timestep / self.windows
        return (
            f'independent windows of {length:.3g} s: longer or continuous ones leave errors '
            f'{self.worse:.2g} times as large: the model does not explain longer motions'
        )


class ResidualFunction:
    """Residuals at a point and their derivatives, from one simulation."""

    def __init__(self, shooter: MultipleShooting, weight: float) -> None:
        self.shooter, self.weight = shooter, weight
        self.measured = np.isfinite(shooter.problem.noise)
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
        defects, normals = target_density.continuity(shooter, point[None], windows)
        root = np.sqrt(self.weight)
        self.defect = float(np.sqrt(np.mean(defects**2))) if defects.size else 0.0
        self._value = np.concatenate([errors.ravel(), root * defects[0]])
        self._jacobian = np.concatenate([full.reshape(-1, shooter.size), root * normals[0]])
        self.rows = errors.size  # of the value that are errors, zero where nothing was measured
        self.count = int(np.sum(np.broadcast_to(np.isfinite(noise), errors.shape)))


class _Search(NamedTuple):
    """A point that a search found."""

    residuals: ResidualFunction
    z: Array

    @property
    def squares(self) -> float:
        """The sum of squared errors, in units of the noise."""
        rows = self.residuals.value(self.z)[: self.residuals.rows, 0]
        return float(np.sum(rows**2))

    def rms(self, unknowns: int) -> float:
        """Return the errors per degree of freedom with so many unknowns."""
        return float(np.sqrt(self.squares / max(self.residuals.count - unknowns, 1)))

    @property
    def unexplained(self) -> float:
        """The errors relative to the motion within windows, as root mean squares."""
        shooter, measured = self.residuals.shooter, self.residuals.measured
        values = shooter.measurements
        noise = np.broadcast_to(shooter.noise, values.shape)[..., measured]
        values = values[..., measured]
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

    def search(shooter: MultipleShooting, z: Array, weight: float) -> _Search:
        nonlocal done
        result, costs = _minimize(shooter, z, weight, lambda n, cost: progress(done + n, cost))
        done += costs
        return result

    theta, kept, least = data.problem.coordinates(start), list[_Search](), 0.0
    length = len(data.problem.controls) // data.windows
    for division in DIVISIONS:
        if division > 1 and not _can_divide(data.windows, length, division):
            continue
        shooter = MultipleShooting(data.problem, 1, data.windows * division, threads)
        z = initial_particles.initial_particles(shooter)[0]
        z[: shooter.unknown] = theta
        if kept:
            z[shooter.unknown :] = _starts_within(kept[-1], shooter)
        now = search(shooter, z, 0.0)
        if not kept:
            now = _search_elsewhere(now, search)
        worse = now.rms(len(z)) / least if kept else 1.0
        if worse > _WORSE and least < _EXPLAINED:
            return _describe(kept[-1], worse)
        kept.append(now)
        least = least or max(now.rms(len(z)), np.finfo(float).tiny)
        theta = now.z[: shooter.unknown]
    for weight in CONTINUITY_WEIGHTS:
        now = search(shooter, now.z, weight)
    worse = now.rms(shooter.unknown + len(shooter.firsts) * shooter.states) / least
    if worse > _WORSE and least < _EXPLAINED:
        return _describe(kept[-1], worse)
    return _describe(now, None)


def refit(shooter: MultipleShooting, z: Array) -> Array:
    """Return the point (D,) that explains independent windows best, from a point near it."""
    return _minimize(shooter, z, 0.0, lambda *_: None)[0].z


def _search_elsewhere(
    first: _Search, search: Callable[[MultipleShooting, Array, float], _Search]
) -> _Search:
    """Return a search, or the best of others from elsewhere if it does not explain the motion."""
    shooter, best = first.residuals.shooter, first
    unknowns = len(first.z)
    if first.unexplained < _UNEXPLAINED:
        return first
    for parameters in initial_particles.sobol_parameters(shooter.problem, RESTARTS):
        if best.rms(unknowns) <= _EXPLAINED:
            break
        z = initial_particles.initial_particles(shooter)[0]
        z[: shooter.unknown] = parameters
        with contextlib.suppress(IdentificationError):  # the model diverges with these parameters
            best = min(best, search(shooter, z, 0.0), key=lambda search: search.rms(unknowns))
    return best


def _minimize(
    shooter: MultipleShooting, z: Array, weight: float, progress: Callable[[int, float], None]
) -> tuple[_Search, int]:
    """Return the point that a search finds, and the number of its iterations."""
    residuals = ResidualFunction(shooter, weight)
    bound = np.full(shooter.size, _STATE_BOUND)
    bound[: shooter.unknown] = LIMIT
    z, trace = minimize.least_squares(
        z,
        residuals.value,
        [-bound, bound],
        residuals.jacobian,
        max_iter=ITERATIONS,
        verbose=minimize.Verbosity.SILENT,
        iter_callback=lambda trace: progress(len(trace), float(trace[-1].objective)),
    )
    return _Search(residuals, z.ravel()), len(trace)


def _can_divide(windows: int, length: int, division: int) -> bool:
    """Return whether windows of `length` steps can be divided into so many parts."""
    parts = windows * division
    return length % division == 0 and length // division >= _SHORTEST and parts <= _MOST_PARTS


def _starts_within(before: _Search, shooter: MultipleShooting) -> Array:
    """Return the starts of windows that were found for shorter ones."""
    shorter = before.residuals.shooter
    starts = shorter.starts(before.z[None])[0]
    return starts[:: shorter.windows // shooter.windows].ravel()


def _describe(point: _Search, worse: float | None) -> WindowEstimate:
    """Return the estimate at a point; windows are continuous unless `worse` is given."""
    residuals, z = point
    shooter, squares = residuals.shooter, point.squares
    jacobian = residuals.jacobian(z, z)
    freedom = max(residuals.count - len(z), 1)
    rows, constraints = jacobian[: residuals.rows], jacobian[residuals.rows :]
    information = rows.T @ rows / (squares / freedom)
    parameters = np.arange(shooter.unknown)
    information[parameters, parameters] += 1.0  # of the uniform prior, as a variance
    # windows remain continuous in every direction of the covariance
    continuous = len(constraints) > 0 and worse is None
    basis = scipy.linalg.null_space(constraints) if continuous else np.eye(len(z))
    covariance = basis @ np.linalg.solve(basis.T @ information @ basis, basis.T)
    by_joints = np.zeros_like(covariance)
    for change in _changes_by_joints(point):
        step = np.zeros(len(z))
        if continuous:
            step -= np.linalg.pinv(constraints) @ change[residuals.rows :]
        slope = information @ step + rows.T @ change[: residuals.rows] / (squares / freedom)
        step -= covariance @ slope
        by_joints += np.outer(step, step)
    return WindowEstimate(
        z, covariance, -0.5 * squares, residuals.defect, shooter.windows, worse, by_joints
    )


def _changes_by_joints(point: _Search) -> Iterator[Array]:
    """Yield the changes (n,) of residuals with each displacement of an inferred joint."""
    shooter, weight = point.residuals.shooter, point.residuals.weight
    problem = shooter.problem

    def residuals(model: mujoco.MjModel) -> Array:
        other = MultipleShooting(replace(problem, model=model), 1, shooter.windows)
        return ResidualFunction(other, weight).value(point.z)[:, 0]

    for ahead, behind in displaced_models(problem.model, problem.parameters):
        yield 0.5 * (residuals(ahead) - residuals(behind))
