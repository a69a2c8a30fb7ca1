"""Family `regression`: noisy inputs, many redundant or irrelevant (Ting et al. 2006, Fig. 2)."""

import functools

import numpy as np

from benchmarks.identify import errors_in_variables, joint_factors
from benchmarks.identify.baselines import REGRESSIONS, scaled
from benchmarks.identify.cells import Family, Values
from emppi_ros.core.arrays import Array

ROWS, OUTPUT_SNR, INPUTS = 1000, 5.0, 100  # rows of training data and of each test
TRUE = np.arange(1.0, 11.0)  # coefficients of the relevant inputs, which are the first
CORRECTED, FACTORS, PREDICTOR, LIKELIEST = (
    'corrected', 'factors', 'factors-noisy', 'joint-factors',
)  # fmt: skip
PANELS = {  # of the figure: ratio of variances of signal and noise in inputs, redundant inputs
    f'SNR {snr:g}: {redundant} redundant, {90 - redundant} irrelevant': (snr, redundant)
    for snr in (2.0, 5.0)
    for redundant in (90, 0, 30, 60)
}


@functools.lru_cache(maxsize=1)
def draw(case: str, seed: int, rows: int = ROWS) -> list[tuple[Array, Array]]:
    """Return inputs (n, d) and output (n,): training data, and noiseless and noisy test data."""
    snr, redundant = PANELS[case]
    rng = np.random.default_rng([seed, int(snr), redundant])
    square = rng.standard_normal((len(TRUE), len(TRUE)))
    covariance = square @ square.T  # the paper says `random`
    combinations = rng.dirichlet(np.ones(len(TRUE)), size=redundant)
    input_sd = np.sqrt(np.diag(covariance) / snr)
    output_sd = np.sqrt(TRUE @ covariance @ TRUE / OUTPUT_SNR)
    sets = []
    for noise in (1.0, 0.0, 1.0):
        t = rng.standard_normal((rows, len(TRUE))) @ np.linalg.cholesky(covariance).T
        x = t + noise * input_sd * rng.standard_normal(t.shape)
        y = t @ TRUE + noise * output_sd * rng.standard_normal(rows)
        irrelevant = rng.standard_normal((rows, INPUTS - len(TRUE) - redundant))
        sets.append((np.hstack([x, x @ combinations.T, irrelevant]), y))
    return sets


def estimate(x: Array, y: Array, method: str) -> Array:
    """Return the coefficients (d,) of a method."""
    if method in REGRESSIONS:
        return REGRESSIONS[method](x, y)
    if method == CORRECTED:
        coefficients, identified = errors_in_variables.regress(x, y)
        if identified:
            return coefficients
    bayesian, noisy = method != LIKELIEST, method in (PREDICTOR, LIKELIEST)
    return scaled(lambda x, y: joint_factors.fit(x, y, bayesian).coefficients(noisy))(x, y)


def measure(case: str, method: str, seed: int) -> Values:
    """Return mean squared errors over the variance of the output, on both test data."""
    train, *tests = draw(case, seed)
    coefficients = estimate(*train, method)
    return {
        name: float(np.mean((y - x @ coefficients) ** 2) / np.var(y))
        for name, (x, y) in zip(('clean', 'noisy'), tests, strict=True)
    }


FAMILY = Family(
    'regression with noisy inputs, of which many are redundant or irrelevant',
    tuple(PANELS),
    {
        CORRECTED: 'errors in variables where the data reveal the noise of inputs, else `factors`',
        FACTORS: 'Bayesian joint factor analysis, the method of the paper, for noiseless inputs '
        '(eq. 4)',
        PREDICTOR: 'the same fit as a predictor from noisy inputs (eq. 3)',
        LIKELIEST: 'maximum-likelihood joint factor analysis, as such a predictor',
        **dict.fromkeys(REGRESSIONS, ''),
    },
    {
        'clean': 'squared error over variance, from noiseless inputs',
        'noisy': 'squared error over variance, from noisy inputs to noisy outputs',
    },
    measure,
    ((CORRECTED, 'clean'), (FACTORS, 'clean'), (PREDICTOR, 'noisy')),
    tuple(REGRESSIONS),
    [f'benchmarks/identify/{name}.py' for name in (
        'baselines', 'errors_in_variables', 'joint_factors', 'regression',
    )],
)  # fmt: skip
