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

from emppi_ros.core.arrays import Array

Measure = Callable[[Array, Array], Array]
CVAR_LEVEL = 0.25  # default probability mass of the worst models


def mean(costs: Array, belief: Array) -> Array:
    """Return the expected cost: (M, K, H), (M,) -> (K, H)."""
    some = belief > 0.0  # avoids zero times infinity
    return np.einsum('mkh,m->kh', costs[some], belief[some])


def worst(costs: Array, belief: Array) -> Array:
    """Return the cost in the worst model: (M, K, H), (M,) -> (K, H)."""
    return costs[belief > 0.0].max(axis=0)


def cvar(costs: Array, belief: Array, level: float = CVAR_LEVEL) -> Array:
    """Return the mean of the worst models of total weight `level`: (M, K, H), (M,) -> (K, H)."""
    some = belief > 0.0
    order = np.argsort(-costs[some], axis=0)  # the worst first, for each plan and step
    ranked = np.take_along_axis(costs[some], order, axis=0)
    mass = belief[some][order]
    worse = np.cumsum(mass, axis=0) - mass
    taken = np.clip(level - worse, 0.0, mass)
    share = taken / taken.sum(axis=0)
    return np.sum(share * np.where(share > 0.0, ranked, 0.0), axis=0)


MEASURES: dict[str, Measure] = {'mean': mean, 'cvar': cvar, 'worst': worst}


def choose(name: str, level: float | None = None) -> Measure:
    """Return a measure by name; `level` applies to cvar."""
    return MEASURES[name] if level is None else functools.partial(cvar, level=level)
