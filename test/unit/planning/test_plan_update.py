"""Laws of one planning update, and Algorithm 1 once more as plain loops."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.core.errors import AllDivergedError, ConfigError, DegenerateWeightsError
from emppi_ros.planning import plan_update
from emppi_ros.planning.plan_update import PlanProblem
from emppi_ros.robots.robot import ControlLimits
from emppi_ros.tasks.cost import Costs
from emppi_ros.tasks.planner_config import PlannerConfig

M, K, H, NU = 3, 5, 7, 2
CONFIG = PlannerConfig(
    models=M,
    rollouts=K,
    horizon=H,
    step_s=0.05,
    rate_hz=20.0,
    substeps=2,
    temperature=0.3,
    noise_variance=(0.5, 0.2),
)
FREE = ControlLimits(np.full(NU, -np.inf), np.full(NU, np.inf), np.full(NU, np.inf))
TIGHT = ControlLimits(np.full(NU, -0.6), np.full(NU, 0.5), np.full(NU, 0.4))
UNIFORM = np.full(M, -np.log(M))
NOMINAL = np.random.default_rng(1).normal(0.0, 0.3, (H, NU))
# sums of M * K * H terms of order 1, in another order: 105 * 2^-53 = 1.2e-14, and slack
ORDER = 1e-12


def _cost(controls, gains):
    """Cost of integrating controls from 1 with a gain per model: (M, K, H, nu) -> Costs."""
    gains = np.asarray(gains, dtype=float)[:, None, None, None]
    x = 1.0 + 0.3 * np.cumsum(gains * controls, axis=2)
    x = np.concatenate([np.ones_like(x[:, :, :1]), x], axis=2)
    stage = np.sum(x**2, axis=-1)
    return Costs(stage[..., :-1], 4.0 * stage[..., -1])


def _run(config=CONFIG, gains=(1.0, 1.0, 1.0), log_belief=UNIFORM, limits=FREE, seed=5, **kwargs):
    nominal, applied = kwargs.get('nominal', NOMINAL), kwargs.get('applied', np.zeros(NU))
    evaluate = kwargs.get('evaluate', lambda controls: _cost(controls, gains))
    rng = kwargs.get('rng', np.random.default_rng(seed))
    problem = PlanProblem(nominal, applied, limits, np.asarray(log_belief))
    return plan_update.plan(config, problem, evaluate, rng)


class _Given:
    """A source of noise that is given, for what a single model's share of it does."""

    def __init__(self, noise):
        self.noise = noise

    def standard_normal(self, shape):
        return self.noise.reshape(shape)


def test_identical_models_with_uniform_belief_plan_as_one_model_with_the_same_noise():
    ensemble, info = _run()
    one = dataclasses.replace(CONFIG, models=1, rollouts=M * K)
    single, single_info = _run(one, gains=(1.0,), log_belief=[0.0])
    # the same M * K samples of the same stream; log(1 / M) is added and removed again
    assert np.array_equal(info.controls.reshape(1, M * K, H, NU), single_info.controls)
    np.testing.assert_allclose(ensemble, single, rtol=0, atol=ORDER)
    np.testing.assert_allclose(
        info.weights.reshape(1, M * K, H), single_info.weights, rtol=0, atol=ORDER
    )


@pytest.mark.parametrize('model', range(M))
@pytest.mark.parametrize('weighting', ['per_step', 'trajectory'])
def test_a_one_hot_belief_plans_as_that_model_alone(model, weighting):
    config = dataclasses.replace(CONFIG, weighting=weighting)
    gains = (0.4, 1.0, 2.5)
    log_belief = np.full(M, -np.inf)
    log_belief[model] = -7.0  # in any normalization
    ensemble, info = _run(config, gains, log_belief)
    noise = np.random.default_rng(5).standard_normal((M, K, H, NU))[model]
    alone, _ = _run(
        dataclasses.replace(config, models=1), gains[model : model + 1], [0.0], rng=_Given(noise)
    )
    np.testing.assert_allclose(ensemble, alone, rtol=0, atol=ORDER)
    assert np.all(info.weights[np.arange(M) != model] == 0.0)


