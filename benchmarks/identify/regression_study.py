"""
Study `regression`: the benchmark of Ting et al. (2006), Fig. 2, on noiseless test data.

Data are those of their section IV.A: noisy inputs, of which many are redundant or irrelevant.
"""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
from dataclasses import dataclass
import itertools
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.identify import bayesian_factor_analysis, errors_in_variables
from benchmarks.identify.errors_in_variables import check_data
from benchmarks.identify.study import Study, StudySettings, load_library
from emppi_ros.core.config import between, key, one_of, positive
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common import options as fields

Array = npt.NDArray[np.float64]
RELEVANT = 10
MIXTURES = ((90, 0), (0, 90), (30, 60), (60, 30))  # redundant and irrelevant inputs
Regression = Callable[[Array, Array], Array]
SNRS = (2.0, 5.0)


@dataclass(frozen=True)
class RegressionSetup:
    """Parameters of the data; signal-to-noise ratios are ratios of variances."""

    redundant: int = between(0, 1000)
    irrelevant: int = between(0, 1000)
    input_snr: float = positive()
    output_snr: float = positive(5.0)
    rows: int = between(2, 1_000_000, 1000, doc='of training data and of test data')
    covariance: str = one_of(
        'wishart',
        'mild',
        default='wishart',
        doc="of the relevant inputs: A A', A normal; or with eigenvalues from 1 to 2 only",
    )
    unlike: float = positive(1.0, doc='largest factor between the noise of inputs, either way')
    scaled: bool = key(False, doc='whether inputs are scaled to unit variance')


class RegressionData(NamedTuple):
    """Noisy training data and noiseless test data."""

    x: Array  # (n, d)
    y: Array  # (n,)
    clean_x: Array
    clean_y: Array


def generate_data(setup: RegressionSetup, rng: np.random.Generator) -> RegressionData:
    """Return data whose relevant inputs, the first ten, have coefficients 1, 2, ..., 10."""
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

    return RegressionData(*draw(1.0), *draw(0.0))


def prediction_error(coefficients: Array, data: RegressionData) -> float:
    """Return the mean squared error on noiseless data, over the variance of the output."""
    residual = data.clean_y - data.clean_x @ coefficients
    return float(np.mean(residual**2) / np.var(data.clean_y))


def _covariance(kind: str, rng: np.random.Generator) -> Array:
    square = rng.standard_normal((RELEVANT, RELEVANT))
    if kind == 'wishart':
        return square @ square.T
    turned = np.linalg.qr(square)[0]
    return (turned * rng.uniform(1.0, 2.0, RELEVANT)) @ turned.T


def regress_noisy_inputs(x: Array, y: Array) -> Array:
    """
    Return coefficients (d,) for noiseless inputs from noisy data x (n, d) and y (n,).

    Errors-in-variables regression is by far more accurate if inputs are correlated and have equal
    shares of noise, and inaccurate otherwise. If it reports that the noise is not identified,
    joint factor analysis is used. IdentificationError if the data are invalid.
    """
    check_data(x, y)
    changing = np.ptp(x, axis=0) > 0.0
    if not changing.any():
        raise IdentificationError('inputs: none changes: record more motion')
    used = np.compress(changing, x, axis=1)  # memory layout as x: the same rounding
    fit = errors_in_variables.regress(used, y)
    coefficients = np.zeros(x.shape[1])
    coefficients[changing] = (
        fit.coefficients if fit.certain else bayesian_factor_analysis.regress(used, y)
    )
    return coefficients


def baselines() -> Mapping[str, Regression]:
    """Return the methods of libraries; IdentificationError if the extra is not installed."""
    return load_library('benchmarks.identify.regression_baselines').BASELINES


def own_methods() -> Mapping[str, Regression]:
    """Return the methods of this package: the default, and that of the paper."""
    return {'default': regress_noisy_inputs, 'factors': bayesian_factor_analysis.regress}


def panels(options: 'RegressionOptions') -> Iterator[RegressionSetup]:
    """Yield the eight panels of Fig. 2: four mixtures of inputs by two noise levels."""
    for snr, mixture in itertools.product(SNRS, MIXTURES):
        yield RegressionSetup(*mixture, snr, **dataclasses.asdict(options))


def measure(
    setup: RegressionSetup, methods: Mapping[str, Regression], trials: int, seed: int
) -> dict[str, Array]:
    """Return the errors (trials,) of each method on the same data."""
    errors: dict[str, list[float]] = {name: [] for name in methods}
    for trial in range(trials):
        panel = int(setup.input_snr), setup.redundant, setup.irrelevant
        data = generate_data(setup, np.random.default_rng([seed, trial, *panel]))
        units = data.x.std(axis=0) if setup.scaled else np.ones(data.x.shape[1])
        for name, method in methods.items():
            errors[name].append(prediction_error(method(data.x / units, data.y) / units, data))
    return {name: np.array(values) for name, values in errors.items()}


def summarize(
    setup: RegressionSetup, errors: Mapping[str, Array], others: Mapping[str, Regression]
) -> dict[str, Any]:
    """Return the mean errors of a panel, and the improvement over the best baseline."""
    means = {name: float(values.mean()) for name, values in errors.items()}
    best = min(others, key=lambda name: means[name])
    return {
        **dataclasses.asdict(setup),
        'errors': means,
        'best_baseline': best,
        'below_best_percent': {
            name: 100.0 * (1.0 - mean / means[best])
            for name, mean in means.items()
            if name not in others
        },
    }


@dataclass(frozen=True)
class RegressionOptions:
    """Options of the study `regression`."""

    rows: int = fields.count(1000, 'rows of training data')
    covariance: Literal['wishart', 'mild'] = key(
        'wishart',
        doc="covariance of the relevant inputs: A A', or with eigenvalues from 1 to 2",
    )
    unlike: float = key(1.0, doc='noise of inputs varies by up to this factor, either way')
    scaled: bool = key(False, doc='scale inputs to unit variance')


class RegressionStudy(Study):
    """Regression with noisy inputs, after Ting et al. (2006), Fig. 2."""

    description = 'regressions with noisy inputs'
    options = RegressionOptions

    def run(self, options: RegressionOptions, settings: StudySettings) -> dict[str, Any]:
        """Return the errors of all methods for each panel."""
        others = baselines()
        methods = {**own_methods(), **others}
        setups = list(panels(options))
        rows = []
        with settings.progress('regressions', len(setups), 'panels') as advance:
            for i, setup in enumerate(setups):
                errors = measure(setup, methods, settings.trials, settings.seed)
                rows.append(summarize(setup, errors, others))
                advance(i + 1)
        return {'trials': settings.trials, 'seed': settings.seed, 'panels': rows}

    def show(self, results: Mapping[str, Any]) -> None:
        """Print a row per panel."""
        names = results['panels'][0]['errors']
        print(f'{"SNR":>4} {"redundant":>9} {"irrelevant":>10}', *(f'{m:>9}' for m in names))
        for panel in results['panels']:
            below = panel['below_best_percent'].items()
            print(
                f'{panel["input_snr"]:4.0f} {panel["redundant"]:9} {panel["irrelevant"]:10}',
                *(f'{error:9.4f}' for error in panel['errors'].values()),
                f' against {panel["best_baseline"]}:',
                *(f'{name} {-percent:+.0f} %' for name, percent in below),
            )
