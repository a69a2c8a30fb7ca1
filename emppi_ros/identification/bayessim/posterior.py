"""
The posterior of a recording from pairs of parameters and simulated summaries.

Summaries are standardized; a density of the parameters given a summary is learned from the pairs,
and evaluated at the summary of the recording. It is zero outside of the bounds of the parameters
(see `box`). No likelihood is needed, but the pairs must contain motions like that of the
recording: far from all of them the density extrapolates.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.identification.bayessim import box, mixture_density_network, random_features
from emppi_ros.identification.bayessim.box import BoxedMixture
from emppi_ros.identification.bayessim.mixture_density_network import Network, TrainingConfig

NETWORK = 'network'
DENSITIES = (NETWORK, *random_features.KERNELS)  # on hidden layers, or on features of a kernel
FREQUENCIES = 250
TESTED = 0.1  # share of the pairs that only test the density
_DRAWS = 500  # per test
_LEVEL = 0.9
_CONSTANT = 1e-9  # of the largest standard deviation of a feature: it tells nothing


@dataclass(frozen=True)
class DensityConfig:
    """The density to learn."""

    density: str = NETWORK
    training: TrainingConfig = TrainingConfig()


class Input(NamedTuple):
    """The map from summaries to the inputs of a network."""

    mean: Array  # (F,)
    scale: Array  # (F,)
    used: Bools  # (F,) features that vary
    frequencies: Array | None  # (used, W) of random features

    def standardized(self, summaries: Array) -> Array:
        """Return summaries (N, F) in standard deviations from their mean, without constants."""
        return ((summaries - self.mean) / self.scale)[:, self.used]

    def __call__(self, summaries: Array) -> Array:
        """Return the inputs (N, X) of a network for summaries (N, F)."""
        normal = self.standardized(summaries)
        if self.frequencies is None:
            return normal
        count = self.frequencies.shape[1]
        return random_features.features(normal, self.frequencies) * np.sqrt(count)


class LearnedPosterior(NamedTuple):
    """A conditional density, and how far it can be trusted."""

    network: Network
    map: Input
    losses: Array  # on validation pairs, by epoch
    coverage: Array  # (P,) share of test parameters inside their 90 % intervals
    tests: int
    loss: float  # mean of -log q on test pairs
    neighbours: Array  # (n,) distance of each test summary to the nearest of the others

    def at(self, summary: Array) -> BoxedMixture:
        """Return the posterior given a summary (F,)."""
        return BoxedMixture(self.network.mixture(self.map(summary[None])[0]))


def learn(
    config: DensityConfig,
    summaries: Array,
    parameters: Array,
    rng: np.random.Generator,
    progress: Callable[[int, float], None] = lambda *_: None,
) -> LearnedPosterior:
    """
    Return the density of parameters (N, P) given summaries (N, F).

    Parameters are coordinates of `ShootingProblem`, between -LIMIT and LIMIT. The last TESTED of
    the pairs are not learned from.
    """
    tests = max(1, round(TESTED * len(summaries)))
    mapped = box.to_unbounded(parameters)
    inputs, learned = summaries[:-tests], mapped[:-tests]
    mapping = _fit_input(config.density, inputs, rng)
    training = config.training
    if config.density != NETWORK:
        training = replace(training, hidden=())
    network, losses = mixture_density_network.train(
        training, mapping(inputs), learned, rng, progress
    )
    held, truths = summaries[-tests:], mapped[-tests:]
    loss, _ = mixture_density_network.loss_and_gradient(network, mapping(held), truths)
    loss -= float(np.mean(box.log_slope(parameters[-tests:])))
    coverage = np.mean(
        [
            _inside(network.mixture(row).sample(_DRAWS, rng), truth)
            for row, truth in zip(mapping(held), truths, strict=True)
        ],
        axis=0,
    )
    tree = cKDTree(mapping.standardized(inputs))
    neighbours = tree.query(mapping.standardized(held))[0]
    return LearnedPosterior(network, mapping, losses, coverage, tests, loss, neighbours)


def novelty(learned: LearnedPosterior, summaries: Array, observed: Array) -> tuple[float, float]:
    """
    Return how unlike the simulations an observed summary (F,) is.

    The first number is its distance to the nearest of the simulated summaries (N, F), in units of
    the median distance of test summaries; the second is the share of test summaries that are as
    far from the others or farther.
    """
    tree = cKDTree(learned.map.standardized(summaries))
    distance = tree.query(learned.map.standardized(observed[None]))[0][0]
    typical = float(np.median(learned.neighbours))
    return float(distance / typical), float(np.mean(learned.neighbours >= distance))


def _fit_input(density: str, summaries: Array, rng: np.random.Generator) -> Input:
    mean, scale = summaries.mean(axis=0), summaries.std(axis=0)
    used = scale > _CONSTANT * scale.max()
    scale = np.where(used, scale, 1.0)
    plain = Input(mean, scale, used, None)
    if density == NETWORK:
        return plain
    normal = plain.standardized(summaries)
    width = random_features.median_distance(normal, rng)
    drawn = random_features.KERNELS[density](normal.shape[1], FREQUENCIES, rng)
    return plain._replace(frequencies=drawn / width)


def _inside(draws: Array, truth: Array) -> Bools:
    """Return whether each parameter (P,) is in the central 90 % of draws (n, P)."""
    low, high = np.quantile(draws, [0.5 - 0.5 * _LEVEL, 0.5 + 0.5 * _LEVEL], axis=0)
    return (truth >= low) & (truth <= high)