def _naive(config, nominal, limits, belief, gains, *, noise, applied):
    """Algorithm 1 in loops over n, k, t as it is printed (lines 5 to 17), one float at a time."""
    sigma, lam = np.array(config.noise_variance), config.temperature
    du, to_go = {}, {}
    for n in range(M):
        for k in range(K):
            x, last, s = np.ones(NU), applied, []
            for t in range(H):
                v = np.clip(
                    nominal[t] + np.sqrt(sigma) * noise[n, k, t], limits.lower, limits.upper
                )
                v = last = np.clip(v, last - limits.rate, last + limits.rate)
                du[n, k, t] = v - nominal[t]
                control_cost = sum(nominal[t, i] / sigma[i] * du[n, k, t][i] for i in range(NU))
                s.append(float(x @ x) + lam * control_cost)
                x = x + 0.3 * gains[n] * v
            s.append(4.0 * float(x @ x))
            for t in range(H):
                to_go[n, k, t] = sum(s[0 if config.weighting == 'trajectory' else t :])
    improved = nominal.copy()
    for t in range(H):
        beta = min(to_go[n, k, t] for n in range(M) for k in range(K))
        eta = 0.0
        for n in range(M):
            for k in range(K):
                eta += np.exp(-(to_go[n, k, t] - beta) / lam) * belief[n]
        for n in range(M):
            for k in range(K):
                w = np.exp(-(to_go[n, k, t] - beta) / lam) * belief[n] / eta
                improved[t] = improved[t] + w * du[n, k, t]
    return improved


@pytest.mark.parametrize('weighting', ['per_step', 'trajectory'])
@given(st.integers(0, 500))
def test_the_update_is_algorithm_1(weighting, seed):
    rng = np.random.default_rng(seed)
    nominal = rng.uniform(-0.5, 0.5, (H, NU))
    belief, gains = rng.dirichlet(np.ones(M)), rng.uniform(0.2, 3.0, M)
    config = dataclasses.replace(CONFIG, weighting=weighting, temperature=rng.uniform(0.05, 5.0))
    wide = TIGHT._replace(lower=np.full(NU, -9.0), upper=np.full(NU, 9.0))
    ours, _ = _run(config, gains, np.log(belief), wide, seed, nominal=nominal)
    noise = np.random.default_rng(seed).standard_normal((M, K, H, NU))
    naive = _naive(config, nominal, wide, belief, gains, noise=noise, applied=np.zeros(NU))
    # costs up to 1e2 over temperatures from 0.05: exponents are rounded to 2e3 * 2^-53 * 10
    np.testing.assert_allclose(ours, wide.clip(naive, np.zeros(NU)), rtol=0, atol=1e-11)


def test_without_a_cost_a_plan_tends_to_the_reference():
    # the softmax of -(u - r)' Sigma^-1 du over du ~ N(0, Sigma) has the mean r - u
    config = dataclasses.replace(CONFIG, models=1, rollouts=40_000, horizon=1)
    reference, nominal = np.array([3.0, -2.0]), np.array([[3.3, -2.2]])

    def free(controls):
        return Costs(np.zeros(controls.shape[:3]), np.zeros(controls.shape[:2]))

    problem = PlanProblem(nominal, nominal[0], FREE, np.zeros(1), reference)
    improved, _ = plan_update.plan(config, problem, free, np.random.default_rng(2))
    # importance weights of variance e^0.4 halve the 40 000 samples: an error of sigma / 140,
    # 5 of which are 0.025
    np.testing.assert_allclose(improved[0], reference, atol=0.025)


@pytest.mark.parametrize('weighting', ['per_step', 'trajectory'])
def test_temperature_to_zero_takes_the_best_sample_of_each_step(weighting):
    config = dataclasses.replace(CONFIG, temperature=1e-9, weighting=weighting)
    improved, info = _run(config, gains=(0.5, 1.0, 1.5))
    costs = _cost(info.controls, (0.5, 1.0, 1.5))
    to_go = np.cumsum(costs.running[..., ::-1], axis=-1)[..., ::-1] + costs.terminal[..., None]
    if weighting == 'trajectory':
        to_go = np.repeat(to_go[..., :1], H, axis=-1)
    best = to_go.reshape(M * K, H).argmin(axis=0)
    expected = info.controls.reshape(M * K, H, NU)[best, np.arange(H)]
    # the next best costs more by far over 1e-9, so its weight is exactly zero: rounding only
    np.testing.assert_allclose(improved, expected, rtol=0, atol=1e-14)


