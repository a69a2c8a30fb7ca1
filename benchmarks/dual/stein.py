"""
DuSt-MPC: Stein variational gradient descent over parameters, and over plans.

Barcelos, Lambert, Oliveira, Borges, Boots and Ramos, *Dual Online Stein Variational Inference for
Control and Dynamics*, RSS 2021. Written from the paper's equations, with the settings of the
pendulum in the authors' code (https://github.com/lubaroli/dust) but for the number of rollouts.
Particles are logarithms of parameters, as in their other example, in standard deviations of the
prior. Predictions and their derivatives, which
are differences, come from MuJoCo.
"""

from typing import NamedTuple

import numpy as np
from scipy import special

from emppi_ros.core.arrays import Array
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.priors import particles
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task

PARTICLES, STEPS = 50, 20  # of parameters; of gradient descent for each measurement
_RATE = 0.01
OBSERVATION_SD = 0.1  # of angle [rad] and velocity [rad/s] in the authors' settings
_DIFFERENCE = 1e-3  # for derivatives
_DRAWS = 8  # of each particle's kernel, for intervals
POLICIES, SAMPLES, MODELS = 3, 16, 8  # 128 samples in the authors' settings
_CONTROL_SD, _PRIOR_SD = 2.0, 2.0  # N m
_POLICY_RATE, _ALPHA = 2.0, 1.0
_LEAST_BANDWIDTH = 1e-4


class Kernel(NamedTuple):
    """A Gaussian kernel between all pairs of n particles."""

    values: Array  # (n, n)
    repulsion: Array  # (n, d): sums over the others of the kernel's derivatives


def kernel(x: Array, bandwidth: float) -> Kernel:
    """Return the kernel of particles (n, d)."""
    apart = x[:, None] - x
    values = np.exp(-0.5 * np.sum(apart**2, axis=-1) / bandwidth**2)
    return Kernel(values, np.einsum('ij,ijd->id', values, apart) / bandwidth**2)


def stein_direction(x: Array, score: Array, bandwidth: float) -> Array:
    """Return the direction of steepest descent (n, d) of the divergence (Liu and Wang, 2016)."""
    of_all = kernel(x, bandwidth)
    return (of_all.values @ score + of_all.repulsion) / len(x)


def mixture_score(x: Array, centres: Array, sd: float) -> Array:
    """Return the gradient (n, d) of the log density of a mixture of Gaussians (m, d)."""
    apart = centres - x[:, None]
    shares = special.softmax(-0.5 * np.sum(apart**2, axis=-1) / sd**2, axis=1)
    return np.einsum('ij,ijd->id', shares, apart) / sd**2


def silverman(x: Array) -> float:
    """Return the bandwidth of Silverman's rule for all values of x."""
    low, high = np.quantile(x, [0.25, 0.75])
    spread = min(float(np.std(x, ddof=1)), float(high - low) / 1.349)
    return max(spread * (0.75 * x.size) ** -0.2, _LEAST_BANDWIDTH)


