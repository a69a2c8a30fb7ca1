"""The synthetic data of Ting et al. (2006), section IV.A: noisy, redundant, irrelevant inputs."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.config import between, key, one_of, positive

Array = npt.NDArray[np.float64]
RELEVANT = 10
MIXTURES = ((90, 0), (0, 90), (30, 60), (60, 30))  # redundant and irrelevant inputs


@dataclass(frozen=True)
class RegressionSetup:
    """
    What the paper says, and, below, what it leaves open.

    A signal-to-noise ratio is one of variances.
    """

    redundant: int = between(0, 1000)
    irrelevant: int = between(0, 1000)
    input_snr: float = positive()
    output_snr: float = positive(5.0)
    rows: int = between(2, 1_000_000, 1000, doc='of training data, and of test data')
    covariance: str = one_of(
        'wishart',
        'mild',
        default='wishart',
        doc="of the relevant inputs: A A', A normal; or with eigenvalues from 1 to 2 only",
    )
    unlike: float = positive(1.0, doc="factor by which inputs' noise differs at most, either way")
    scaled: bool = key(False, doc='whether methods are given inputs of variance 1 each')


class Data(NamedTuple):
    """Noisy data to learn from, and noiseless data to test with."""

    x: Array  # (n, d)
    y: Array  # (n,)
    clean_x: Array
    clean_y: Array


def generate(setup: RegressionSetup, rng: np.random.Generator) -> Data:
    """Return data whose relevant inputs, which go first, have coefficients 1, 2, ..., 10."""
    b = np.arange(1.0, RELEVANT + 1.0)
    covariance = _covariance(setup.covariance, rng)
    factor = np.linalg.cholesky(covariance)
    combinations = rng.dirichlet(np.ones(RELEVANT), size=setup.redundant)
    differing = np.exp(np.log(setup.unlike) * rng.uniform(-1.0, 1.0, RELEVANT))
    input_sd = np.sqrt(np.diag(covariance) * differing / setup.input_snr)
    output_sd = np.sqrt(b @ covariance @ b / setup.output_snr)

    def draw(noise: float) -> tuple[Array, Array]:
        t = rng.standard_normal((setup.rows, RELEVANT)) @ factor.T
        x = t + noise * input_sd * rng.standard_normal(t.shape)
        y = t @ b + noise * output_sd * rng.standard_normal(setup.rows)
        others = rng.standard_normal((setup.rows, setup.irrelevant))
        return np.hstack([x, x @ combinations.T, others]), y

    return Data(*draw(1.0), *draw(0.0))


def error(coefficients: Array, data: Data) -> float:
    """Return the mean squared error on noiseless data, in variances of the output."""
    left = data.clean_y - data.clean_x @ coefficients
    return float(np.mean(left**2) / np.var(data.clean_y))


def _covariance(kind: str, rng: np.random.Generator) -> Array:
    square = rng.standard_normal((RELEVANT, RELEVANT))
    if kind == 'wishart':
        return square @ square.T
    turned = np.linalg.qr(square)[0]
    return (turned * rng.uniform(1.0, 2.0, RELEVANT)) @ turned.T
