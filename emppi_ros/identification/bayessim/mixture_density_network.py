r"""
Mixture density networks: mixtures of Gaussians that depend on an input (Bishop 1994).

A network maps an input x to K Gaussians in P dimensions. Adam (Kingma and Ba 2015) minimizes the
mean of -log q(theta | x) over pairs from a prior and a simulator. With hidden layers of tanh units
this is an MDN; without them, on random Fourier features of x, it is an MDRFF (Heiden et al. 2022,
supplement 2.4.2).

A box is mapped to all of space by the quantile function of the standard normal distribution, so
that a single Gaussian represents the uniform distribution in the box.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri, softmax

from emppi_ros.core.arrays import Array
from emppi_ros.identification.multiple_shooting.training_data import LIMIT

_EDGE = 1e-15  # of the probability: a point on a bound counts as just inside
_LOG_SCALES = -6.0, 10.0  # bounds of the log of a root's diagonal
_OUTPUT_SHARE = 0.1  # of the usual size of initial weights: mixtures start out alike
_SPREAD = 0.5  # of initial means
_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8  # of Adam
_IMPROVEMENT = 1e-4  # of the loss, that counts


@dataclass(frozen=True)
class TrainingConfig:
    """How a network is trained."""

    components: int = 5
    hidden: tuple[int, ...] = (24, 24)
    epochs: int = 500
    batch: int = 100
    learning_rate: float = 1e-3
    patience: int = 30  # epochs without improvement on the validation pairs, then it stops
    validation: float = 0.1  # share of the pairs


class GaussianMixture(NamedTuple):
    """A mixture of K Gaussians in P dimensions."""

    log_weights: Array  # (K,) their exponentials sum to 1
    means: Array  # (K, P)
    roots: Array  # (K, P, P) lower triangular R with positive diagonal, covariance (R' R)^-1

    def log_density(self, points: Array) -> Array:
        """Return the log density (n,) at points (n, P)."""
        whitened = np.einsum('kij,nkj->nki', self.roots, points[:, None] - self.means)
        logs = np.log(np.diagonal(self.roots, axis1=1, axis2=2)).sum(axis=1)
        parts = self.log_weights + logs - 0.5 * np.sum(whitened**2, axis=2)
        result: Array = logsumexp(parts, axis=1) - 0.5 * points.shape[1] * np.log(2.0 * np.pi)
        return result

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, P)."""
        weights = np.exp(self.log_weights)
        chosen = rng.choice(len(weights), size=count, p=weights / weights.sum())
        normal = rng.standard_normal((count, self.means.shape[1], 1))
        return self.means[chosen] + np.linalg.solve(self.roots[chosen], normal)[..., 0]


class BoxedMixture(NamedTuple):
    """A density between -LIMIT and LIMIT: a mixture of Gaussians of the mapped coordinates."""

    mixture: GaussianMixture

    def log_density(self, points: Array) -> Array:
        """Return the log density (n,) at points (n, P) of the box."""
        return self.mixture.log_density(to_unbounded(points)) + log_slope(points)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        """Return draws (count, P)."""
        return from_unbounded(self.mixture.sample(count, rng))


def to_unbounded(points: Array) -> Array:
    """Return points (..., P) between -LIMIT and LIMIT, mapped to all of space."""
    return ndtri(np.clip(0.5 + 0.5 * points / LIMIT, _EDGE, 1.0 - _EDGE))


def from_unbounded(mapped: Array) -> Array:
    """Return the points (..., P) of the box that are mapped here."""
    return LIMIT * (2.0 * ndtr(mapped) - 1.0)


def log_slope(points: Array) -> Array:
    """Return the log determinant (...) of the Jacobian of the map at points (..., P)."""
    mapped = to_unbounded(points)
    each = 0.5 * mapped**2 + 0.5 * np.log(2.0 * np.pi) - np.log(2.0 * LIMIT)
    return np.asarray(each.sum(axis=-1))


class Layer(NamedTuple):
    """An affine map."""

    weights: Array  # (inputs, outputs)
    offsets: Array  # (outputs,)


class Network(NamedTuple):
    """Layers with tanh between them; the outputs of the last describe K Gaussians."""

    layers: tuple[Layer, ...]
    components: int
    parameters: int

    def mixture(self, inputs: Array) -> GaussianMixture:
        """Return the mixture for an input (X,)."""
        heads = split(self, activations(self, inputs[None])[-1])
        logits = heads.logits[0]
        return GaussianMixture(logits - logsumexp(logits), heads.means[0], heads.roots[0])


class Heads(NamedTuple):
    """Outputs of a network for N inputs."""

    logits: Array  # (N, K) log weights, not normalized
    means: Array  # (N, K, P)
    log_scales: Array  # (N, K, P) log of the diagonal of the roots
    roots: Array  # (N, K, P, P) inverse roots of the covariances, lower triangular


