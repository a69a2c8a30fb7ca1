"""The cheapest calibrated setting is recommended, and no claim is larger than its interval."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from emppi_ros.calibration import recommendation, summary
from emppi_ros.calibration.runs import OWN, BeliefSetting

EXACT, NARROW, BIASED, VAGUE = (1.0, 0.0), (0.25, 0.0), (1.0, 4.0), (3.0, 0.0)
RUNS = 80


def recommend(results: Any) -> recommendation.Recommendation:
    names = list(results[0].settings)
    settings = [BeliefSetting(n, {} if n == OWN else {'particles': 7}) for n in names]
    return recommendation.recommend(results, settings)


def test_an_exact_posterior_is_calibrated_and_kept(conjugate: Callable[..., Any]) -> None:
    found = recommend(conjugate(RUNS, own=(*EXACT, 1), dear=(*EXACT, 4)))
    assert found.calibrated and not found.changes and recommendation.is_calibrated(found.checked)
    assert set(found.compatible) == {OWN, 'dear'}


@pytest.mark.parametrize('wrong', [NARROW, BIASED])
def test_an_overconfident_belief_is_detected(
    conjugate: Callable[..., Any], wrong: tuple[float, float]
) -> None:
    results = conjugate(RUNS, own=(*wrong, 1))
    one = summary.summarize(results, OWN)
    assert not recommendation.is_calibrated(one)
    assert 'too certain, or biased' in recommendation.judgement(one)
    found = recommend(results)
    assert not found.calibrated
    text = ' '.join(recommendation.sentences(results, found))
    assert 'No setting of those compared is calibrated' in text and 'best log score' in text


def test_the_cheapest_calibrated_setting_is_chosen(conjugate: Callable[..., Any]) -> None:
    found = recommend(
        conjugate(
            RUNS,
            own=(*NARROW, 1),
            cheap=(*BIASED, 1),
            middle=(*VAGUE, 2),
            dear=(*EXACT, 4),
        )
    )
    # `dear` has the better log score, but `middle` is calibrated as far as 40 runs can tell
    assert found.compatible == ('middle', 'dear')
    assert found.setting.name == 'middle' and found.calibrated


def test_own_settings_yield_only_to_a_log_score_better_beyond_chance(
    conjugate: Callable[..., Any],
) -> None:
    results = conjugate(RUNS, own=(*VAGUE, 1), sharp=(*EXACT, 1), alike=(3.0, 0.01, 1))
    found = recommend(results)
    assert found.setting.name == 'sharp' and found.gain.low > 0.0
    alike = recommend(conjugate(RUNS, own=(*EXACT, 1), alike=(1.0, 0.01, 1)))
    assert alike.setting.name == OWN


def test_runs_on_which_a_setting_is_chosen_do_not_check_it(
    conjugate: Callable[..., Any],
) -> None:
    good, bad = (conjugate(RUNS, own=(*one, 1)) for one in (EXACT, NARROW))  # the same truths
    mixed = [pair[i % 2] for i, pair in enumerate(zip(good, bad, strict=True))]
    found = recommend(mixed)
    assert found.calibrated and not recommendation.is_calibrated(found.checked)
    assert 'fails this check' in ' '.join(recommendation.sentences(mixed, found))


def test_truths_beyond_the_prior_count_only_as_such(conjugate: Callable[..., Any]) -> None:
    beyond = range(3, RUNS, 4)
    results = conjugate(RUNS, beyond, own=(*EXACT, 1))
    one = summary.parameters(results, OWN)['mean']
    assert one.inside_end.total == sum(one.ranks.counts) == RUNS - len(beyond)
    assert one.beyond is not None and one.beyond.total == len(beyond)
    # the prior pulls means by 0.8, nearly two of the posterior's standard deviations
    assert 'widen the prior' in ' '.join(recommendation.sentences(results, recommend(results)))


def test_few_runs_claim_little(conjugate: Callable[..., Any]) -> None:
    results = conjugate(8, own=(*EXACT, 1))
    text = recommendation.sentences(results, recommend(results))
    assert any('more --runs tell more' in line for line in text)


def test_a_parameter_without_information_hardly_shows(conjugate: Callable[..., Any]) -> None:
    results = conjugate(RUNS, own=(2.2, 0.0, 1))  # as wide as the prior
    assert summary.parameters(results, OWN)['mean'].shows == 'hardly shows'
    clear = summary.parameters(conjugate(RUNS, own=(*EXACT, 1)), OWN)['mean']
    assert clear.shows == 'shows'


@pytest.mark.parametrize('runs', [9, 15, 40])
def test_settings_as_good_as_the_own_seldom_replace_them(
    runs: int, rng: np.random.Generator
) -> None:
    trials, others = 400, 8
    gains = rng.standard_normal((trials, others, runs))
    left = [any(recommendation.is_better(one.tolist(), others) for one in row) for row in gains]
    # at most 5 %; four standard deviations of the share of 400 trials
    assert np.mean(left) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / trials)
