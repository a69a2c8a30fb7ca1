r"""
One update of a plan: sample, roll out, weigh, average (Abraham et al. 2020, Algorithm 1).

For M models with belief p(theta_m), K rollouts each and H steps::

    v = u + du,  du ~ N(0, Sigma)                             lines 8 and 12
    S_t = sum_{j=t}^{H-1} l(x_j) + lambda (u_j - r)' Sigma^-1 du_j + m(x_H)   line 16
    w_t = exp(-(S_t - beta) / lambda) p(theta) / normalizer                eq. 9
    u_t <- u_t + sum_mk w_t du_t                              line 17

The reference r, zero in the paper, is the control that does nothing. The strategy of the task
(`strategies/`) draws du and computes w_t; this is what the strategy `emppi` does.

With a measure of risk over models (`strategies/risk.py`), and with other strategies, all models
share the same K rows of noise, and a row has one cost: its risk. They share it, too, if
information (`information.py`) reduces the running cost.

>>> updated, info = plan(config, problem, evaluate, rng)
"""

from collections.abc import Callable
import functools
from typing import NamedTuple

import numpy as np
import scipy

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import AllDivergedError
from emppi_ros.robots.robot import ControlLimits
from emppi_ros.strategies import risk
from emppi_ros.strategies.strategy import STRATEGIES
from emppi_ros.tasks.cost import Costs
from emppi_ros.tasks.planner_config import NoiseAdaptation, PlannerConfig


class PlanProblem(NamedTuple):
    """A plan to improve, and what holds when it starts."""

    nominal: Array  #: (H, nu) plan to improve: the last one, shifted
    applied: Array  #: (nu,) control in force when the plan starts
    limits: ControlLimits  #: bounds of controls; clipping changes the noise du
    log_belief: Array  #: (M,) log weight of each model, in any normalization
    #: (nu,) mean r of the uncontrolled distribution p, the control that does nothing: zero for
    #: velocities and efforts, the held position for positions
    reference: Array | float = 0.0
    #: (H, nu) variance of the noise, if it adapts: that of the last update, shifted as the plan
    #: is; None: the configured one
    variance: Array | None = None


class PlanInfo(NamedTuple):
    """Candidates, costs and weights of an update, for diagnostics and display."""

    controls: Array  #: (M, K, H, nu) candidates, the same for all models where plans are compared
    costs: Array  #: (M, K) total cost of each rollout, +inf if it diverged
    #: (M, K, H) weights, with sum 1 at each step; where plans are compared, spread over models by
    #: the belief
    weights: Array
    diverged: int  #: number of diverged rollouts
    #: (H, nu) variance of the noise of the next update; None if it does not adapt
    variance: Array | None = None


def plan(
    config: PlannerConfig,
    problem: PlanProblem,
    evaluate: Callable[[Array], Costs],
    rng: np.random.Generator,
) -> tuple[Array, PlanInfo]:
    """
    Return the improved plan (H, nu), within limits, and the details of the update.

    `evaluate` maps controls (M, K, H, nu) to the costs of rolling them out; `rng` is the source
    of the noise. AllDivergedError if every rollout of every model with weight diverged or, where
    plans are compared, every candidate diverged in a model with weight.
    """
    nominal, applied, limits, log_belief, reference, variance = problem
    strategy, nu = STRATEGIES[config.strategy], nominal.shape[1]
    base, adaptation = config.variance(nu), config.noise_adaptation
    if adaptation is None or variance is None:
        variance = base
    else:
        variance = np.clip(variance, adaptation.lowest * base, adaptation.highest * base)
    shape = (config.rollouts, config.horizon, nu)
    noise = strategy.sample(rng, (1 if config.shares_noise else config.models, *shape), variance)
    controls = limits.clip(nominal + noise, applied)
    noise = controls - nominal
    if config.shares_noise:
        controls = np.broadcast_to(controls, (config.models, *shape))
    costs = evaluate(controls)
    if strategy.control_cost:
        scaled = (nominal - reference) / base
        control_cost = config.temperature * np.einsum('mkhu,hu->mkh', noise, scaled)
        costs = Costs(costs.running + control_cost, costs.terminal)
    cost_to_go = accumulate(costs)  # (M, K, H)
    sample_weights = weigh(config, cost_to_go, log_belief)
    improved = nominal + np.einsum('mkh,mkhu->hu', sample_weights, noise)
    if config.filter_window:
        improved = smoother(config.horizon, config.filter_window) @ improved
    improved = limits.clip(improved, applied)
    diverged = int((~np.isfinite(cost_to_go[..., 0])).sum())
    adapted = None
    if adaptation is not None:
        adapted = adapt_variance(adaptation, variance, sample_weights, noise, base)
    return improved, PlanInfo(controls, cost_to_go[..., 0], sample_weights, diverged, adapted)


