"""Laws of the adapted variance of the control noise, and loops once more."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.core.config import build
from emppi_ros.core.errors import ConfigError
from emppi_ros.planning import plan_update
from emppi_ros.planning.plan_update import PlanProblem
from emppi_ros.robots.robot import ControlLimits
from emppi_ros.tasks.cost import Costs
from emppi_ros.tasks.planner_config import NoiseAdaptation, PlannerConfig

M, K, H, NU = 2, 6, 4, 2
BASE = np.array([0.5, 0.2])
ADAPTATION = NoiseAdaptation(rate=0.4, lowest=0.1, highest=3.0)
CONFIG = PlannerConfig(
    models=M, rollouts=K, horizon=H, step_s=0.05, rate_hz=20.0, substeps=2, temperature=0.3,
    noise_variance=tuple(BASE), noise_adaptation=ADAPTATION,
)  # fmt: skip
FREE = ControlLimits(np.full(NU, -np.inf), np.full(NU, np.inf), np.full(NU, np.inf))


def _samples(rng):
    """Return weights (M, K, H) that sum to 1 at each step, and noise (M, K, H, nu)."""
    weights = rng.dirichlet(np.ones(M * K), H).T.reshape(M, K, H)
    return weights, rng.normal(size=(M, K, H, NU)) * np.sqrt(BASE)


def test_the_adapted_variance_is_the_weighted_mean_of_squares_in_loops(rng):
    weights, noise = _samples(rng)
    before = rng.uniform(0.1, 0.4, (H, NU))
    found = plan_update.adapt_variance(ADAPTATION, before, weights, noise, BASE)
    for t in range(H):
        for i in range(NU):
            pairs = zip(weights[..., t].flat, noise[..., t, i].flat, strict=True)
            mean = sum(w * du**2 for w, du in pairs)
            expected = min(max(0.6 * before[t, i] + 0.4 * mean, 0.1 * BASE[i]), 3.0 * BASE[i])
            # a sum of 12 terms of order 1 in another order
            assert found[t, i] == pytest.approx(expected, rel=1e-13)


def test_equal_weights_keep_the_variance_on_average(rng):
    count = 100_000
    weights = np.full((1, count, 1), 1.0 / count)
    noise = rng.normal(size=(1, count, 1, NU)) * np.sqrt(BASE)
    found = plan_update.adapt_variance(ADAPTATION, BASE[None], weights, noise, BASE)
    # the estimate has a relative standard deviation of sqrt(2 / count) = 0.0045, times the rate;
    # five of them
    np.testing.assert_allclose(found[0], BASE, rtol=5 * 0.4 * np.sqrt(2 / count))


@pytest.mark.parametrize(('size', 'share'), [(0.0, 0.1), (100.0, 3.0)])
def test_the_variance_stays_within_its_bounds(size, share):
    weights = np.full((M, K, H), 1.0 / (M * K))
    noise, variance = np.full((M, K, H, NU), size), np.tile(BASE, (H, 1))
    for _ in range(20):
        variance = plan_update.adapt_variance(ADAPTATION, variance, weights, noise, BASE)
    np.testing.assert_array_equal(variance, np.tile(share * BASE, (H, 1)))


def test_noise_that_all_models_share_counts_as_noise_of_each(rng):
    weights, noise = _samples(rng)
    shared = noise[:1]
    np.testing.assert_allclose(
        plan_update.adapt_variance(ADAPTATION, BASE + 0 * noise[0, 0], weights, shared, BASE),
        plan_update.adapt_variance(
            ADAPTATION, BASE + 0 * noise[0, 0], weights, np.tile(shared, (M, 1, 1, 1)), BASE
        ),
        rtol=1e-13,  # the same sum in another order
    )


def _follow(target, config=CONFIG, updates=60):
    """Plan towards a target (nu,) with a quadratic cost; return the variance of each update."""
    nominal, rng, variance, found = np.zeros((H, NU)), np.random.default_rng(3), None, []

    def evaluate(controls):
        return Costs(20.0 * np.sum((controls - target) ** 2, axis=-1), np.zeros((M, K)))

    for _ in range(updates):
        problem = PlanProblem(nominal, np.zeros(NU), FREE, np.zeros(M), nominal[0], variance)
        nominal, info = plan_update.plan(config, problem, evaluate, rng)
        variance = info.variance
        found.append(variance)
    return nominal, np.array(found)


def test_the_noise_grows_towards_a_distant_target_and_shrinks_at_it():
    target = np.array([4.0, -3.0])
    nominal, variance = _follow(target)
    assert np.all(variance[:5].max(axis=(0, 1)) > 1.5 * BASE)
    np.testing.assert_allclose(nominal, np.tile(target, (H, 1)), atol=0.5)
    # with 12 samples a single estimate is rough: the mean of the last 20
    assert np.all(variance[-20:].mean(axis=0) < 0.4 * BASE)


def test_a_constant_variance_that_is_given_changes_no_bit():
    nominal = np.random.default_rng(1).normal(size=(H, NU))
    plans = []
    for config, variance in (
        (dataclasses.replace(CONFIG, noise_adaptation=None), None),
        (CONFIG, None),
        (CONFIG, np.tile(BASE, (H, 1))),
    ):

        def evaluate(controls):
            return Costs(np.sum(controls**2, axis=-1), np.zeros((M, K)))

        problem = PlanProblem(nominal, np.zeros(NU), FREE, np.zeros(M), variance=variance)
        plan, info = plan_update.plan(config, problem, evaluate, np.random.default_rng(2))
        plans.append(plan)
        assert (info.variance is None) == (config.noise_adaptation is None)
    assert np.array_equal(plans[0], plans[1]) and np.array_equal(plans[0], plans[2])


def test_a_highest_variance_below_the_configured_one_is_an_error():
    with pytest.raises(ConfigError, match='highest.*1'):
        build(NoiseAdaptation, {'highest': 0.5}, 'planner: noise_adaptation')
