"""Normalized innovations of a right belief have mean 0 and variance 1; others have not."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.belief.belief_monitor import (
    SMALLEST,
    InnovationStatistics,
    fisher_information,
    learned_excess,
    misfit,
    normalized_innovations,
    persistence,
    remaining_sd,
    unidentifiable,
    unresolved,
)
from emppi_ros.belief.measurement_model import Deviation
from emppi_ros.core import weights
from emppi_ros.priors import particles
from emppi_ros.priors.distributions import to_bounded
from emppi_ros.tasks.task import Task

SD = 0.3  # of a particle's prediction, in those of the measurement


def statistics(rng, bias=0.0, noise=1.0, updates=200, dofs=5, particles=400):
    """Return those of measurements of something drawn from the belief itself."""
    kept = InnovationStatistics()
    uniform = np.full(particles, -np.log(particles))
    for _ in range(updates):
        predicted = rng.normal(0.0, SD, (particles, dofs))
        measured = rng.normal(0.0, SD, dofs) + bias + noise * rng.standard_normal(dofs)
        found = [Deviation('speed', np.arange(dofs), predicted - measured)]
        kept.add(normalized_innovations(uniform, found))
    return kept, *kept.statistics()['speed']


def test_a_right_belief_has_innovations_of_mean_0_and_variance_1(rng):
    kept, mean, variance = statistics(rng)
    # 1000 draws: the mean errs by 0.032, the variance by 0.045; four of these
    assert abs(mean) < 0.13 and abs(variance - 1.0) < 0.18
    assert not kept.excessive


def test_a_bias_is_seen_with_its_sign_and_in_its_unit(rng):
    kept, mean, _ = statistics(rng, bias=2.0)
    expected = 2.0 / np.sqrt(1.0 + SD**2)
    assert mean == pytest.approx(expected, abs=0.13)  # as above
    assert kept.excessive


def test_unexplained_noise_is_variance(rng):
    kept, _, variance = statistics(rng, noise=3.0)
    expected = (9.0 + SD**2) / (1.0 + SD**2)
    assert variance == pytest.approx(expected, rel=0.18)  # as above
    assert kept.excessive


def test_the_unit_is_that_of_measurement_and_weighted_predictions(rng):
    values, log_weights = rng.normal(size=(7, 3)), np.log(rng.dirichlet(np.ones(7)))
    found = normalized_innovations(log_weights, [Deviation('x', np.arange(3), values)])['x']
    spread = np.diag(weights.covariance(log_weights, values))
    expected = -weights.mean(log_weights, values) / np.sqrt(1.0 + spread)
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # rounding


def test_who_diverged_does_not_count_and_nobody_is_no_innovation(rng):
    values, log_weights = rng.normal(size=(4, 2)), np.log(rng.dirichlet(np.ones(4)))
    some = values.copy()
    some[1, 0] = np.nan
    kept = [0, 2, 3]
    found = normalized_innovations(log_weights, [Deviation('x', np.arange(2), some)])['x']
    alone = normalized_innovations(
        log_weights[kept], [Deviation('x', np.arange(2), values[kept])]
    )['x']
    assert np.array_equal(found, alone)
    assert normalized_innovations(log_weights, [Deviation('x', 0, np.full((4, 2), np.nan))]) == {}


def test_parts_of_a_quantity_go_together_and_old_ones_are_forgotten(rng):
    parts = [Deviation('x', i, rng.normal(size=(5, 3))) for i in range(2)]
    assert normalized_innovations(np.zeros(5), parts)['x'].shape == (6,)
    kept = InnovationStatistics()
    for value in [100.0] * 50 + [1.0, -1.0] * 100:
        kept.add({'x': np.array([value])})
    assert kept.statistics() == {'x': (0.0, 1.0)}


def test_the_excess_of_a_quantity_is_its_mean_learned_variance_over_four():
    values = np.zeros((5, 2))
    kinds = [('v', values), ('x', values[:, :1]), ('v', values)]
    parts = [Deviation(quantity, 0, some) for quantity, some in kinds]
    excess = learned_excess(parts, np.array([4.0, 8.0, 1.0, 0.0, 4.0]))
    assert excess == {'v': 1.0, 'x': 0.25}


def test_parameters_whose_scores_vary_too_much_are_a_misfit():
    assert misfit(persistence(['mass', 'friction'], np.array([1.0, 2.6])), []) == ['friction']


def test_a_misfit_ends_only_well_below_the_limit_at_which_it_began():
    raised: list[str] = []
    history = []
    for excess in (0.9, 1.1, 0.9, 0.8, 0.7, 0.9):
        raised = misfit({'speed': excess, 'pose': 0.5}, raised)
        history.append(raised)
    assert history == [[], ['speed'], ['speed'], ['speed'], [], []]


def test_the_innovations_of_each_quantity_exceed_their_limit_separately(rng):
    kept = InnovationStatistics()
    for _ in range(200):
        kept.add({'calm': rng.normal(size=2), 'wild': 2.0 * rng.normal(size=2)})
    # mean squares of 1 and 4, of which 2 is the limit; 400 draws: within 7 %, four of these
    assert kept.excess['calm'] == pytest.approx(0.5, rel=0.3)
    assert kept.excess['wild'] == pytest.approx(2.0, rel=0.3)
    assert misfit(kept.excess, []) == ['wild']


def correlation(rng, count):
    rows = rng.normal(size=(2 * count, count))
    covariance = rows.T @ rows
    scale = np.sqrt(np.diag(covariance))
    return covariance / np.outer(scale, scale)


@given(seed=st.integers(0, 1000), count=st.integers(1, 6), scale=st.floats(1e-3, 1e3))
def test_it_is_the_posterior_of_a_linear_gaussian_model(seed, count, scale):
    rng = np.random.default_rng(seed)
    prior, jacobian = correlation(rng, count), scale * rng.normal(size=(5, count))
    posterior = np.linalg.inv(np.linalg.inv(prior) + jacobian.T @ jacobian)
    found = remaining_sd(fisher_information(jacobian), prior)
    # inverses of matrices with a condition of up to 1e9 or so
    np.testing.assert_allclose(found, np.sqrt(np.diag(posterior)), rtol=1e-5)
    assert np.all(found <= 1.0 + 1e-9)


def test_without_information_all_is_left_and_nobody_is_identifiable():
    found = remaining_sd(np.zeros((3, 3)), np.eye(3))
    assert np.array_equal(found, np.ones(3)) and unidentifiable(found).all()


def test_a_measurement_of_one_says_nothing_of_another():
    found = remaining_sd(fisher_information(np.array([[100.0, 0.0]])), np.eye(2))
    assert found[0] == pytest.approx(1.0 / np.sqrt(1.0 + 100.0**2)) and found[1] == 1.0
    assert unidentifiable(found).tolist() == [False, True]


def test_a_ratio_leaves_both_wide_however_well_it_is_measured():
    found = remaining_sd(fisher_information(np.array([[1e4, -1e4]])), np.eye(2))
    np.testing.assert_allclose(found, np.sqrt(0.5), rtol=1e-6)  # 1/2 + 1/(4e8)


def test_parameters_that_the_prior_ties_together_are_learned_together():
    tied = np.ones((2, 2))  # which has no inverse
    found = remaining_sd(fisher_information(np.array([[3.0, 0.0]])), tied)
    # rounding of an eigenvalue of 0, of which the square root is taken
    np.testing.assert_allclose(found, 1.0 / np.sqrt(10.0), rtol=1e-7)


@pytest.mark.parametrize(('factor', 'named'), [(0.5, ['mass']), (2.0, [])])
def test_a_belief_is_unresolved_below_a_thousandth_of_the_prior(
    make_task: Callable[..., Task], factor: float, named: list[str]
) -> None:
    prior = make_task('slider').prior
    ends = np.array([[-1.0], [1.0]]) * factor * SMALLEST * prior.spread
    theta = to_bounded(prior.parameters, prior.center + ends)  # two points: their sd is known
    assert unresolved(prior, particles.uniform(theta)) == named


def test_certain_parameters_are_never_named(
    make_task: Callable[..., Task], task_data: Callable[..., dict]
) -> None:
    data = task_data('slider')
    data['parameters']['mass']['prior'] = {'distribution': 'fixed', 'value': 2.0}
    belief = particles.uniform(np.full((3, 1), 2.0))
    assert unresolved(make_task('slider', data).prior, belief) == []
