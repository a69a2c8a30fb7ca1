r"""
One update of ensemble model predictive path integral control (Abraham et al. 2020, Alg. 1).

For M models with belief p(theta_m), K rollouts each and H steps::

    v = u + du,  du ~ N(0, Sigma)                             lines 8 and 12
    S_t = sum_{j=t}^{H-1} l(x_j) + lambda (u_j - r)' Sigma^-1 du_j + m(x_H)   line 16
    w_t = exp(-(S_t - beta) / lambda) p(theta) / normalizer                eq. 9
    u_t <- u_t + sum_mk w_t du_t                              line 17

The reference r, zero in the paper, is the control that does nothing.

With a measure of risk over models (`risk.py`) all models share the same K rows of noise, and the
weights are a softmax over K of the risk of each row. They share it, too, if information
(`information.py`) reduces the running cost.

>>> updated, info = plan(config, nominal, applied, limits, log_belief, evaluate, rng)
"""

from collections.abc import Callable
import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from emppi_ros.core import weights
from emppi_ros.core.errors import AllDivergedError
from emppi_ros.planning import noise_adaptation
from emppi_ros.planning import risk as risks
from emppi_ros.robots.control_limits import ControlLimits
from emppi_ros.tasks.cost import Costs
from emppi_ros.tasks.planner_config import PlannerConfig

Array = npt.NDArray[np.float64]


class PlanInfo(NamedTuple):
    """
    Candidates, costs and weights of an update, for diagnostics and display.

    Attributes
    ----------
    controls : (M, K, H, nu) array
        Candidates; with a risk measure or a weight of information, all models have the same.
    costs : (M, K) array
        Total cost of each rollout, +inf if it diverged.
    weights : (M, K, H) array
        Sum to 1 at each step; with a risk measure they are spread over models by the belief.
    diverged : int
        Number of diverged rollouts.
    variance : (H, nu) array or None
        Variance of the noise of the next update; None if it does not adapt.

    """

    controls: Array
    costs: Array
    weights: Array
    diverged: int
    variance: Array | None = None


def plan(
    config: PlannerConfig,
    nominal: Array,
    applied: Array,
    limits: ControlLimits,
    log_belief: Array,
    evaluate: Callable[[Array], Costs],
    rng: np.random.Generator,
    reference: Array | float = 0.0,
    variance: Array | None = None,
) -> tuple[Array, PlanInfo]:
    """
    Return the improved plan and the details of the update.

    Parameters
    ----------
    config : PlannerConfig
        Settings.
    nominal : (H, nu) array
        The plan to improve: the last one, shifted.
    applied : (nu,) array
        The control in force when the plan starts.
    limits : ControlLimits
        Bounds of controls; clipping changes the noise du.
    log_belief : (M,) array
        Log weight of each model, log p(theta_m), in any normalization.
    evaluate : callable
        Maps controls (M, K, H, nu) to the Costs of rolling them out.
    rng : numpy Generator
        Source of the noise.
    reference : (nu,) array or float
        Mean r of the uncontrolled distribution p: the control that does nothing. Zero for
        velocities and efforts, the held position for positions.
    variance : (H, nu) array, optional
        Variance of the noise, if it adapts: that of the last update, shifted as the plan is.
        Default: the configured one.

    Returns
    -------
    controls : (H, nu) array
        The plan, within limits.
    info : PlanInfo
        Candidates, costs and weights.

    Raises
    ------
    AllDivergedError
        If every rollout of every model with weight diverged or, with a risk measure, every
        candidate diverged in a model with weight.

    """
    nu = nominal.shape[1]
    base, adaptation = config.variance(nu), config.noise_adaptation
    if variance is None or adaptation is None:
        variance = np.broadcast_to(base, nominal.shape)
    else:
        variance = noise_adaptation.bound(adaptation, variance, base)
    draws = 1 if config.shares_noise else config.models
    shape = (draws, config.rollouts, config.horizon, nu)
    noise = rng.standard_normal(shape) * np.sqrt(variance)
    controls = limits.clip(nominal + noise, applied)
    noise = controls - nominal
    controls = np.broadcast_to(controls, (config.models, *shape[1:]))  # (M, K, H, nu)
    costs = evaluate(controls)
    control_cost = config.temperature * np.einsum(
        'mkhu,hu->mkh', noise, (nominal - reference) / base
    )
    cost_to_go = accumulate(costs, control_cost)  # (M, K, H)
    if config.weighting == 'trajectory':
        cost_to_go = np.broadcast_to(cost_to_go[..., :1], cost_to_go.shape)
    if config.risk == 'none':
        sample_weights = weigh(config.temperature, cost_to_go, log_belief)
    else:
        measure = risks.choose(config.risk, config.risk_level)
        sample_weights = risks.weigh(measure, config.temperature, cost_to_go, log_belief)
    improved = nominal + np.einsum('mkh,mkhu->hu', sample_weights, noise)
    if config.filter_window:
        improved = smoother(config.horizon, config.filter_window) @ improved
    improved = limits.clip(improved, applied)
    diverged = int(np.sum(~np.isfinite(cost_to_go[..., 0])))
    adapted = None
    if adaptation is not None:
        adapted = noise_adaptation.adapt(adaptation, variance, sample_weights, noise, base)
    return improved, PlanInfo(controls, cost_to_go[..., 0], sample_weights, diverged, adapted)


def weigh(temperature: float, cost_to_go: Array, log_belief: Array) -> Array:
    """Return the weights of all samples (M, K, H), eq. 9; they sum to 1 at each step."""
    if not np.any(np.isfinite(cost_to_go[..., 0]) & np.isfinite(log_belief)[:, None]):
        count = cost_to_go[..., 0].size
        raise AllDivergedError(f'all {count} rollouts diverged: no valid plan')
    return weights.softmin(cost_to_go, temperature, log_belief[:, None, None], axis=(0, 1))


@functools.cache  # the filter is linear: computed once
def smoother(horizon: int, window: int) -> Array:
    """Return the matrix (H, H) of the cubic filter of Savitzky and Golay (1964)."""
    # scipy loads this part on first use, which takes 0.3 s: only planners need it
    matrix: Array = scipy.signal.savgol_filter(np.eye(horizon), window, 3, axis=0)
    matrix.flags.writeable = False
    return matrix


def accumulate(costs: Costs, control_cost: Array) -> Array:
    """
    Return the cost-to-go of every step (M, K, H): line 16 of Algorithm 1.

    `control_cost` is lambda (u_t - r)' Sigma^-1 du_t, (M, K, H).
    """
    stage = costs.running + control_cost
    total = np.cumsum(stage[..., ::-1], axis=-1)[..., ::-1] + costs.terminal[..., None]
    return np.where(np.isfinite(total), total, np.inf)