class SteinParameters:
    """Particles of the logarithms of parameters, moved by each pair of measurements."""

    def __init__(self, task: Task, seed: int, observation_sd: float = OBSERVATION_SD) -> None:
        """Draw particles from the prior."""
        self._rng, self._sd = np.random.default_rng([seed, 10]), observation_sd
        draws = np.log(task.prior.draws)
        self._mean, self._scale = draws.mean(axis=0), draws.std(axis=0)
        chosen = self._rng.choice(len(draws), PARTICLES, replace=False)
        self.x = (draws[chosen] - self._mean) / self._scale  # a bandwidth holds for all columns
        bounds = np.array([(parameter.lower, parameter.upper) for parameter in task.parameters])
        self._low, self._high = (np.log(bounds.T) - self._mean) / self._scale
        self._dt = task.simulation.timestep_s
        count = PARTICLES * (1 + len(task.parameters))
        self._ensemble = Ensemble(task.model, task.parameters, count, threads=1)
        self._bandwidth = silverman(self.x)

    def learn(self, before: State, control: Array, after: State) -> None:
        """Move the particles by the control (steps, nu) between two measured states."""
        prior, bandwidth = self.x.copy(), silverman(self.x)
        for _ in range(STEPS):
            score = mixture_score(self.x, prior, self._bandwidth)
            score += self._likelihood_score(before, control, after)
            step = _RATE * stein_direction(self.x, score, bandwidth)
            self.x = np.clip(self.x + step, self._low, self._high)
        self._bandwidth = bandwidth

    def _likelihood_score(self, before: State, control: Array, after: State) -> Array:
        """Return the gradient (n, P) of the log likelihood of the measured state."""
        count, columns = self.x.shape
        # inwards at the upper bounds
        sides = np.where(self.x + _DIFFERENCE > self._high, -_DIFFERENCE, _DIFFERENCE)
        moved = [self.x, *(self.x + sides * np.eye(columns)[k] for k in range(columns))]
        self._ensemble.write(self._theta(np.concatenate(moved)))
        end = self._ensemble.predict(before, control, self._dt)
        states = np.concatenate(end, axis=-1).reshape(1 + columns, count, -1)
        slope = (states[1:] - states[0]) / sides.T[..., None]
        error = np.concatenate(after) - states[0]
        return np.einsum('knd,nd->nk', slope, error) / self._sd**2

    def _theta(self, x: Array) -> Array:
        """Return the parameters (n, P) of particles."""
        return np.exp(self._mean + self._scale * x)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return parameters (count, P) drawn from the mixture about the particles."""
        chosen = self.x[rng.integers(len(self.x), size=count)]
        drawn = chosen + self._bandwidth * rng.standard_normal(chosen.shape)
        return self._theta(np.clip(drawn, self._low, self._high))

    @property
    def belief(self) -> Belief:
        """The mixture about the particles, as draws of equal weight."""
        rng = np.random.default_rng(0)
        return particles.uniform(self.sample(_DRAWS * PARTICLES, rng))


class SteinPlans:
    """A few plans, moved by the rollouts around them; the likeliest one is carried out."""

    def __init__(self, task: Task, seed: int) -> None:
        """Draw plans from their prior."""
        self._rng, self._horizon = np.random.default_rng([seed, 11]), task.planner.horizon
        self._limit = task.model.actuator_ctrlrange[0]
        size = POLICIES, self._horizon
        self.plans = _PRIOR_SD * self._rng.standard_normal(size)
        self._prior = self.plans.copy()
        self._ensemble = Ensemble(
            task.model, task.parameters, MODELS, POLICIES * SAMPLES, task.planner.threads
        )

    def plan(self, state: State, parameters: SteinParameters) -> float:
        """Return the control [N m] until the next plan; the plans move on."""
        noise = self._rng.standard_normal((SAMPLES, *self.plans.shape))
        controls = self.plans + _CONTROL_SD * noise
        costs = self._costs(state, controls, parameters)
        shares = special.softmax(-_ALPHA * costs, axis=0)[..., None]
        score = np.sum(shares * (controls - self.plans), axis=0) / _CONTROL_SD**2
        score += mixture_score(self.plans, self._prior, _PRIOR_SD)
        step = stein_direction(self.plans, score, silverman(self.plans))
        self.plans = self.plans + _POLICY_RATE * step
        best = self.plans[int(np.argmax(special.logsumexp(-_ALPHA * costs, axis=0)))]
        action = float(np.clip(best[0], *self._limit))
        self.plans = np.concatenate([self.plans[:, 1:], self.plans[:, -1:]], axis=1)
        self._prior = self.plans.copy()
        return action

    def _costs(self, state: State, controls: Array, parameters: SteinParameters) -> Array:
        """Return the costs (samples, policies) of controls, means over drawn parameters."""
        self._ensemble.write(parameters.sample(MODELS, self._rng))
        flat = np.clip(controls, *self._limit).reshape(-1, self._horizon, 1)
        every = np.broadcast_to(flat, (MODELS, *flat.shape))
        fields = self._ensemble.rollout(state, every, ('qpos', 'qvel')).fields
        # 50 (cos theta - 1)^2 + d theta^2, with an upright angle of 0
        running = 50.0 * (np.cos(fields['qpos']) - 1.0) ** 2 + fields['qvel'] ** 2
        total = running[..., 0].sum(axis=-1).mean(axis=0)
        return total.reshape(controls.shape[:2])
