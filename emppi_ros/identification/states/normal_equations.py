"""
Normal equations: banded in the states, dense in the parameters, solved by the Schur complement.

Only parameters have bounds. For given parameters the best states solve a linear system, so the
constrained problem of each iteration (appendix C) is a box QP of P variables.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import mujoco
import numpy as np
import scipy.linalg

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.states.residuals import Jacobian, Residuals


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
    diagonal = np.einsum('kri,krj->kij', jacobian.observed, jacobian.observed)
    gradient = np.einsum('kri,kr->ki', jacobian.observed, residuals.observed)
    mixed = np.zeros((n, nv, len(scales)))
    lower = {1: np.zeros((n, nv, nv)), 2: np.zeros((n, nv, nv))}
    for late, by_late in enumerate(jacobian.impulses):
        rows = slice(late, n - 2 + late)
        gradient[rows] += np.einsum('kri,kr->ki', by_late, residuals.impulses)
        mixed[rows] += np.einsum('kri,krp->kip', by_late, unknowns)
        diagonal[rows] += np.einsum('kri,krj->kij', by_late, by_late)
        for early in range(late):
            by_early = jacobian.impulses[early]
            columns = slice(early, n - 2 + early)
            lower[late - early][columns] += np.einsum('kri,krj->kij', by_late, by_early)
    return BandedNormalEquations(
        _bands(diagonal, lower[1], lower[2]),
        mixed.reshape(n * nv, -1),
        np.einsum('krp,krq->pq', unknowns, unknowns),
        gradient.ravel(),
        np.einsum('krp,kr->p', unknowns, residuals.impulses),
    )


def _bands(diagonal: Array, first: Array, second: Array) -> Array:
    """Return the lower bands of a block-tridiagonal matrix of blocks (n, nv, nv), by column."""
    n, nv, _ = diagonal.shape
    bands = np.zeros((3 * nv, n, nv))
    for distance, blocks in enumerate((diagonal, first, second)):
        for i, j in np.ndindex(nv, nv):
            offset = distance * nv + i - j
            if offset >= 0:
                bands[offset, :, j] = blocks[:, i, j]
    return bands.reshape(3 * nv, n * nv)


def factorize_states(normal: BandedNormalEquations, damping: float) -> Callable[[Array], Array]:
    """
    Return the solver of the states' block for right-hand sides (N nv, ...), with damping.

    IdentificationError if the data do not determine the states.
    """
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
    """
    Return the steps of states (N nv,) and of scaled parameters (P,), and the expected decrease.

    The step of the parameters is optimal between `lower` and `upper` (P,).
    """
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
