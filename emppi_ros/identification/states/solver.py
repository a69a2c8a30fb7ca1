"""
Levenberg-Marquardt on the manifold of states, with a box for parameters (Algorithm 1).

Normal equations are banded in the states and dense in the parameters. Only parameters have bounds.
For given parameters the best states solve a linear system, so the constrained problem of each
iteration (appendix C), the Schur complement, is a box QP of P variables.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import mujoco
import numpy as np
import scipy.linalg

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states.residuals import Jacobian, Residuals, evaluate, linearize
from emppi_ros.recordings.motion import Motion, displace

ProgressCallback = Callable[['Iterate'], None]
_MIN_DAMPING, _MAX_DAMPING = 1e-3, 1e12
_ROUNDING = 1e-12  # squared residual of rounding, and of errors of derivatives


@dataclass(frozen=True)
class SolverConfig:
    """Settings of the solver; only the state error weight needs tuning."""

    state_weight: float = 1e5  # of squared impulses against squared observations
    iterations: int = 30
    cost_tolerance: float = 1e-5  # relative decrease at which it stops
    step_tolerance: float = 1e-4  # change, in scales, at which it stops


class Iterate(NamedTuple):
    """The states and parameters after some iterations."""

    theta: Array  # (P,)
    qpos: Array  # (N, nq)
    residuals: Residuals
    iterations: int
    damping: float
    converged: bool

    @property
    def mean_cost(self) -> float:
        """The cost over the number of time steps, as in Table 3."""
        return self.residuals.cost / len(self.qpos)


def solve(
    plant: Plant,
    motion: Motion,
    config: SolverConfig,
    qpos: Array | None = None,
    theta: Array | None = None,
    progress: ProgressCallback = lambda _: None,
) -> Iterate:
    """
    Return the states and parameters of least squares for an observed motion.

    Damping is proportional to the mean square residual, so that it vanishes with the residuals
    (Fan and Yuan 2005). It is at least a thousandth of that: along directions that the data do
    not determine to about thirty scales, parameters stay where the search started.

    The search starts from the observations and the parameters of the plant, or from `qpos` (N, nq)
    and `theta` (P,). IdentificationError if a residual is not finite, or states are undetermined.
    """
    start = motion.qpos if qpos is None else qpos
    guess = plant.initial if theta is None else theta
    if not motion.weights.any():
        raise IdentificationError('nothing was observed: record positions of the joints')
    residuals = evaluate(plant, motion, config.state_weight, guess, start)
    if not np.isfinite(residuals.cost):
        raise IdentificationError('the motion needs forces that are not finite: check its units')
    current = Iterate(guess, start, residuals, 0, 1.0, False)
    while current.iterations < config.iterations and not current.converged:
        current = _iterate(plant, motion, config, current)
        progress(current)
    return current


def _iterate(plant: Plant, motion: Motion, config: SolverConfig, current: Iterate) -> Iterate:
    """Return the next iterate: one linearisation, and the first damping that lowers the cost."""
    jacobian = linearize(plant, motion, config.state_weight, current.theta, current.qpos)
    normal = assemble(jacobian, current.residuals, plant.scales)
    box = [(bound - current.theta) / plant.scales for bound in plant.bounds]
    count = np.count_nonzero(motion.observed)  # as many as impulses, except for two steps
    level = max(current.residuals.cost / count, _ROUNDING)
    damping, largest = current.damping, 0.0
    while damping < _MAX_DAMPING:
        states, step, expected = solve_step(normal, damping * level, *box)
        largest = max(largest, expected)  # a small gain after a failed step does not count
        theta = np.clip(current.theta + step * plant.scales, *plant.bounds)
        qpos = displace(plant.model, current.qpos, states.reshape(motion.weights.shape))
        trial = evaluate(plant, motion, config.state_weight, theta, qpos)
        gain = current.residuals.cost - trial.cost
        if np.isfinite(trial.cost) and gain >= 0.0:
            change = float(np.max(np.abs(step), initial=0.0))
            small = max(gain, largest) <= config.cost_tolerance * current.residuals.cost
            still = len(step) > 0 and change <= config.step_tolerance
            converged = small or (still and damping == current.damping)
            next_damping = max(damping / 10.0, _MIN_DAMPING)
            return Iterate(theta, qpos, trial, current.iterations + 1, next_damping, converged)
        if expected <= config.cost_tolerance * current.residuals.cost:
            break  # only rounding is left
        damping *= 10.0
    return current._replace(iterations=current.iterations + 1, converged=True)


class BandedNormalEquations(NamedTuple):
    """The blocks of J'J and J'r of a linearised problem."""

    states: Array  # (3 nv, N nv), lower bands
    mixed: Array  # (N nv, P)
    unknowns: Array  # (P, P)
    state_gradient: Array  # (N nv,)
    gradient: Array  # (P,)


def assemble(jacobian: Jacobian, residuals: Residuals, scales: Array) -> BandedNormalEquations:
    """Return the normal equations for parameters in units of their scales (P,)."""
    n, nv = residuals.observed.shape
    unknowns = jacobian.unknowns * scales
    gradient = np.einsum('kri,kr->ki', jacobian.observed, residuals.observed)
    mixed = np.zeros((n, nv, len(scales)))
    blocks = np.zeros((3, n, nv, nv))  # on the diagonal, and one and two below it
    blocks[0] = np.einsum('kri,krj->kij', jacobian.observed, jacobian.observed)
    for late, by_late in enumerate(jacobian.impulses):
        rows = slice(late, n - 2 + late)
        gradient[rows] += np.einsum('kri,kr->ki', by_late, residuals.impulses)
        mixed[rows] += np.einsum('kri,krp->kip', by_late, unknowns)
        for early, by_early in enumerate(jacobian.impulses[: late + 1]):
            columns = slice(early, n - 2 + early)
            blocks[late - early, columns] += np.einsum('kri,krj->kij', by_late, by_early)
    bands = np.zeros((3 * nv, n, nv))
    for distance, i, j in np.ndindex(3, nv, nv):
        if (offset := distance * nv + i - j) >= 0:
            bands[offset, :, j] = blocks[distance, :, i, j]
    return BandedNormalEquations(
        bands.reshape(3 * nv, n * nv),
        mixed.reshape(n * nv, -1),
        np.einsum('krp,krq->pq', unknowns, unknowns),
        gradient.ravel(),
        np.einsum('krp,kr->p', unknowns, residuals.impulses),
    )


def factorize_states(normal: BandedNormalEquations, damping: float) -> Callable[[Array], Array]:
    """Return the solver of the states' block (N nv, ...); IdentificationError if undetermined."""
    bands = normal.states.copy()
    bands[0] += damping
    try:
        factor = scipy.linalg.cholesky_banded(bands, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise IdentificationError(
            'states: observations and dynamics do not determine them: observe more joints'
        ) from None
    return partial(scipy.linalg.cho_solve_banded, (factor, True), check_finite=False)


def solve_step(
    normal: BandedNormalEquations, damping: float, lower: Array, upper: Array
) -> tuple[Array, Array, float]:
    """Return steps of states (N nv,) and bounded parameters (P,), and the expected decrease."""
    solve = factorize_states(normal, damping)
    free, bound = solve(normal.state_gradient), solve(normal.mixed)
    schur = normal.unknowns - normal.mixed.T @ bound + damping * np.eye(len(lower))
    slope = normal.gradient - normal.mixed.T @ free
    pull = solve_box_qp(0.5 * (schur + schur.T), slope, lower, upper)
    free = free + bound @ pull
    expected = -float(pull @ normal.gradient - free @ normal.state_gradient)
    return -free, pull, expected


def solve_box_qp(hessian: Array, slope: Array, lower: Array, upper: Array) -> Array:
    """Return the minimiser (P,) of x'Hx / 2 + x'g between lower and upper (P,)."""
    count = len(slope)
    result = np.zeros(count)
    work = np.zeros((count, count + 7))
    limit = np.finfo(np.float64).max ** 0.25  # MuJoCo's solver takes no infinity
    box = np.clip(lower, -limit, limit), np.clip(upper, -limit, limit)
    rank = mujoco.mju_boxQP(result, work, None, np.ascontiguousarray(hessian), slope, *box)
    if rank < 0:
        raise IdentificationError(
            'parameters: the linearised problem has no solution within the bounds'
        )
    return result