def weigh(config: PlannerConfig, cost_to_go: Array, log_belief: Array) -> Array:
    """
    Return the weights of all samples (M, K, H) by their cost to go; they sum to 1 at each step.

    Where plans are compared, the weight of a plan is divided among its M rollouts by belief,
    which does not change the update because these have the same noise.
    """
    if config.weighting == 'trajectory':
        cost_to_go = np.broadcast_to(cost_to_go[..., :1], cost_to_go.shape)
    if config.compares_plans:
        measure = risk.choose('mean' if config.risk == 'none' else config.risk, config.risk_level)
        shares = np.exp(weights.normalize(log_belief))[:, None, None]
        costs, log_prior = measure(cost_to_go, shares[:, 0, 0]), np.zeros(cost_to_go.shape[1])
        problem = f'each of {len(costs)} plans diverged in a model with positive weight'
    else:
        shares = np.array(1.0)
        costs = cost_to_go.reshape(-1, cost_to_go.shape[2])
        log_prior = np.repeat(log_belief, cost_to_go.shape[1])
        problem = f'all {len(costs)} rollouts diverged'
    if not (np.isfinite(costs[:, 0]) & np.isfinite(log_prior)).any():
        raise AllDivergedError(f'{problem}: no valid plan')
    sample_weights = STRATEGIES[config.strategy].weigh(costs, log_prior, config.temperature)
    return shares * sample_weights.reshape(-1, *cost_to_go.shape[1:])


def adapt_variance(
    config: NoiseAdaptation, variance: Array, weights: Array, noise: Array, base: Array
) -> Array:
    """
    Return the variance of the next update, (H, nu): the weighted mean of squared noise.

    This is PI2-CMA with a diagonal covariance (Stulp and Sigaud 2012, "Path integral policy
    improvement with covariance matrix adaptation"). The variance stays large while good samples
    are far from the plan. `variance` (H, nu) is that with which the noise was drawn, `noise`
    (M, K, H, nu) that of the samples after clipping to limits; (1, K, H, nu) if all models share
    it. `weights` (M, K, H) sum to 1 at each step. Bounds are multiples of the configured variance
    `base` (nu,).
    """
    squares = np.einsum('mkh,mkhu->hu', weights, noise**2)
    adapted = variance + config.rate * (squares - variance)
    return np.clip(adapted, config.lowest * base, config.highest * base)


@functools.cache  # the filter is linear: computed once
def smoother(horizon: int, window: int) -> Array:
    """Return the matrix (H, H) of the cubic filter of Savitzky and Golay (1964)."""
    # scipy loads this part on first use, which takes 0.3 s: only planners need it
    matrix: Array = scipy.signal.savgol_filter(np.eye(horizon), window, 3, axis=0)
    matrix.flags.writeable = False
    return matrix


def accumulate(costs: Costs) -> Array:
    """Return the cost to go of every step (M, K, H): line 16 of Algorithm 1."""
    total = costs.running[..., ::-1].cumsum(axis=-1)[..., ::-1] + costs.terminal[..., None]
    return np.where(np.isfinite(total), total, np.inf)
