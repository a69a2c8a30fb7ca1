"""Scores against exact values and laws."""

import math

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from benchmarks.belief import scores
from emppi_ros.calibration import belief_scores

FLAT = np.zeros(1)
finite = st.floats(-1e3, 1e3)


@given(value=finite, truth=finite)
def test_the_crps_of_a_point_mass_is_the_absolute_error(value: float, truth: float) -> None:
    # to rounding of one subtraction
    found = scores.crps(FLAT, np.array([value]), truth)
    assert found == pytest.approx(abs(value - truth), abs=1e-9)


@given(values=st.lists(finite, min_size=1, max_size=8), truth=finite, data=st.data())
def test_the_crps_is_the_integral_of_the_squared_difference_of_the_distributions(
    values: list[float], truth: float, data: st.DataObject
) -> None:
    size = len(values)
    shares = np.array(data.draw(st.lists(st.floats(0.01, 1.0), min_size=size, max_size=size)))
    x = np.array(values)
    edges = np.sort(np.append(x, truth))
    middles = 0.5 * (edges[:-1] + edges[1:])
    below = (shares * (x <= middles[:, None])).sum(axis=1) / shares.sum()
    exact = np.diff(edges) @ (below - (truth <= middles)) ** 2
    # rounding of sums of up to nine values of size 1e3
    assert scores.crps(np.log(shares), x, truth) == pytest.approx(exact, abs=1e-9)


def test_the_crps_of_many_draws_is_that_of_the_normal_distribution() -> None:
    x, truth = np.random.default_rng(0).standard_normal(100_000), 0.7
    density = math.exp(-0.5 * truth**2) / math.sqrt(2.0 * math.pi)
    above = math.erfc(truth / math.sqrt(2.0)) / 2.0
    exact = truth * (1.0 - 2.0 * above) + 2.0 * density - 1.0 / math.sqrt(math.pi)
    # sd of |x - truth| is below 1: five standard errors of 1e5 draws
    assert scores.crps(np.zeros(len(x)), x, truth) == pytest.approx(exact, abs=5e-3 * math.pi)


@pytest.mark.slow
def test_intervals_of_calibrated_beliefs_hold_the_truth_as_often_as_they_say() -> None:
    rng, runs = np.random.default_rng(1), 2000
    hits = {0.5: 0, 0.9: 0}
    for _ in range(runs):
        mean = rng.standard_normal()
        draws, truth = mean + rng.standard_normal(400), mean + rng.standard_normal()
        for probability in hits:
            hits[probability] += belief_scores.is_inside(np.zeros(400), draws, truth, probability)
    for probability, count in hits.items():
        # four binomial standard deviations, and half a draw of 400 at either end
        error = 4.0 * math.sqrt(probability * (1.0 - probability) / runs) + 1.0 / 400
        assert count / runs == pytest.approx(probability, abs=error)


def test_the_log_score_of_the_truths_own_distribution_is_the_best() -> None:
    truths = np.random.default_rng(2).normal(0.3, 0.5, 20_000)

    def mean(center: float, sd: float) -> float:
        return float(
            np.mean([belief_scores.normal_log_score(center, sd, truth) for truth in truths])
        )

    best = mean(0.3, 0.5)
    assert all(mean(*other) < best for other in ((0.3, 0.4), (0.3, 0.6), (0.2, 0.5), (0.4, 0.5)))
    entropy = 0.5 * math.log(2.0 * math.pi * math.e * 0.25)
    # sd of a score is sqrt(1/2): five standard errors of 2e4 draws
    assert best == pytest.approx(-entropy, abs=5.0 * math.sqrt(0.5 / 20_000))


def test_a_recovery_begins_when_the_interval_keeps_the_truth() -> None:
    stamps = np.arange(0.0, 4.0, 0.1)
    inside = (np.abs(stamps - 1.3) < 0.05) | (stamps > 1.95)  # a moment at 1.3, then from 2.0 on
    assert scores.recovery_time(stamps, inside, 1.0) == pytest.approx(1.0)
    assert scores.recovery_time(stamps, inside, 3.0) == pytest.approx(0.0)
    assert scores.recovery_time(stamps, inside, 3.6) is None  # too little time is left
    assert scores.recovery_time(stamps, np.zeros(40, dtype=bool), 1.0) is None
    assert scores.recovery_time(stamps[:0], inside[:0], 0.0) is None


def test_coverage_counts_from_one_second_after_the_start_and_each_change() -> None:
    stamps = np.array([0.5, 1.0, 4.9, 5.0, 5.9, 6.0, 9.0])
    counted = scores.settled(stamps, [5.0])
    assert stamps[counted].tolist() == [1.0, 4.9, 6.0, 9.0]
