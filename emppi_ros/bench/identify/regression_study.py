"""`emppi bench identify`: the benchmark of Ting et al. (2006), Fig. 2, on noiseless test data."""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
import importlib

import numpy as np
import numpy.typing as npt

from emppi_ros.bench.identify import bayesian_factor_analysis, regression, regression_data
from emppi_ros.bench.identify.regression_data import MIXTURES, RegressionSetup
from emppi_ros.core.errors import IdentificationError

Array = npt.NDArray[np.float64]
Regression = Callable[[Array, Array], Array]
SNRS = (2.0, 5.0)


def baselines() -> Mapping[str, Regression]:
    """Return the methods of libraries; IdentificationError if their extra is not installed."""
    try:
        return importlib.import_module('emppi_ros.bench.identify.regression_baselines').ALL
    except ModuleNotFoundError as error:
        raise IdentificationError(
            f"{error.name} is not installed: pip install 'emppi_ros[identify]'"
        ) from None


def ours() -> Mapping[str, Regression]:
    """Return the methods of this package: the default, and that of the paper."""
    return {
        'default': regression.regress,
        'factors': bayesian_factor_analysis.regress,
    }


def setups(rows: int, covariance: str, unlike: float, scaled: bool) -> Iterator[RegressionSetup]:
    """Yield the eight panels of Fig. 2: four mixtures of inputs by two levels of noise."""
    for snr in SNRS:
        for redundant, irrelevant in MIXTURES:
            yield RegressionSetup(
                redundant,
                irrelevant,
                snr,
                rows=rows,
                covariance=covariance,
                unlike=unlike,
                scaled=scaled,
            )


def measure(
    setup: RegressionSetup, methods: Mapping[str, Regression], trials: int, seed: int
) -> dict[str, Array]:
    """Return each method's errors (trials,), all of them on the same data."""
    errors: dict[str, list[float]] = {name: [] for name in methods}
    for trial in range(trials):
        panel = int(setup.input_snr), setup.redundant, setup.irrelevant
        data = regression_data.generate(setup, np.random.default_rng([seed, trial, *panel]))
        units = data.x.std(axis=0) if setup.scaled else np.ones(data.x.shape[1])
        for name, method in methods.items():
            errors[name].append(
                regression_data.error(method(data.x / units, data.y) / units, data)
            )
    return {name: np.array(values) for name, values in errors.items()}


def summarize(
    setup: RegressionSetup, errors: Mapping[str, Array], others: Mapping[str, Regression]
) -> dict:
    """Return a panel's mean errors, and how far ours are below the best of the others."""
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