def test_temperature_to_infinity_gives_the_mean_of_the_noise_weighted_by_belief():
    belief = np.array([0.7, 0.2, 0.1])
    config = dataclasses.replace(CONFIG, temperature=1e12)
    improved, info = _run(
        config, (0.5, 1.0, 1.5), np.log(belief), nominal=np.zeros((H, NU))
    )  # from zero: the control cost grows with the temperature and would stay
    expected = np.einsum('m,mkhu->hu', belief / K, info.controls)
    # exp(-S / 1e12) differs from 1 by S / 1e12 < 1e-9 for costs up to 1e3
    np.testing.assert_allclose(improved, expected, rtol=0, atol=1e-9)


@given(st.floats(-1e3, 1e3))
def test_weights_do_not_change_when_a_constant_is_added_to_all_costs(constant):
    def shifted(controls):
        costs = _cost(controls, (0.5, 1.0, 1.5))
        return Costs(costs.running, costs.terminal + constant)

    _, info = _run(gains=(0.5, 1.0, 1.5))
    _, other = _run(evaluate=shifted)
    # costs of up to 2e3 are rounded by 2e-13 each, divided by the temperature 0.3
    np.testing.assert_allclose(other.weights, info.weights, rtol=0, atol=1e-11)


def test_weights_of_every_step_sum_to_one():
    _, info = _run(gains=(0.5, 1.0, 1.5), log_belief=np.log([0.1, 0.6, 0.3]))
    np.testing.assert_allclose(info.weights.sum(axis=(0, 1)), np.ones(H), rtol=0, atol=ORDER)


def test_updates_go_downhill_on_a_quadratic_problem():
    config = dataclasses.replace(CONFIG, models=1, rollouts=400, temperature=0.05)
    rng, controls = np.random.default_rng(3), np.zeros((H, NU))
    costs = []
    for _ in range(20):
        costs.append(float(np.sum(_cost(controls[None, None], (1.0,)).running)))
        controls, _ = _run(config, (1.0,), [0.0], nominal=controls, rng=rng)
    # the least cost is 2 of x_0, whatever is done, plus what the first step leaves; from 14
    assert costs[0] == pytest.approx(2.0 * H)
    assert costs[-1] < 0.35 * costs[0]


def test_with_only_the_control_cost_weights_are_those_of_its_formula():
    free = Costs(np.zeros((M, K, H)), np.zeros((M, K)))
    _, info = _run(evaluate=lambda _: free)
    du = info.controls - NOMINAL
    stage = np.sum(NOMINAL * du / np.array(CONFIG.noise_variance), axis=-1)  # u' Sigma^-1 du
    logits = -np.cumsum(stage[..., ::-1], axis=-1)[..., ::-1]  # lambda cancels
    expected = np.exp(logits) / np.exp(logits).sum(axis=(0, 1))
    np.testing.assert_allclose(info.weights, expected, rtol=0, atol=ORDER)


@given(st.integers(0, 500))
def test_plan_and_candidates_stay_within_bounds_and_rate(seed):
    config = dataclasses.replace(CONFIG, filter_window=5)
    applied = np.array([0.2, -0.5])
    improved, info = _run(config, limits=TIGHT, seed=seed, applied=applied)
    for controls in (improved, *info.controls.reshape(-1, H, NU)):
        assert np.all((controls >= TIGHT.lower) & (controls <= TIGHT.upper))
        changes = np.diff(np.vstack([applied, controls]), axis=0)
        assert np.all(np.abs(changes) <= TIGHT.rate + 1e-15)  # one rounding of numbers below 1


def test_what_is_clipped_counts_as_clipped():
    # one sample takes the whole weight: the update must end on it as it was rolled out
    config = dataclasses.replace(CONFIG, models=1, rollouts=1, noise_variance=(100.0,))
    improved, info = _run(config, (1.0,), [0.0], TIGHT)
    assert np.abs(info.controls).max() <= 0.6
    np.testing.assert_allclose(improved, info.controls[0, 0], rtol=0, atol=1e-15)


