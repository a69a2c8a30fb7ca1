"""Ranks of the truth are uniform for an exact posterior, and show what is wrong with others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from emppi_ros.calibration import belief_scores, recommendation, summary
from emppi_ros.calibration.runs import OWN

RUNS = 400
# the seed is fixed; a calibrated belief fails with one seed out of a thousand
LEVEL = 1e-3


def test_ranks_of_an_exact_posterior_are_uniform(conjugate: Callable[..., Any]) -> None:
    found = summary.parameters(conjugate(RUNS, own=(1.0, 0.0, 1)), OWN)['mean'].ranks
    assert sum(found.counts) == RUNS and len(found.counts) == 20
    assert found.probability > LEVEL


def test_ranks_of_weighted_particles_are_uniform() -> None:
    # particles from the prior, weighted by the likelihood: 2000 leave an effective sample of
    # about 900, whose quantiles are off by less than the width of a bin
    rng, noise = np.random.default_rng(2), 0.5
    found = []
    for _ in range(RUNS):
        truth = rng.standard_normal()
        observed = truth + noise * rng.standard_normal()
        values = rng.standard_normal(2000)
        found.append(
            belief_scores.rank(-0.5 * ((observed - values) / noise) ** 2, values, truth, rng)
        )
    assert summary.histogram(found).probability > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize(
    ('factor', 'shift', 'words'),
    [
        (0.5, 0.0, 'both ends, as of a belief that is too narrow'),
        (2.0, 0.0, 'in the middle, as of a belief that is too wide'),
        (1.0, 1.0, 'lower end: the belief overestimates'),
        (1.0, -1.0, 'upper end: the belief underestimates'),
    ],
)
def test_other_posteriors_are_detected_and_named(
    conjugate: Callable[..., Any], factor: float, shift: float, words: str
) -> None:
    found = summary.parameters(conjugate(RUNS, own=(factor, shift, 1)), OWN)['mean'].ranks
    assert found.probability < 1e-9
    assert words in recommendation.shape(found.counts)


def test_each_rank_is_equally_likely_if_all_draws_equal_the_truth(
    rng: np.random.Generator,
) -> None:
    found = [belief_scores.rank(np.zeros(3), np.ones(3), 1.0, rng) for _ in range(2000)]
    assert summary.histogram(found).probability > LEVEL
    assert (min(found), max(found)) == (0, belief_scores.DRAWS)


@pytest.mark.slow
def test_a_bin_count_is_within_its_band_95_percent_of_the_time(rng: np.random.Generator) -> None:
    draws = rng.integers(belief_scores.DRAWS + 1, size=(2000, 60))
    histograms = [summary.histogram(row.tolist()) for row in draws]
    inside = np.mean([one.low <= one.counts[0] <= one.high for one in histograms])
    # four standard deviations of the share of 2000 draws; counts are whole, so that it may be more
    assert inside >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 2000)
