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
from dataclasses import dataclass
import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from emppi_ros.control import noise_adaptation
from emppi_ros.control import risk as risks
from emppi_ros.control.noise_adaptation import NoiseAdaptation
from emppi_ros.core import weights
from emppi_ros.core.config import between, fraction, key, non_negative, one_of, positive
from emppi_ros.core.errors import AllDivergedError, ConfigError
from emppi_ros.robots.control_limits import ControlLimits

Array = npt.NDArray[np.float64]
MOST_STEPS = 10_000_000  # physics steps per plan, which take ten seconds or more


class Costs(NamedTuple):
    """
    Costs of a set of rollouts; +inf for those that diverged.

    Attributes
    ----------
    running : (M, K, H) array
        Cost of each step, l(x_t).
    terminal : (M, K) array
        Cost of the final state, m(x_H).

    """

    running: Array
    terminal: Array


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


@dataclass(frozen=True)
class PlannerConfig:
    """
    Settings of the planner, with the paper's symbols in brackets (Table I).

    A plan covers `horizon` x `step_s` seconds. ConfigError if it takes too many physics steps.
    """

    models: int = between(1, 10_000, doc='models in the ensemble, M [N]')
    rollouts: int = between(1, 10_000, doc='rollouts per model, K [K]')
    horizon: int = between(1, 1000, doc='steps in a plan, H [T]')
    step_s: float = between(1e-4, 10.0, doc='duration of a step')
    rate_hz: float = between(
        0.01, 1000.0, doc='plans per second; a plan takes effect one period after its state'
    )
    substeps: int = between(1, 1000, doc='physics steps per plan step')
    temperature: float = positive(
        doc='temperature of the weights; small values are greedy [lambda]'
    )
    noise_variance: tuple[float, ...] = key(
        check=lambda v: len(v) > 0 and all(x > 0 for x in v),
        allowed='a list of numbers above 0: one for all controls, or one per control',
        doc='variance of the control noise per control, in its unit squared [Sigma]',
    )
    noise_adaptation: NoiseAdaptation | None = key(
        None, doc='adaptation of the noise variance per step and control; null: constant'
    )
    weighting: str = one_of(
        'per_step',
        'trajectory',
        default='per_step',
        doc='weigh by the cost-to-go of each step, or of the whole rollout',
    )
    risk: str = one_of(
        'none', *risks.MEASURES, default='none', doc='measure of risk over models; none: eq. 9'
    )
    risk_level: float | None = fraction(
        None, doc=f'probability mass of the worst models in cvar ({risks.LEVEL:g})'
    )
    information_weight: float = non_negative(
        0.0, doc='cost per nat that a plan is expected to tell less about the parameters; 0: off'
    )
    interpolation: str = one_of(
        'hold', 'linear', default='linear', doc='interpolation of controls between plan steps'
    )
    filter_window: int = key(
        0,
        check=lambda v: v == 0 or (v >= 5 and v % 2 == 1),
        allowed='0 (no filter) or an odd number from 5',
        doc='Savitzky-Golay window (cubic) over the plan, in steps [line 21]',
    )
    threads: int = between(0, 256, 0, doc='threads; 0: all cores')

    def __post_init__(self) -> None:
        """Check the keys against each other."""
        steps = self.models * self.rollouts * self.horizon * self.substeps
        if steps > MOST_STEPS:
            raise ConfigError(
                f'models x rollouts x horizon x substeps: {steps:g} physics steps a plan, '
                f'at most {MOST_STEPS:g}'
            )
        if self.filter_window > self.horizon:
            raise ConfigError(
                f'filter_window: {self.filter_window} steps exceed the horizon of {self.horizon}'
            )
        if self.risk_level is not None and self.risk != 'cvar':
            raise ConfigError(f'risk_level: requires risk: cvar, got risk: {self.risk}')

    @property
    def shares_noise(self) -> bool:
        """Whether all models roll out the same controls, so that they can be compared."""
        return self.risk != 'none' or self.information_weight > 0.0

    def variance(self, nu: int) -> Array:
        """Return the noise variance of each control (nu,)."""
        if len(self.noise_variance) not in (1, nu):
            raise ConfigError(
                f'planner: noise_variance: {len(self.noise_variance)} values for {nu} controls'
            )
        return np.broadcast_to(np.array(self.noise_variance), (nu,))


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
