"""
What measurements tell of the state at the start of a recording.

A measured velocity has its noise. One that was not measured follows from a cubic polynomial
through the first positions, with the covariance of that fit.
"""

from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.multiple_shooting.problem import ShootingProblem

_FIT_S = 0.1  # of a recording: motions are smooth over this time
_FEWEST = 8  # samples
_DEGREE = 3


class StartDistribution(NamedTuple):
    """A normal distribution of start states."""

    mean: Array  # (nq + nv,)
    root: Array  # (nq + nv, nq + nv), R R' is the covariance


def find_starts(problem: ShootingProblem) -> list[StartDistribution]:
    """
    Return the distribution of the start of each recording; a known start has no spread.

    IdentificationError if a position is not measured.
    """
    nq, size = problem.model.nq, problem.references.shape[-1]
    if not problem.first_steps:
        return [StartDistribution(problem.start, np.zeros((size, size)))]
    position, velocity = np.split(problem.noise, [nq])
    if not np.isfinite(position).all():
        raise IdentificationError('positions of all joints must be measured')
    return [
        _fit(problem, start, problem.references[begin:, :nq], position, velocity)
        for start, begin in zip(problem.start, problem.first_steps, strict=True)
    ]


def _fit(
    problem: ShootingProblem, start: Array, later: Array, position: Array, velocity: Array
) -> StartDistribution:
    """Return the start of a recording with positions (T, nq) after it, and noise (nq,), (nv,)."""
    step_s, nq = problem.model.opt.timestep, problem.model.nq
    count = min(max(round(_FIT_S / step_s), _FEWEST), len(later))
    powers = (step_s * np.arange(count + 1))[:, None] ** np.arange(_DEGREE + 1)
    estimator = np.linalg.pinv(powers)[:2]  # position and velocity at time 0, (2, count + 1)
    spread = np.linalg.cholesky(estimator @ estimator.T)
    fit = estimator @ np.concatenate([start[None, :nq], later[:count]])  # (2, nq)
    mean, root = start.copy(), np.diag(np.where(np.isfinite(problem.noise), problem.noise, 0.0))
    for joint in np.flatnonzero(~np.isfinite(velocity)):
        rows = [joint, nq + joint]
        mean[rows] = fit[:, joint]
        root[np.ix_(rows, rows)] = position[joint] * spread
    return StartDistribution(mean, root)
