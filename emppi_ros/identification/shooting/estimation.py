r"""
Robust least squares over parameters and the starts of windows (multiple shooting, Bock 1983).

Each window is simulated from a start of its own, so that errors of the model and chaos cannot
accumulate for longer than a window. The errors of positions have Student's t-distribution, whose
scale is estimated by expectation-maximization (Lange, Little and Taylor 1989): outliers hardly
count. In each Gauss-Newton step the starts are eliminated:

    H = sum_w A_w' M_w A_w,   g = sum_w A_w' M_w r_w,   M_w = I - B_w (B_w' B_w)^-1 B_w'

with the weighted residuals r_w of a window, and their derivatives A_w by the parameters and B_w by
its start. A Levenberg-Marquardt step within the bounds solves the rest.

White noise gives the covariance H^-1 of the parameters, with the expected information of Student's
t: (nu + 1) / (nu + 3) times that of the weighted squares. Correlated errors of a model give
H^-1 S H^-1 (White 1982), where S is the covariance of the sum of the scores of windows, with
Bartlett weights for those that follow one another (Newey and West 1987), but at least H.
Displacements of inferred joints (`common/inferred_joints`) change the motions of all windows, and
the estimate by -H^-1 A' M times that change.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import mujoco
import numpy as np
import scipy.linalg
from scipy.optimize import lsq_linear

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.inferred_joints import displaced_models
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting.windows import (
    FREEDOM,
    STEP,
    Inputs,
    Windows,
    make_ensemble,
    perturb_starts,
    roll_out,
    score_covariance,
    simulate,
    student_weights,
)
from emppi_ros.recordings.motion import Motion

ITERATIONS = 60
_TOLERANCE = 1e-7  # relative decrease of the cost that ends the search
_DAMPING, _MOST_DAMPING = 1e-3, 1e12
_LESS, _MORE = 0.2, 5.0  # factors of the damping after a step that was good, or not
_FLOOR = 1e-9  # of the spread of a motion: the least scale of the errors
_RIDGE = 1e-12  # of the largest element: starts that a window does not determine stay
_EXPECTED = (FREEDOM + 1.0) / (FREEDOM + 3.0)


class ShootingEstimate(NamedTuple):
    """The estimate from windows of one length."""

    theta: Array  # (P,)
    starts: Array  # (W, 2 nv)
    scale: Array  # (nv,) of the errors of positions, as a standard deviation of white noise
    windows: Windows
    information: Array  # (P, P) H, in the scales of the parameters
    scores: Array  # (W, P) A_w' M_w r_w
    influence: Array  # (W, h, nv, P) derivatives of the scores by errors of positions
    converged: bool
    costs: tuple[float, ...]  # of each iteration


class Point(NamedTuple):
    """A point of the search, with the errors of positions and their derivatives."""

    theta: Array  # (P,)
    starts: Array  # (W, 2 nv)
    errors: Array  # (W, h, nv), 0 where nothing was measured
    by_parameter: Array  # (W, h, nv, P), in the scales of the parameters
    by_start: Array  # (W, h, nv, 2 nv)


class WindowSimulation:
    """Simulates the windows of a motion, with derivatives."""

    def __init__(self, plant: Plant, motion: Motion, windows: Windows, threads: int = 0) -> None:
        """Set up 1 + P + 2 nv models with W rollouts each."""
        self._plant, self._inputs, self._windows = plant, Inputs.of_motion(motion), windows
        models = 1 + len(plant.unknowns) + 2 * plant.model.nv
        self._ensemble = make_ensemble(plant, models, windows.count, threads)
        self.observed = windows.observed[:, 1:]  # (W, h, nv), without the starts

    def evaluate(self, theta: Array, starts: Array) -> Point | None:
        """Return the point of parameters (P,) and starts (W, 2 nv); None if a window diverges."""
        unknowns, nv = len(theta), self._plant.model.nv
        rows, changes = np.tile(theta, (self._ensemble.models, 1)), np.empty(unknowns)
        for i in range(unknowns):
            rows[1 + i], changes[i] = self._plant.perturbed(theta, i)
        self._ensemble.write(rows)
        begins = perturb_starts(starts[None], unknowns)[0]
        states, diverged = roll_out(self._ensemble, self._inputs, self._windows.steps, begins)
        if diverged.any():
            return None
        base = states[0, ..., :nv]
        slopes = np.moveaxis(states[1:, ..., :nv] - base, 0, -1)
        errors = np.where(self.observed, base - self._windows.measured[:, 1:], 0.0)
        by_parameter = slopes[..., :unknowns] / (changes / self._plant.scales)
        return Point(theta, starts, errors, by_parameter, slopes[..., unknowns:] / STEP)

    def improve(self, now: Point, scale: Array, damping: float) -> tuple[Point | None, float]:
        """Return a point with a lower cost, None if there is none, and the next damping."""
        cost, system = _cost(now.errors, self.observed, scale), _eliminate(now, scale)
        scales, bounds = self._plant.scales, self._plant.bounds
        while damping < _MOST_DAMPING:
            limits = [bound / scales - now.theta / scales for bound in bounds]
            step = _bounded_step(system, damping, *limits)
            theta = np.clip(now.theta + step * scales, *bounds)
            better = self.evaluate(theta, now.starts + system.follow(step))
            if better is not None and _cost(better.errors, self.observed, scale) < cost:
                return better, damping * _LESS
            damping *= _MORE
        return None, damping


def estimate(
    plant: Plant,
    motion: Motion,
    windows: Windows,
    theta: Array,
    starts: Array,
    threads: int = 0,
    iterations: int = ITERATIONS,
    progress: Callable[[float], None] = lambda _: None,
) -> ShootingEstimate:
    """
    Return the parameters and starts that explain the windows of a motion best.

    The search begins at parameters theta (P,), and at positions and velocities `starts`
    (W, 2 nv). `progress` gets the cost of each iteration. IdentificationError if the model
    diverges where the search starts.
    """
    simulation = WindowSimulation(plant, motion, windows, threads)
    observed = simulation.observed
    now = simulation.evaluate(theta, starts)
    if now is None:
        raise IdentificationError(
            'the model diverges where the search starts: check bounds and initial values'
        )
    floor = _FLOOR * np.maximum(np.ptp(motion.qpos, axis=0), 1e-3)
    lost = windows.count * 2 * plant.model.nv + len(theta)  # degrees of freedom
    spare = max(1.0 - lost / max(int(observed.sum()), 1), 0.1)
    counts = spare * np.maximum(observed.sum(axis=(0, 1)), 1)

    def maximize(errors: Array, weights: Array | float) -> Array:
        """Return the scale (nv,) after a step of expectation-maximization."""
        return np.maximum(np.sqrt((weights * errors**2).sum(axis=(0, 1)) / counts), floor)

    scale = maximize(now.errors, 1.0)
    damping, converged, costs = _DAMPING, False, list[float]()
    while len(costs) < iterations and not converged:
        scale = maximize(now.errors, student_weights(now.errors, scale))
        cost = _cost(now.errors, observed, scale)
        costs.append(cost)
        progress(cost)
        better, damping = simulation.improve(now, scale, damping)
        if better is None:
            converged = True  # no step improves it
            break
        gain = (cost - _cost(better.errors, observed, scale)) / max(abs(cost), 1e-300)
        now, damping, converged = better, max(damping, 1e-12), gain < _TOLERANCE
    scale = maximize(now.errors, student_weights(now.errors, scale))
    system = _eliminate(now, scale)
    return ShootingEstimate(
        now.theta, now.starts, scale, windows, system.information, system.scores,
        system.influence, converged, tuple(costs),
    )  # fmt: skip


def _cost(errors: Array, observed: Bools, scale: Array) -> float:
    """Return the mean negative log density of the errors, up to a constant."""
    each = 0.5 * (FREEDOM + 1.0) * np.log1p((errors / scale) ** 2 / FREEDOM) + np.log(scale)
    return float(each[observed].mean())


class _ReducedSystem(NamedTuple):
    """Normal equations of the parameters, with the starts eliminated."""

    information: Array  # (P, P)
    scores: Array  # (W, P)
    influence: Array  # (W, h, nv, P)
    by_residual: Array  # (W, 2 nv): steps of the starts with parameters as they are
    by_parameter: Array  # (W, 2 nv, P): steps of the starts for those of the parameters

    def follow(self, step: Array) -> Array:
        """Return the steps (W, 2 nv) of the starts that belong to one of the parameters."""
        return self.by_residual + self.by_parameter @ step


def _eliminate(point: Point, scale: Array) -> _ReducedSystem:
    """Return the normal equations at a point."""
    count = len(point.errors)
    root = np.sqrt(student_weights(point.errors, scale)) / scale
    root = np.where(point.errors != 0.0, root, 0.0)
    residuals = (root * point.errors).reshape(count, -1, 1)
    by_parameter, by_start = (
        (root[..., None] * slopes).reshape(count, residuals.shape[1], -1)
        for slopes in (point.by_parameter, point.by_start)
    )
    transposed = by_start.swapaxes(1, 2)
    gram = transposed @ by_start
    ridge = _RIDGE * np.abs(gram).max(axis=(1, 2), keepdims=True) + 1e-300
    gram = gram + ridge * np.eye(gram.shape[1])
    starts = -np.linalg.solve(gram, transposed @ np.concatenate([residuals, by_parameter], axis=2))
    along = residuals + by_start @ starts[..., :1]  # M r
    scores = (by_parameter.swapaxes(1, 2) @ along)[..., 0]
    across = by_parameter + by_start @ starts[..., 1:]  # M A
    information = np.einsum('wnp,wnq->pq', by_parameter, across)
    return _ReducedSystem(
        0.5 * (information + information.T),
        scores,
        root[..., None] * across.reshape(*root.shape, -1),
        starts[..., 0],
        starts[..., 1:],
    )


def _bounded_step(system: _ReducedSystem, damping: float, lower: Array, upper: Array) -> Array:
    """Return the damped step (P,) of the parameters between limits, all in their scales."""
    if not len(lower):  # only starts are estimated
        return lower
    gradient = system.scores.sum(axis=0)
    diagonal = np.diag(system.information)
    damped = system.information + np.diag(damping * diagonal + 1e-12 * (diagonal.max() + 1e-300))
    root = scipy.linalg.cholesky(damped)
    target = -scipy.linalg.solve_triangular(root, gradient, trans='T')
    return np.asarray(lsq_linear(root, target, (np.minimum(lower, -0.0), upper)).x)


def covariance(result: ShootingEstimate) -> Array:
    """Return the covariance (P, P) in the scales, with a prior variance of one."""
    information, scores = _EXPECTED * result.information, result.scores
    count, size = scores.shape
    sums = score_covariance(scores, result.windows.recordings)
    sums *= count / max(count - 1, 1)  # at the estimate, scores have a sum of zero
    bounded = information + np.eye(size)  # with the prior
    inverse = np.linalg.inv(bounded)
    sums = _at_least(sums + np.eye(size), bounded)
    sandwich: Array = inverse @ sums @ inverse
    return sandwich


def joint_covariance(
    plant: Plant, motion: Motion, result: ShootingEstimate, threads: int = 0
) -> Array:
    """
    Return the covariance (P, P), in the scales, that errors of inferred joints add.

    It is 0 if no place of a joint is uncertain. IdentificationError if the model diverges with a
    joint one standard deviation away.
    """
    size = len(result.theta)
    information, total = result.information + np.eye(size), np.zeros((size, size))

    def positions(model: mujoco.MjModel) -> Array:
        displaced, theta, starts = replace(plant, model=model), result.theta, result.starts
        states, diverged = simulate(
            displaced, theta[None], motion, result.windows.steps, starts[None], threads
        )
        if diverged.any():
            raise IdentificationError(
                'the model diverges with an inferred joint one standard deviation away: record a '
                'motion that shows the joints better'
            )
        return states[0, ..., : model.nv]

    for ahead, behind in displaced_models(plant.model, plant.parameters):
        change = 0.5 * (positions(ahead) - positions(behind))
        scores = np.einsum('whvp,whv->p', result.influence, change)
        step = np.linalg.solve(information, scores)
        total += np.outer(step, step)
    return total


def _at_least(matrix: Array, least: Array) -> Array:
    """Return a matrix (P, P) whose quadratic form is nowhere below that of another one."""
    ratios, vectors = scipy.linalg.eigh(0.5 * (matrix + matrix.T), least)
    basis = least @ vectors  # vectors' least vectors = 1
    return np.asarray(basis @ np.diag(np.maximum(ratios, 1.0)) @ basis.T)
