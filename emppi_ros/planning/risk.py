"""
Measures of risk: one cost for a plan that has a different cost under each model.

Each function maps costs (M, K, H) and the belief p(theta_m), (M,) that sums to 1, to (K, H)::

    mean    E[S]
    cvar    E[S | S among the worst `level` of the belief's mass]
    worst   max S over the models with weight

Models without weight are ignored. If any model with weight diverges, every measure is infinite,
even the mean: a plan that may diverge is rejected, however unlikely that is.
"""

from collections.abc import Callable
import functools

import numpy as np
import numpy.typing as npt

from emppi_ros.core import weights
from emppi_ros.core.errors import AllDivergedError
from emppi_ros.tasks.planner_config import CVAR_LEVEL

Array = npt.NDArray[np.float64]
Measure = Callable[[Array, Array], Array]


def choose(name: str, level: float | None = None) -> Measure:
    """Return a measure by name; `level` applies to cvar."""
    if name == 'cvar':
        return functools.partial(cvar, level=CVAR_LEVEL if level is None else level)
    return {'mean': mean, 'worst': worst}[name]


def weigh(measure: Measure, temperature: float, cost_to_go: Array, log_belief: Array) -> Array:
    """
    Return the weights (M, K, H) of K plans shared by all models; they sum to 1 at each step.

    The weight of a plan is the softmax of its risk over K. It is divided among its M rollouts by
    belief, which does not change the update because these have the same noise.
    """
    belief = np.exp(weights.normalize(log_belief))
    risk = measure(cost_to_go, belief)  # (K, H)
    if not np.any(np.isfinite(risk[:, 0])):
        raise AllDivergedError(
            f'each of {len(risk)} plans diverged in a model with positive weight: no valid plan'
        )
    return belief[:, None, None] * weights.softmin(risk, temperature, axis=0)


def mean(costs: Array, belief: Array) -> Array:
    """Return the expected cost: (M, K, H), (M,) -> (K, H)."""
    some = belief > 0.0  # avoids zero times infinity
    return np.einsum('mkh,m->kh', costs[some], belief[some])


def worst(costs: Array, belief: Array) -> Array:
    """Return the cost in the worst model: (M, K, H), (M,) -> (K, H)."""
    return costs[belief > 0.0].max(axis=0)


def cvar(costs: Array, belief: Array, level: float) -> Array:
    """
    Return the conditional value at risk: (M, K, H), (M,) -> (K, H).

    This is the expectation over the worst models with a total probability of `level`; the model
    at the boundary contributes the remaining part of its weight.
    """
    some = belief > 0.0
    order = np.argsort(-costs[some], axis=0)  # the worst first, for each plan and step
    ranked = np.take_along_axis(costs[some], order, axis=0)
    mass = belief[some][order]
    worse = np.cumsum(mass, axis=0) - mass
    taken = np.clip(level - worse, 0.0, mass)
    share = taken / taken.sum(axis=0)
    return np.sum(share * np.where(share > 0.0, ranked, 0.0), axis=0)
