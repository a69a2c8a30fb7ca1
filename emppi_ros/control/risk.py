"""
Risk of a plan over models: what it costs, said in one number where each model says another.

Each function maps costs (M, K, H) and the belief p(theta_m), (M,) that sums to 1, to (K, H)::

    mean    E[S]
    cvar    E[S | S among the worst `level` of the belief's mass]
    worst   max S over the models with weight

A model of weight zero never counts. Where a model with weight diverged all of them are
infinite, the mean too: a plan that may blow up is not trusted, however unlikely that is.
"""

from collections.abc import Callable
import functools

import numpy as np
import numpy.typing as npt

from emppi_ros.core import weights
from emppi_ros.core.errors import AllDivergedError

Array = npt.NDArray[np.float64]
Measure = Callable[[Array, Array], Array]
MEASURES = ('mean', 'cvar', 'worst')
LEVEL = 0.25  # of cvar, where none is given


def choose(name: str, level: float | None = None) -> Measure:
    """Return a measure by its name; `level` is that of cvar."""
    if name == 'cvar':
        return functools.partial(cvar, level=LEVEL if level is None else level)
    return {'mean': mean, 'worst': worst}[name]


def weigh(measure: Measure, temperature: float, cost_to_go: Array, log_belief: Array) -> Array:
    """
    Return the weights (M, K, H) of K plans that all models share; each step sums to 1.

    They are a softmax over K of the risk. The weight of a plan is then spread over its M
    rollouts by belief, which changes no update, for these have the same noise.
    """
    belief = np.exp(weights.normalize(log_belief))
    risk = measure(cost_to_go, belief)  # (K, H)
    if not np.any(np.isfinite(risk[:, 0])):
        raise AllDivergedError(
            f'each of {len(risk)} plans diverged in a model that may be true: none can be trusted'
        )
    return belief[:, None, None] * weights.softmin(risk, temperature, axis=0)


def mean(costs: Array, belief: Array) -> Array:
    """Return the expected cost: (M, K, H), (M,) -> (K, H)."""
    some = belief > 0.0  # zero times infinity is no cost
    return np.einsum('mkh,m->kh', costs[some], belief[some])


def worst(costs: Array, belief: Array) -> Array:
    """Return the cost in the worst model: (M, K, H), (M,) -> (K, H)."""
    return costs[belief > 0.0].max(axis=0)


def cvar(costs: Array, belief: Array, level: float) -> Array:
    """
    Return the conditional value at risk: (M, K, H), (M,) -> (K, H).

    The expectation over the worst models that hold `level` of the belief between them; of
    the model at the boundary only the weight that is still missing counts.
    """
    some = belief > 0.0
    order = np.argsort(-costs[some], axis=0)  # the worst first, for each plan and step
    ranked = np.take_along_axis(costs[some], order, axis=0)
    mass = belief[some][order]
    worse = np.cumsum(mass, axis=0) - mass
    taken = np.clip(level - worse, 0.0, mass)
    share = taken / taken.sum(axis=0)
    return np.sum(share * np.where(share > 0.0, ranked, 0.0), axis=0)
