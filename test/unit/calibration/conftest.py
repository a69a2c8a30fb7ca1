"""
Beliefs about a mean with a conjugate prior, whose posterior is exact.

The prior of the mean is N(0, 1), and one observation has the noise of N(0, sd^2). A factor makes
the posterior too narrow or too wide, a shift biased.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from emppi_ros.calibration import belief_scores
from emppi_ros.calibration.runs import OWN, JudgedParameter, RunResult, SettingResult

NOISE = 0.5
PARTICLES = 200


@pytest.fixture
def conjugate() -> Callable[..., list[RunResult]]:
    """Return a function that makes runs; each setting has factor, shift and cost."""

    def make(
        runs: int, beyond: Sequence[int] = (), **settings: tuple[float, float, int]
    ) -> list[RunResult]:
        rng = np.random.default_rng(1)
        results = []
        for seed in range(runs):
            truth = 4.0 if seed in beyond else rng.standard_normal()
            mean, sd = posterior(truth + NOISE * rng.standard_normal())
            draws = rng.standard_normal(PARTICLES)
            of = {
                OWN if name == 'own' else name: SettingResult(
                    {'mean': judge(mean + shift * sd + factor * sd * draws, truth, rng)},
                    ess=1.0,
                    reinjected=0,
                    misfit=(),
                    unidentifiable=(),
                    particles=cost,
                    update_ms=float(cost),
                )
                for name, (factor, shift, cost) in settings.items()
            }
            results.append(RunResult(seed, 'mean' if seed in beyond else '', of, 0.0))
        return results

    return make


def posterior(observed: float) -> tuple[float, float]:
    """Return mean and standard deviation given an observation."""
    precision = 1.0 + 1.0 / NOISE**2
    return observed / NOISE**2 / precision, precision**-0.5


def judge(values: np.ndarray, truth: float, rng: np.random.Generator) -> JudgedParameter:
    """Return the scores of particles of equal weight."""
    flat = np.full(len(values), -np.log(len(values)))
    low, high = np.quantile(values, [0.05, 0.95])
    mean, sd = values.mean(), values.std()
    return JudgedParameter(
        float(belief_scores.is_inside(flat, values, truth, 0.5)),
        float(belief_scores.is_inside(flat, values, truth, 0.9)),
        ((truth - mean) / sd) ** 2,
        belief_scores.normal_log_score(mean, sd, truth),
        **{'true': truth, 'mean': mean, 'low': low, 'high': high},
        rank=belief_scores.rank(flat, values, truth, rng),
        contraction=1.0 - values.var(),
    )
