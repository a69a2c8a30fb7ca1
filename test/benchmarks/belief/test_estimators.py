"""Estimators against exact posteriors, and the rules that all of them follow."""

from collections.abc import Callable
import math
from pathlib import Path
import sys

import numpy as np
import pytest
from scipy import stats

from benchmarks.belief import compute, estimators, worlds
from benchmarks.belief.estimators import ESTIMATORS, EstimatorKind, GaussianEstimator
from benchmarks.belief.runs import BeliefCell
from benchmarks.belief.scores import ParameterScores
from emppi_ros.belief.particle_filter import FilterUpdate
from emppi_ros.core import weights
from emppi_ros.core.errors import ConfigError
from emppi_ros.priors.distributions import to_unbounded
from emppi_ros.tasks.task import Task, load_task

MASS = 'mass'
PRIOR_SD = math.exp(0.125) * math.sqrt(math.exp(0.25) - 1.0)  # lognormal, median 1, sd 0.5
MADE = [name for name, kind in ESTIMATORS.items() if kind.made_by]


@pytest.fixture
def task(small: Path) -> Task:
    """Return a cart of unknown mass, whose velocity is compared."""
    return load_task(str(small))


@pytest.mark.parametrize('columns', [1, 2, 5])
def test_standard_draws_have_the_moments_and_quantiles_of_a_normal_distribution(
    columns: int,
) -> None:
    draws = estimators.standard_normal(columns)
    np.testing.assert_allclose(draws.mean(axis=0), 0.0, atol=1e-12)  # rounding
    np.testing.assert_allclose(draws.T @ draws / len(draws), np.eye(columns), atol=1e-12)
    for probability in (0.05, 0.25, 0.75, 0.95):
        # a spacing of 1/128 in probability is 0.08 sd at the outer quantiles
        found = weights.quantile(np.zeros(len(draws)), draws, probability)
        np.testing.assert_allclose(found, stats.norm.ppf(probability), atol=0.1)


@pytest.mark.parametrize('name', MADE)
def test_without_measurements_the_belief_has_the_priors_moments(name: str, task: Task) -> None:
    estimator = estimators.make(ESTIMATORS[name], task, 0)
    belief = estimator.belief
    sample = task.prior.sample(10_000, np.random.default_rng(0))
    mean, sd = weights.mean(belief.log_weights, belief.theta), belief.theta.std(axis=0)
    # the normal distribution in unbounded coordinates is not the prior: a tenth of its sd
    np.testing.assert_allclose(mean, sample.mean(axis=0), atol=0.1 * sample.std())
    np.testing.assert_allclose(sd, sample.std(axis=0), rtol=0.15)


def found(cells: list[BeliefCell]) -> dict[str, list[ParameterScores]]:
    """Return the scores of the mass by estimator; those that share a run are computed in one."""
    runs: dict[object, list[BeliefCell]] = {}
    for cell in cells:
        runs.setdefault(cell.shared_run, []).append(cell)
    scores: dict[str, list[ParameterScores]] = {}
    for row in (row for shared in runs.values() for row in compute.compute(shared)):
        scores.setdefault(row.estimator, []).append(row.scores[MASS])
    return scores


@pytest.mark.slow
def test_estimators_that_observe_leave_the_run_as_it_is(
    make_cells: Callable[..., list[BeliefCell]],
) -> None:
    cells = make_cells(estimators.EMPPI, estimators.UKF, estimators.WINDOW, duration_s=0.5)
    alone, beside = compute.compute(cells[:1])[0], compute.compute(cells)[0]
    same = ('success', 'time_s', 'scores', 'series', 'updates', 'digest')
    assert [getattr(alone, key) for key in same] == [getattr(beside, key) for key in same]


@pytest.mark.slow
def test_every_estimator_finds_the_mass_of_a_cart(
    make_cells: Callable[..., list[BeliefCell]],
) -> None:
    names = estimators.EMPPI, estimators.FROZEN, *MADE
    scores = found(make_cells(*names))
    assert set(scores) == set(names)
    for name, (row,) in scores.items():
        assert row.sd < 0.2 * PRIOR_SD, name
        # a correct one fails in 1 of 16 000
        assert abs(row.mean - row.true) < 4.0 * row.sd, name


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures('jump')
def test_estimators_that_expect_changes_follow_a_jump_and_a_frozen_one_does_not(
    make_cells: Callable[..., list[BeliefCell]],
) -> None:
    names = estimators.EMPPI, *MADE, estimators.FROZEN
    scores = found(make_cells(*names, world=worlds.JUMP, seeds=tuple(range(5))))
    frozen = scores.pop(estimators.FROZEN)
    assert not any(row.recovered_s is not None for row in frozen)
    assert set(scores) == {*names} - {estimators.FROZEN}
    for name, ours in scores.items():
        # a 90 % interval misses now and then: fewer than three of five would be one in a hundred
        assert sum(row.recovered_s is not None for row in ours) >= 3, name
        pairs = zip(ours, frozen, strict=True)
        assert all(a.log_score > b.log_score for a, b in pairs), name


@pytest.mark.parametrize('name', [estimators.PRIOR, estimators.TRUTH])
def test_without_an_estimator_only_success_counts(
    name: str, make_cells: Callable[..., list[BeliefCell]]
) -> None:
    (row,) = compute.compute(make_cells(name))
    assert row.success is not None and not row.scores and row.updates == 0


class Certain(GaussianEstimator):
    """Believes that the mass is 2 kg, whatever is measured."""

    def __init__(self, task: Task, seed: int) -> None:
        super().__init__(task)
        self.mean = to_unbounded(task.parameters, np.array([[2.0]]))[0]
        self.covariance = np.full((1, 1), 1e-8)

    def observe(self, stamp: float, observation: object, commands: object) -> FilterUpdate:
        return FilterUpdate(1.0, False, False)

    def restart(self) -> None: ...

    def activate(self, equalities: object) -> None: ...


@pytest.mark.slow
@pytest.mark.usefixtures('jump')
def test_an_estimator_is_compared_after_one_line_in_the_registry(
    monkeypatch: pytest.MonkeyPatch, make_cells: Callable[..., list[BeliefCell]]
) -> None:
    kind = EstimatorKind('always 2 kg', made_by=f'{__name__}:Certain', in_loop=False)
    monkeypatch.setitem(ESTIMATORS, 'certain', kind)
    (row,) = compute.compute(make_cells('certain', world=worlds.JUMP))
    scored = row.scores[MASS]
    assert scored.recovered_s is None
    # the truth is 2 kg for 0.5 s, which do not count, and then 4: the CRPS is the error. The
    # sd of the prior is that of 10 000 draws, of 3 %: three of its standard deviations
    assert scored.crps == pytest.approx(2.0 / PRIOR_SD, rel=0.1)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, task: Task) -> None:
    monkeypatch.setitem(sys.modules, 'filterpy.kalman', None)
    with pytest.raises(ConfigError, match=r"pip install 'emppi_ros\[bench\]'"):
        estimators.make(ESTIMATORS[estimators.UKF], task, 0)
