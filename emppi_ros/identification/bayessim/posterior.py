"""The posterior of a recording: a density of parameters given summaries, learned from pairs."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.identification.bayessim import mixture_density_network as networks
from emppi_ros.identification.bayessim.mixture_density_network import (
    BoxedMixture,
    Network,
    TrainingConfig,
)

NETWORK = 'network'
FREQUENCIES = 250
TESTED = 0.1  # share of the pairs that only test the density
_DRAWS = 500  # per test
_CONSTANT = 1e-9  # of the largest standard deviation of a feature: it tells nothing
_NU = 2.5  # smoothness of the Matern kernel
_PAIRS = 2000  # whose median distance is the scale of a kernel


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
        return fourier_features(normal, self.frequencies) * np.sqrt(count)


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
    density: str,
    training: TrainingConfig,
    summaries: Array,
    parameters: Array,
    rng: np.random.Generator,
    progress: Callable[[int, float], None] = lambda *_: None,
) -> LearnedPosterior:
    """
    Return the density of parameters (N, P) given summaries (N, F).

    The `density` is on hidden layers (NETWORK), or on random features of one of KERNELS.
    Parameters are coordinates of `ShootingProblem`, between -LIMIT and LIMIT. The last TESTED of
    the pairs are not learned from.
    """
    tests = max(1, round(TESTED * len(summaries)))
    mapped = networks.to_unbounded(parameters)
    inputs = summaries[:-tests]
    mapping = _fit_input(density, inputs, rng)
    if density != NETWORK:
        training = replace(training, hidden=())
    network, losses = networks.train(training, mapping(inputs), mapped[:-tests], rng, progress)
    held, truths = summaries[-tests:], mapped[-tests:]
    loss, _ = networks.loss_and_gradient(network, mapping(held), truths)
    loss -= float(np.mean(networks.log_slope(parameters[-tests:])))
    inside = []
    for row, truth in zip(mapping(held), truths, strict=True):
        draws = network.mixture(row).sample(_DRAWS, rng)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        inside.append((truth >= low) & (truth <= high))
    tree = cKDTree(mapping.standardized(inputs))
    neighbours = tree.query(mapping.standardized(held))[0]
    coverage = np.mean(inside, axis=0)
    return LearnedPosterior(network, mapping, losses, coverage, tests, loss, neighbours)


def novelty(learned: LearnedPosterior, summaries: Array, observed: Array) -> tuple[float, float]:
    """
    Return the distance of an observed summary (F,) to the nearest of simulated ones (N, F).

    It is in units of the median distance of test summaries. The second number is the share of test
    summaries that are as far from the others or farther.
    """
    tree = cKDTree(learned.map.standardized(summaries))
    distance = tree.query(learned.map.standardized(observed[None]))[0][0]
    typical = float(np.median(learned.neighbours))
    return float(distance / typical), float(np.mean(learned.neighbours >= distance))


def _fit_input(density: str, summaries: Array, rng: np.random.Generator) -> Input:
    mean, scale = summaries.mean(axis=0), summaries.std(axis=0)
    used = scale > _CONSTANT * scale.max()
    plain = Input(mean, np.where(used, scale, 1.0), used, None)
    if density == NETWORK:
        return plain
    normal = plain.standardized(summaries)
    first, second = rng.integers(len(normal), size=(2, _PAIRS))
    distances = np.linalg.norm(normal[first] - normal[second], axis=1)[first != second]
    width = float(np.median(distances)) or 1.0
    drawn = KERNELS[density](normal.shape[1], FREQUENCIES, rng)
    return plain._replace(frequencies=drawn / width)


def fourier_features(inputs: Array, frequencies: Array) -> Array:
    """
    Return features (N, 2 W) of inputs (N, X) whose products estimate a kernel.

    Rahimi and Recht (2007). The frequencies (X, W) are draws from the kernel's spectral density.
    """
    angles = inputs @ frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / np.sqrt(angles.shape[1])


def _matern(size: int, count: int, rng: np.random.Generator) -> Array:
    """Return frequencies (size, count) of the Matern kernel of scale 1: Student's t."""
    return rng.standard_normal((size, count)) / np.sqrt(
        rng.chisquare(2.0 * _NU, count) / (2.0 * _NU)
    )


KERNELS: dict[str, Callable[[int, int, np.random.Generator], Array]] = {
    'rbf': lambda size, count, rng: rng.standard_normal((size, count)),  # exp(-r^2 / 2)
    'matern': _matern,
}
