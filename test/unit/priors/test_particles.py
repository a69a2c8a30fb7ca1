"""The particle belief: Bayes update, when and how it is resampled, what the planner gets."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.core import weights
from emppi_ros.core.errors import BeliefError, DegenerateWeightsError
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import particles
from emppi_ros.priors.distributions import to_unbounded
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.resampling import ResamplingConfig

MASS = Parameter('mass', 'body_mass', 'b', lower=0.01)
FRICTION = Parameter('friction', 'geom_friction', 'g', lower=0.02, upper=1.5)
SHIFT = Parameter('shift', 'body_ipos', 'b')
BOTH = (MASS, FRICTION)


def _belief(rng, count=4000):
    theta = np.column_stack([rng.lognormal(-1.0, 0.4, count), rng.uniform(0.1, 1.4, count)])
    log_weights = -0.5 * ((theta[:, 0] - 0.5) / 0.15) ** 2 - 2.0 * theta[:, 1]
    return Belief(theta, weights.normalize(log_weights))


@given(st.floats(0.01, 0.99), st.floats(-50.0, 0.0), st.floats(-50.0, 0.0))
def test_two_particles_follow_bayes_rule(p, log_a, log_b):
    belief = Belief(np.array([[1.0], [2.0]]), np.log([p, 1.0 - p]))
    after = particles.reweight(belief, np.array([log_a, log_b]))
    expected = p * np.exp(log_a) / (p * np.exp(log_a) + (1.0 - p) * np.exp(log_b))
    # logs of up to 50 are rounded by 4e-15 each
    assert np.exp(after.log_weights[0]) == pytest.approx(expected, rel=1e-12)
    assert after.theta is belief.theta


def test_updates_come_in_any_order_and_constants_do_not_matter(rng):
    belief = _belief(rng, 50)
    first, second = rng.normal(0.0, 3.0, (2, 50))
    forth = particles.reweight(particles.reweight(belief, first), second + 7.0)
    back = particles.reweight(particles.reweight(belief, second), first)
    # sums of numbers up to 30, in another order
    np.testing.assert_allclose(forth.log_weights, back.log_weights, rtol=0, atol=1e-12)


def test_a_diverged_particle_loses_its_weight_for_good():
    belief = particles.uniform(np.ones((3, 1)))
    after = particles.reweight(belief, np.array([0.0, -np.inf, 0.0]))
    after = particles.reweight(after, np.array([0.0, 100.0, 0.0]))
    assert np.exp(after.log_weights).tolist() == pytest.approx([0.5, 0.0, 0.5])


@pytest.mark.parametrize('bad', [[-np.inf] * 3, [0.0, np.nan, 0.0], [np.inf, 0.0, 0.0]], ids=str)
def test_an_update_that_leaves_nobody_or_is_no_number_is_an_error(bad):
    belief = particles.uniform(np.ones((3, 1)))
    with pytest.raises(DegenerateWeightsError):
        particles.reweight(belief, np.array(bad))
    assert np.exp(belief.log_weights) == pytest.approx(1.0 / 3.0)


def test_a_tempered_update_leaves_as_many_particles_as_it_was_told_to(rng):
    count = 200
    belief = Belief(np.zeros((count, 1)), weights.normalize(0.3 * rng.standard_normal(count)))
    sharp = -50.0 * rng.standard_normal(count) ** 2
    power = particles.tempering_power(belief, sharp, 0.4 * count)
    size = weights.effective_sample_size(belief.log_weights + power * sharp)
    # the power is computed to 1e-3; the size falls by a few hundred particles over powers 0 to 1
    assert size == pytest.approx(0.4 * count, abs=1.5)
    assert 0.0 < power < 1.0
    config = ResamplingConfig(tempering=0.4)
    belief = particles.uniform(belief.theta)
    after, used = particles.update(config, belief, sharp)
    assert used == pytest.approx(particles.tempering_power(belief, sharp, 0.4 * count), rel=1e-9)
    np.testing.assert_array_equal(
        after.log_weights, particles.reweight(belief, used * sharp).log_weights
    )


def test_an_update_that_leaves_enough_particles_is_not_tempered(rng):
    belief = particles.uniform(np.zeros((50, 1)))
    flat = 0.01 * rng.standard_normal(50)
    assert particles.tempering_power(belief, flat, 25.0) == 1.0


def test_tempering_takes_nobody_back_who_diverged_and_nothing_from_a_poor_belief(rng):
    belief = particles.uniform(np.zeros((50, 1)))
    sharp = -50.0 * rng.standard_normal(50) ** 2
    sharp[:10] = -np.inf
    power = particles.tempering_power(belief, sharp, 25.0)
    assert np.all(particles.raise_to_power(sharp, power)[:10] == -np.inf)
    assert particles.tempering_power(belief, sharp, 45.0) == 0.0  # only 40 are left
    poor = particles.raise_to_power(sharp, 0.0)
    assert np.all(poor[10:] == 0.0) and np.all(poor[:10] == -np.inf)
    none = np.full(50, -np.inf)
    assert particles.tempering_power(belief, none, 25.0) == 1.0
    assert np.all(particles.raise_to_power(none, 0.5) == -np.inf)


def test_likelihoods_of_another_number_are_an_error():
    with pytest.raises(BeliefError, match='2 likelihoods for 3 particles'):
        particles.reweight(particles.uniform(np.ones((3, 1))), np.zeros(2))


def test_resampling_waits_for_its_threshold(rng):
    theta = rng.lognormal(size=(100, 1))
    for effective, resampled in ((51, False), (49, True)):
        log_weights = np.full(100, -np.inf)
        log_weights[:effective] = -np.log(effective)
        belief = Belief(theta, log_weights)
        after, parents = particles.resample(ResamplingConfig(), [MASS], belief, rng)
        assert (parents is not None) == resampled
        assert resampled or after is belief
        if resampled:
            assert np.all(parents < effective)  # nobody descends from a weight of zero
            # 100 equal weights, rounded
            assert weights.effective_sample_size(after.log_weights) == pytest.approx(
                100, rel=1e-12
            )


@pytest.mark.parametrize('rollouts', [2, 4])
def test_the_papers_threshold_resamples_at_every_step(rollouts, rng):
    # 0.5 N K in a unit of N particles; the effective sample size never exceeds N
    config = ResamplingConfig(scheme='gaussian', ess_fraction=0.5 * rollouts + 1e-9)
    belief = particles.uniform(rng.lognormal(size=(30, 1)))
    assert particles.resample(config, [MASS], belief, rng)[1] is not None


@pytest.mark.parametrize('shrinkage', [0.9, 0.98])
def test_liu_west_keeps_mean_and_covariance(shrinkage, rng):
    config = ResamplingConfig(shrinkage=shrinkage, ess_fraction=2.0)
    belief = _belief(rng, 20_000)
    after, _ = particles.resample(config, BOTH, belief, rng)
    z, z_after = to_unbounded(BOTH, belief.theta), to_unbounded(BOTH, after.theta)
    mean, covariance = (
        weights.mean(belief.log_weights, z),
        weights.covariance(belief.log_weights, z),
    )
    sd = np.sqrt(np.diag(covariance))
    # n equal particles: the mean errs by sd / sqrt(n), a covariance by about 2 sd^2 / sqrt(n)
    # (kurtosis below 5 here); four of each
    error = 4.0 / np.sqrt(20_000)
    assert np.all(np.abs(z_after.mean(axis=0) - mean) < error * sd)
    assert np.all(np.abs(np.cov(z_after.T) - covariance) < 2.0 * error * np.outer(sd, sd))


def _modes(scheme, rng):
    """Return the particles after ten resamplings of two modes, -1 and 1, of equal weight."""
    theta = np.concatenate([rng.normal(-1.0, 0.05, 500), rng.normal(1.0, 0.05, 500)])[:, None]
    belief = particles.uniform(theta)
    config = ResamplingConfig(scheme=scheme, ess_fraction=2.0, shrinkage=0.999)
    for _ in range(10):
        belief, _ = particles.resample(config, [SHIFT], belief, rng)
    return belief.theta[:, 0]


def test_liu_west_keeps_two_modes(rng):
    values = _modes('liu-west', rng)
    # after ten times of jitter sqrt(1 - 0.999^2) = 0.045 of a spread of 1, each mode is within
    # 0.15 of its place: four of these are 0.6
    assert np.all(np.abs(np.abs(values) - 1.0) < 0.6)
    assert 0.3 < np.mean(values > 0.0) < 0.7  # systematic: never more than one off per turn


def test_the_papers_resampling_gathers_two_modes_at_their_mean(rng):
    values = _modes('gaussian', rng)
    # noise of 0.05 about the mean; the means of ten turns wander by 0.05 / sqrt(1000) each
    assert np.all(np.abs(values) < 0.3)


@pytest.mark.parametrize('scheme', ['liu-west', 'gaussian'])
def test_resampled_particles_stay_within_bounds_and_are_repeatable(scheme, rng):
    belief = _belief(rng, 500)
    config = ResamplingConfig(scheme=scheme, ess_fraction=2.0, shrinkage=0.5, noise_sd=2.0)
    runs = []
    for _ in range(2):
        after, source = belief, np.random.default_rng(3)
        for _ in range(30):
            after, _ = particles.resample(config, BOTH, after, source)
            assert np.all(after.theta > [0.01, 0.02]) and np.all(after.theta[:, 1] < 1.5)
        runs.append(after.theta.tobytes())
    assert runs[0] == runs[1]


def test_the_planner_gets_all_particles_with_their_weights_if_it_has_as_many_models(rng):
    belief = _belief(rng, 20)
    assert particles.select(belief, 20) is belief


@given(st.integers(1, 40), st.integers(0, 100))
def test_a_choice_of_particles_is_in_proportion_to_weight_and_always_the_same(models, seed):
    rng = np.random.default_rng(seed)
    belief = _belief(rng, 41)
    chosen = particles.select(belief, models)
    assert np.array_equal(chosen.theta, particles.select(belief, models).theta)
    assert np.exp(chosen.log_weights) == pytest.approx(1.0 / models)
    counts = np.array([np.sum(np.all(chosen.theta == row, axis=1)) for row in belief.theta])
    # systematic: less than one off, up to the rounding of the cumulative weights
    assert np.all(np.abs(counts - models * np.exp(belief.log_weights)) < 1.0 + 1e-9)


def test_one_model_is_the_weighted_median_particle():
    belief = Belief(np.array([[1.0], [2.0], [3.0]]), np.log([0.3, 0.3, 0.4]))
    assert particles.select(belief, 1).theta.tolist() == [[2.0]]
