"""
Random Fourier features: cosines whose inner products approximate a kernel.

Rahimi and Recht (2007). The frequencies are draws from the kernel's spectral density: a normal
distribution for the RBF kernel, Student's t with 2 nu degrees of freedom for that of Matern.
"""

from collections.abc import Callable

import numpy as np

from emppi_ros.core.arrays import Array

NU = 2.5  # smoothness of the Matern kernel


def rbf(size: int, count: int, rng: np.random.Generator) -> Array:
    """Return frequencies (size, count) of exp(-r^2 / 2)."""
    return rng.standard_normal((size, count))


def matern(size: int, count: int, rng: np.random.Generator) -> Array:
    """Return frequencies (size, count) of the Matern kernel with smoothness NU and scale 1."""
    return rng.standard_normal((size, count)) / np.sqrt(
        rng.chisquare(2.0 * NU, count) / (2.0 * NU)
    )


KERNELS: dict[str, Callable[[int, int, np.random.Generator], Array]] = {
    'rbf': rbf,
    'matern': matern,
}


def features(inputs: Array, frequencies: Array) -> Array:
    """Return the features (N, 2 count) of inputs (N, size); their products estimate the kernel."""
    angles = inputs @ frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) / np.sqrt(angles.shape[1])


def median_distance(inputs: Array, rng: np.random.Generator, pairs: int = 2000) -> float:
    """Return the median distance of pairs of inputs (N, size): the scale of a kernel on them."""
    first, second = rng.integers(len(inputs), size=(2, pairs))
    distances = np.linalg.norm(inputs[first] - inputs[second], axis=1)[first != second]
    return float(np.median(distances)) or 1.0
