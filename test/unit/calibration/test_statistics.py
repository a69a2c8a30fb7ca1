"""Intervals: the identities that define them, exact small cases, and their coverage."""

import numpy as np
import pytest
from scipy import stats

from emppi_ros.calibration import statistics
from emppi_ros.calibration.statistics import median, share

Z = stats.norm.ppf(0.975)
SIZES = [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (18, 20), (119, 120)]


@pytest.mark.parametrize(('count', 'total'), SIZES)
def test_wilsons_bounds_are_where_the_score_test_is_just_not_rejected(count, total):
    found = share([True] * count + [False] * (total - count))
    assert (found.count, found.total, found.rate) == (count, total, count / total)
    for bound in (found.low, found.high):
        # rounding: a bound solves this quadratic equation, whose terms are below 4 + n
        left, right = total * (found.rate - bound) ** 2, Z**2 * bound * (1.0 - bound)
        assert left == pytest.approx(right, abs=1e-12 * (4 + total))
    assert 0.0 <= found.low <= found.rate <= found.high <= 1.0


@pytest.mark.parametrize(('count', 'total'), SIZES)
def test_failures_have_the_mirrored_interval_of_successes(count, total):
    hits = [True] * count + [False] * (total - count)
    one, other = share(hits), share([not hit for hit in hits])
    # rounding of numbers up to 1
    assert (1.0 - other.high, 1.0 - other.low) == pytest.approx((one.low, one.high), abs=1e-14)


@pytest.mark.parametrize('total', [10, 20, 120])
def test_wilsons_interval_covers_95_percent_on_average(total):
    intervals = [share([True] * k + [False] * (total - k)) for k in range(total + 1)]
    rates = np.linspace(0.02, 0.98, 49)
    covered = [
        sum(stats.binom.pmf(s.count, total, p) for s in intervals if s.low <= p <= s.high)
        for p in rates
    ]
    # exact, no draws; it swings with p. Agresti and Coull (1998) find averages within 0.01 of
    # 0.95 at these sizes, and no p within these rates below 0.83
    assert abs(np.mean(covered) - 0.95) < 0.012 and min(covered) > 0.83


def test_a_share_in_words():
    assert str(share([True] * 18 + [False] * 2)) == '18/20 (70 %-97 %)'


@pytest.mark.parametrize('total', range(6, 60))
def test_the_interval_of_a_median_is_the_innermost_with_enough_probability(total):
    found = median(range(1, total + 1))
    ranks = int(found.low), int(found.high)
    assert sum(ranks) == total + 1  # as many values below as above
    covered = 1.0 - 2.0 * stats.binom.cdf(ranks[0] - 1, total, 0.5)
    narrower = 1.0 - 2.0 * stats.binom.cdf(ranks[0], total, 0.5)
    assert covered >= statistics.CONFIDENCE > narrower


def test_the_interval_of_a_median_covers_it_whatever_the_distribution(rng):
    exact = np.log(2.0)
    founds = [median(rng.exponential(1.0, 20)) for _ in range(2000)]
    hits = np.mean([found.low <= exact <= found.high for found in founds])
    # ranks 6 and 15 of 20 cover 0.9586; four standard errors of 2000 draws
    assert hits == pytest.approx(0.9586, abs=4.0 * np.sqrt(0.9586 * 0.0414 / 2000))


def test_a_median_bears_what_never_happens():
    found = median([0.5, 1.0, 1.5, np.inf, np.inf, np.inf, np.inf])
    assert (found.median, found.low, found.high) == (np.inf, 0.5, np.inf)
    assert str(found) == 'inf (0.5 to inf)'
    assert median([1.0, 2.0]) == (1.5, None, None, 2) and str(median([1.0, 2.0])) == '1.5'


def test_the_confidence_is_what_the_texts_say():
    assert statistics.CONFIDENCE == 0.95


@pytest.mark.parametrize(('count', 'total'), SIZES)
def test_the_mean_of_true_and_false_shares_has_wilsons_interval(count, total):
    hits = [True] * count + [False] * (total - count)
    one, other = statistics.mean_share([float(hit) for hit in hits]), share(hits)
    # rounding of numbers up to 1
    assert (one.mean, one.low, one.high) == pytest.approx(
        (other.rate, other.low, other.high), abs=1e-12
    )


def test_the_interval_of_a_mean_share_covers_more_than_required_if_shares_vary_less():
    rng, runs = np.random.default_rng(0), 4000
    found = [statistics.mean_share(rng.beta(4.0, 1.0, 12)) for _ in range(runs)]
    covered = np.mean([one.low <= 0.8 <= one.high for one in found])
    # four standard deviations of the share of 4000 draws
    assert covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / runs)