def make(
    config: TrainingConfig, inputs: int, parameters: int, rng: np.random.Generator
) -> Network:
    """Return an untrained network for inputs of a size, and so many parameters."""
    count, size = config.components, parameters
    outputs = count * (1 + 2 * size + size * (size - 1) // 2)
    sizes = [inputs, *config.hidden, outputs]
    layers = [
        Layer(rng.standard_normal((a, b)) / np.sqrt(a), np.zeros(b))
        for a, b in zip(sizes[:-1], sizes[1:], strict=True)
    ]
    last = Layer(_OUTPUT_SHARE * layers[-1].weights, layers[-1].offsets)
    last.offsets[count : count + count * size] = _SPREAD * rng.standard_normal(count * size)
    return Network((*layers[:-1], last), count, size)


def activations(network: Network, inputs: Array) -> list[Array]:
    """Return the values of all layers, inputs (N, X) first."""
    values = [inputs]
    for layer in network.layers[:-1]:
        values.append(np.tanh(values[-1] @ layer.weights + layer.offsets))
    return [*values, values[-1] @ network.layers[-1].weights + network.layers[-1].offsets]


def split(network: Network, outputs: Array) -> Heads:
    """Return the outputs (N, ...) of the last layer by meaning."""
    count, size = network.components, network.parameters
    logits, means, scales, lower = np.split(
        outputs, np.cumsum([count, count * size, count * size]), axis=1
    )
    shape = len(outputs), count, size
    log_scales = np.clip(scales.reshape(shape), *_LOG_SCALES)
    roots = np.zeros((*shape, size))
    roots[(..., *np.tril_indices(size, -1))] = lower.reshape(*shape[:2], -1)
    roots[..., np.arange(size), np.arange(size)] = np.exp(log_scales)
    return Heads(logits, means.reshape(shape), log_scales, roots)


def loss_and_gradient(
    network: Network, inputs: Array, targets: Array
) -> tuple[float, list[Layer]]:
    """Return the mean of -log q(theta | x) over pairs (N, X), (N, P), and its derivatives."""
    values = activations(network, inputs)
    heads = split(network, values[-1])
    deviation = targets[:, None] - heads.means
    whitened = np.einsum('nkij,nkj->nki', heads.roots, deviation)
    parts = (
        heads.logits - logsumexp(heads.logits, axis=1, keepdims=True)
        + heads.log_scales.sum(axis=2) - 0.5 * np.sum(whitened**2, axis=2)
    )  # fmt: skip
    total = logsumexp(parts, axis=1)
    share = np.exp(parts - total[:, None])[..., None]  # of each component, given theta
    size = network.parameters
    below = np.tril_indices(size, -1)
    # a scale at its bound has no derivative
    inside = (heads.log_scales > _LOG_SCALES[0]) & (heads.log_scales < _LOG_SCALES[1])
    slopes = (
        softmax(heads.logits, axis=1) - share[..., 0],
        -share * np.einsum('nkij,nki->nkj', heads.roots, whitened),
        share * (whitened * np.exp(heads.log_scales) * deviation - 1.0) * inside,
        share * (whitened[..., below[0]] * deviation[..., below[1]]),
    )
    number = len(inputs)
    slope = np.concatenate([part.reshape(number, -1) for part in slopes], axis=1) / number
    gradient: list[Layer] = []
    for index in range(len(network.layers) - 1, -1, -1):
        gradient.insert(0, Layer(values[index].T @ slope, slope.sum(axis=0)))
        if index:
            slope = (slope @ network.layers[index].weights.T) * (1.0 - values[index] ** 2)
    return float(0.5 * size * np.log(2.0 * np.pi) - total.mean()), gradient


def train(
    config: TrainingConfig,
    inputs: Array,  # (N, X), of about unit variance
    targets: Array,  # (N, P), likewise
    rng: np.random.Generator,
    progress: Callable[[int, float], None] = lambda *_: None,
) -> tuple[Network, Array]:
    """Return the network with the lowest loss on validation pairs, and that loss by epoch."""
    network = make(config, inputs.shape[1], targets.shape[1], rng)
    order = rng.permutation(len(inputs))
    held = max(1, round(config.validation * len(inputs)))
    checked, used = order[:held], order[held:]
    weights = [part for layer in network.layers for part in layer]
    means, squares = ([np.zeros_like(part) for part in weights] for _ in range(2))
    best, kept, waited, step = np.inf, [part.copy() for part in weights], 0, 0
    losses: list[float] = []
    for epoch in range(config.epochs):
        batches = np.array_split(rng.permutation(used), max(len(used) // config.batch, 1))
        for batch in batches:
            step += 1
            _, gradient = loss_and_gradient(network, inputs[batch], targets[batch])
            flat = [part for layer in gradient for part in layer]
            for part, slope, mean, square in zip(weights, flat, means, squares, strict=True):
                mean[...] = _DECAY * mean + (1.0 - _DECAY) * slope
                square[...] = _SQUARE_DECAY * square + (1.0 - _SQUARE_DECAY) * slope**2
                size = np.sqrt(square / (1.0 - _SQUARE_DECAY**step)) + _EPSILON
                part[...] = part - config.learning_rate * mean / (1.0 - _DECAY**step) / size
        losses.append(loss_and_gradient(network, inputs[checked], targets[checked])[0])
        progress(epoch + 1, losses[-1])
        waited += 1
        if losses[-1] < best - _IMPROVEMENT:
            best, kept, waited = losses[-1], [part.copy() for part in weights], 0
        if waited > config.patience:
            break
    for part, value in zip(weights, kept, strict=True):
        part[...] = value
    return network, np.array(losses)
