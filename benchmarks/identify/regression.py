"""
Family `regression`: noisy inputs, many redundant or irrelevant, after Ting et al. (2006), Fig. 2.

The paper gives neither the number of rows nor the distribution of its random covariance; here it
is A A' of a normal 10 x 10 matrix A.
"""

from collections.abc import Iterator, Sequence
import functools
from typing import NamedTuple

import numpy as np

from benchmarks.identify import errors_in_variables, joint_factors
from benchmarks.identify.baselines import BASELINES, scaled
from benchmarks.identify.cells import Family, IdentifyRow, Values, mean_of, table_of
from benchmarks.study import grouped
from emppi_ros.core.arrays import Array

ROWS, OUTPUT_SNR = 1000, 5.0  # of training data and of each test; a ratio of variances
TRUE = np.arange(1.0, 11.0)  # coefficients of the relevant inputs, which are the first
CORRECTED, FACTORS, PREDICTOR = 'corrected', 'factors', 'factors-noisy'
METHODS = {
    CORRECTED: 'ours: errors in variables if the data reveal the noise of inputs, else `factors`',
    FACTORS: 'Bayesian joint factor analysis, for noiseless inputs (eq. 4)',
    PREDICTOR: 'the same fit as a predictor from noisy inputs (eq. 3)',
    'joint-factors': 'maximum-likelihood joint factor analysis (Fig. 1 b), as such a predictor',
    **{name: text for name, (_, text) in BASELINES.items()},
}  # fmt: skip


class Panel(NamedTuple):
    """A panel of the figure."""

    input_snr: float  # of the relevant inputs, of variances
    redundant: int  # inputs that are convex combinations of the noisy relevant ones
    irrelevant: int


PANELS = {
    f'{kind}, SNR {snr:g}': Panel(snr, redundant, irrelevant)
    for snr in (2.0, 5.0)
    for kind, redundant, irrelevant in (
        ('90 redundant', 90, 0),
        ('90 irrelevant', 0, 90),
        ('30 redundant, 60 irrelevant', 30, 60),
        ('60 redundant, 30 irrelevant', 60, 30),
    )
}


class RegressionData(NamedTuple):
    """Inputs (n, d) and output (n,)."""

    x: Array
    y: Array


@functools.lru_cache(maxsize=1)
def draw(case: str, seed: int, rows: int = ROWS) -> tuple[RegressionData, ...]:
    """Return training data, noiseless test data and noisy test data."""
    panel = PANELS[case]
    rng = np.random.default_rng([seed, *map(int, panel)])
    square = rng.standard_normal((len(TRUE), len(TRUE)))
    covariance = square @ square.T
    factor = np.linalg.cholesky(covariance)
    combinations = rng.dirichlet(np.ones(len(TRUE)), size=panel.redundant)
    input_sd = np.sqrt(np.diag(covariance) / panel.input_snr)
    output_sd = np.sqrt(TRUE @ covariance @ TRUE / OUTPUT_SNR)

    def data(noise: float) -> RegressionData:
        t = rng.standard_normal((rows, len(TRUE))) @ factor.T
        x = t + noise * input_sd * rng.standard_normal(t.shape)
        y = t @ TRUE + noise * output_sd * rng.standard_normal(rows)
        others = rng.standard_normal((rows, panel.irrelevant))
        return RegressionData(np.hstack([x, x @ combinations.T, others]), y)

    return data(1.0), data(0.0), data(1.0)


@functools.lru_cache(maxsize=1)
def fit_factors(case: str, seed: int) -> joint_factors.FactorPosterior:
    """Return the Bayesian fit to scaled training data."""
    x, y = draw(case, seed)[0]
    return joint_factors.fit(x / _size(x), y / _size(y), bayesian=True)


def _size(values: Array) -> Array:
    return np.sqrt(np.mean(values**2, axis=0))


def correct(x: Array, y: Array) -> tuple[Array, bool]:
    """Return coefficients (d,) for noiseless inputs, and whether they identify the noise."""
    columns = errors_in_variables.independent_columns(x)  # in the units of the inputs
    used, coefficients = x[:, columns], np.zeros(x.shape[1])
    fit, identified = errors_in_variables.fit(used / _size(used), y / _size(y))
    coefficients[columns] = fit * _size(y) / _size(used)
    return coefficients, identified


def estimate(case: str, method: str, seed: int) -> Array:
    """Return the coefficients (d,) of a method."""
    x, y = draw(case, seed)[0]
    if method == CORRECTED:
        coefficients, identified = correct(x, y)
        if identified:
            return coefficients
    if method in BASELINES:
        return BASELINES[method][0](x, y)
    if method == 'joint-factors':
        return scaled(lambda x, y: joint_factors.fit(x, y, False).coefficients(noisy=True))(x, y)
    return fit_factors(case, seed).coefficients(method == PREDICTOR) * _size(y) / _size(x)


def measure(case: str, method: str, seed: int) -> Values:
    """Return mean squared errors over the variance of the output, on both test data."""
    coefficients = estimate(case, method, seed)
    errors = {
        name: float(np.mean((data.y - data.x @ coefficients) ** 2) / np.var(data.y))
        for name, data in zip(('clean', 'noisy'), draw(case, seed)[1:], strict=True)
    }
    return errors | {'inputs': float(np.count_nonzero(coefficients))}


def page(rows: Sequence[IdentifyRow]) -> Iterator[str]:
    """Yield a table for each test data and noise level."""
    by_case = grouped(rows, 'case')
    for name, title in (('clean', 'noiseless'), ('noisy', 'noisy')):
        for snr in dict.fromkeys(PANELS[case].input_snr for case in by_case):
            cases = [case for case in by_case if PANELS[case].input_snr == snr]
            lines = {
                method: [mean_of(grouped(by_case[case], 'method')[method], name) for case in cases]
                for method in METHODS
                if all(method in grouped(by_case[case], 'method') for case in cases)
            }
            yield f'Errors on {title} test data, inputs with a signal-to-noise ratio of {snr:g}:'
            yield table_of([case.partition(', SNR')[0] for case in cases], lines)


def answer(rows: Sequence[IdentifyRow]) -> Iterator[str]:
    """Yield how much less or more a method errs than the best baseline of each panel."""
    for method, name, title in (
        (CORRECTED, 'clean', 'noiseless'), (FACTORS, 'clean', 'noiseless'),
        (PREDICTOR, 'noisy', 'noisy'),
    ):  # fmt: skip
        changes = []
        for of in grouped(rows, 'case').values():
            by_method = grouped(of, 'method')
            errors = {m: np.mean([row.values[name] for row in by_method[m]]) for m in by_method}
            others = [error for m, error in errors.items() if m in BASELINES]
            if others and method in errors:
                changes.append(100.0 * float(errors[method] / min(others) - 1.0))
        if changes:
            yield (
                f'Regression, {title} test data: `{method}` errs by {min(changes):+.0f} to '
                f'{max(changes):+.0f} % of the best baseline of each of {len(changes)} panels'
            )


FAMILY = Family(
    'regression with noisy inputs, of which many are redundant or irrelevant',
    tuple(PANELS), METHODS, measure, page, answer,
    tuple(f'benchmarks/identify/{name}.py' for name in (
        'baselines', 'errors_in_variables', 'joint_factors', 'regression',
    )),
)  # fmt: skip
