"""Section `planner` of a task: settings of the EMPPI update."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import between, fraction, key, non_negative, positive, registered
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.ensemble import DEVICES
from emppi_ros.strategies.risk import CVAR_LEVEL, MEASURES
from emppi_ros.strategies.strategy import STRATEGIES

MOST_STEPS = 10_000_000  # physics steps per plan, which take ten seconds or more


def device(what: str) -> Any:
    """Return a field for the device that simulates models."""
    return key(
        'cpu',
        check=lambda name: DEVICES.fullmatch(name) is not None,
        allowed='cpu, cuda, cuda:0 (or another number) or warp-cpu',
        doc=f'what simulates {what}: cpu: MuJoCo; cuda, or cuda:0: MuJoCo Warp (extra `warp`), in '
        'single precision, on a GPU; warp-cpu: Warp without a GPU, for tests',
    )


@dataclass(frozen=True)
class NoiseAdaptation:
    """How the variance of the control noise follows the samples; see `adapt_variance`."""

    rate: float = fraction(0.3, doc='share of each new estimate')
    lowest: float = fraction(0.05, doc='smallest variance, as a share of `noise_variance`')
    highest: float = between(1.0, 100.0, 4.0, doc='largest variance, likewise')


@dataclass(frozen=True)
class PlannerConfig:
    """Settings of the planner, with the paper's symbols in brackets (Table I)."""

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
        allowed='a list of numbers above 0: one for all controls, or one per control '
        '(1e-12 keeps a control still)',
        doc='variance of the control noise per control, in its unit squared [Sigma]',
    )
    noise_adaptation: NoiseAdaptation | None = key(
        None, doc='adaptation of the noise variance per step and control; null: constant'
    )
    strategy: str = registered(
        STRATEGIES, default='emppi', doc='how plans are sampled and weighed; emppi: eq. 9'
    )
    weighting: str = registered(
        ('per_step', 'trajectory'),
        default='per_step',
        doc='weigh by the cost-to-go of each step, or of the whole rollout; the other strategies '
        'always do the latter',
    )
    risk: str = registered(
        ('none', *MEASURES),
        default='none',
        doc='measure of risk over models; none: eq. 9, and the mean with another strategy',
    )
    risk_level: float | None = fraction(
        None, doc=f'probability mass of the worst models in cvar ({CVAR_LEVEL:g})'
    )
    information_weight: float = non_negative(
        0.0, doc='cost per nat that a plan is expected to tell less about the parameters; 0: off'
    )
    interpolation: str = registered(
        ('hold', 'linear'), default='linear', doc='interpolation of controls between plan steps'
    )
    filter_window: int = key(
        0,
        check=lambda v: v == 0 or (v >= 5 and v % 2 == 1),
        allowed='0 (no filter) or an odd number from 5',
        doc='Savitzky-Golay window (cubic) over the plan, in steps [line 21]',
    )
    threads: int = between(0, 256, 0, doc='threads; 0: all cores')
    device: str = device('rollouts')

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
        return self.compares_plans or self.information_weight > 0.0

    @property
    def compares_plans(self) -> bool:
        """Whether a plan has one cost, its risk over models, instead of one in each model."""
        return self.risk != 'none' or STRATEGIES[self.strategy].compares_plans

    def variance(self, nu: int) -> Array:
        """Return the noise variance of each control (nu,)."""
        if len(self.noise_variance) not in (1, nu):
            raise ConfigError(
                f'planner: noise_variance: {len(self.noise_variance)} values for {nu} controls'
            )
        return np.full(nu, self.noise_variance)