def _diverging(where):
    def evaluate(controls):
        running, terminal = _cost(controls, (1.0, 1.0, 1.0))
        running[where], terminal[where] = np.inf, np.inf
        return Costs(running, terminal)

    return evaluate


def test_diverged_rollouts_have_no_weight_and_are_counted():
    where = np.zeros((M, K), dtype=bool)
    where[0, 2] = where[2, 4] = True
    improved, info = _run(evaluate=_diverging(where))
    assert np.isfinite(improved).all()
    assert np.all(info.weights[where] == 0.0) and np.all(np.isinf(info.costs[where]))
    assert info.diverged == 2


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_a_cost_that_is_not_finite_is_a_diverged_rollout(bad):
    def evaluate(controls):
        running, terminal = _cost(controls, (1.0, 1.0, 1.0))
        terminal[1, 1] = bad
        return Costs(running, terminal)

    _, info = _run(evaluate=evaluate)
    assert np.all(info.weights[1, 1] == 0.0) and info.diverged == 1


def test_all_diverged_is_an_error():
    with pytest.raises(AllDivergedError, match='all 15 rollouts diverged'):
        _run(evaluate=_diverging(np.ones((M, K), dtype=bool)))


def test_all_diverged_where_there_is_belief_is_an_error_too():
    where = np.zeros((M, K), dtype=bool)
    where[:2] = True
    with pytest.raises(AllDivergedError):
        _run(evaluate=_diverging(where), log_belief=[-0.7, -0.7, -np.inf])


def test_models_without_belief_may_diverge():
    where = np.zeros((M, K), dtype=bool)
    where[2] = True
    improved, info = _run(evaluate=_diverging(where), log_belief=[-0.7, -0.7, -np.inf])
    assert np.isfinite(improved).all() and info.diverged == K


def test_a_belief_that_is_nan_is_an_error():
    with pytest.raises(DegenerateWeightsError):
        _run(log_belief=[0.0, np.nan, 0.0])


def test_trajectory_weighting_gives_one_weight_to_a_whole_rollout():
    _, info = _run(dataclasses.replace(CONFIG, weighting='trajectory'))
    assert np.all(info.weights == info.weights[..., :1])
    _, per_step = _run()
    # where the cost-to-go is the whole cost, both are the same
    assert np.array_equal(info.weights[..., 0], per_step.weights[..., 0])


def test_the_filter_keeps_a_cubic_and_smooths_noise():
    config = dataclasses.replace(CONFIG, filter_window=5)
    plain, _ = _run()
    smooth, _ = _run(config)
    assert np.sum(np.diff(smooth, axis=0) ** 2) < np.sum(np.diff(plain, axis=0) ** 2)
    cubic = np.polynomial.polynomial.polyval(np.arange(H), [0.1, -0.2, 0.05, 0.003])
    cubic = np.column_stack([cubic, -cubic])
    still = dataclasses.replace(config, noise_variance=(1e-30,))
    kept, _ = _run(still, nominal=cubic)
    # noise of 1e-15 per control, and a least-squares fit of numbers up to 1
    np.testing.assert_allclose(kept, cubic, rtol=0, atol=1e-12)


def test_same_seed_same_bits_and_another_seed_another_plan():
    first, info = _run(limits=TIGHT, seed=9)
    again, info_again = _run(limits=TIGHT, seed=9)
    other, _ = _run(limits=TIGHT, seed=10)
    assert first.tobytes() == again.tobytes()
    assert info.weights.tobytes() == info_again.weights.tobytes()
    assert not np.array_equal(first, other)


def test_inputs_are_left_as_they_are():
    nominal, applied = NOMINAL.copy(), np.full(NU, 0.1)
    _run(limits=TIGHT, nominal=nominal, applied=applied)
    assert np.array_equal(nominal, NOMINAL) and applied.tolist() == [0.1, 0.1]


def test_one_variance_serves_all_controls_and_another_number_is_an_error():
    one = dataclasses.replace(CONFIG, noise_variance=(0.5,))
    assert one.variance(3).tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(ConfigError, match='noise_variance: 2 values for 3 controls'):
        CONFIG.variance(3)


def test_a_filter_longer_than_the_plan_is_an_error():
    with pytest.raises(ConfigError, match='filter_window: 9 steps exceed the horizon of 7'):
        dataclasses.replace(CONFIG, filter_window=9)
