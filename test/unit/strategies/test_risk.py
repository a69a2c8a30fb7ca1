"""Laws of risk over models, and of plans that are weighed by it."""

import dataclasses
import itertools

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from emppi_ros.core import config
from emppi_ros.core.errors import AllDivergedError, ConfigError, DegenerateWeightsError
from emppi_ros.planning import plan_update
from emppi_ros.planning.plan_update import PlanProblem
from emppi_ros.robots.robot import ControlLimits
from emppi_ros.strategies import risk
from emppi_ros.strategies.risk import CVAR_LEVEL
from emppi_ros.tasks.cost import Costs
from emppi_ros.tasks.planner_config import PlannerConfig

M, K, H, NU = 4, 6, 5, 2
SETTINGS = {
    'models': M,
    'rollouts': K,
    'horizon': H,
    'step_s': 0.05,
    'rate_hz': 20.0,
    'substeps': 2,
    'temperature': 0.3,
    'noise_variance': [0.5, 0.2],
}
MEASURES = [('mean', None), ('cvar', 0.4), ('worst', None)]
FREE = ControlLimits(np.full(NU, -np.inf), np.full(NU, np.inf), np.full(NU, np.inf))
TIGHT = ControlLimits(np.full(NU, -0.6), np.full(NU, 0.5), np.full(NU, 0.4))
GAINS = np.array([0.3, 0.8, 1.5, 2.2])
BELIEF = np.array([0.1, 0.4, 0.3, 0.2])
NOMINAL = np.random.default_rng(1).normal(0.0, 0.3, (H, NU))
ROUNDING = 1e-12  # sums of up to M * K * H terms of order 1 to 10, in another order, and slack
seeds = st.integers(0, 10_000)


def _draw(seed):
    """Return costs (M, K, H) of order 1, and a belief, both at random."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.0, 2.0, (M, K, H)), rng.dirichlet(np.ones(M))


def _settings(name, level=None, **changes):
    chosen = {'risk': name} if level is None else {'risk': name, 'risk_level': level}
    return config.build(PlannerConfig, {**SETTINGS, **chosen, **changes}, 'planner')


def _cost(controls, gains):
    """Return the Costs of integrating controls from 1 with a gain per model."""
    x = 1.0 + 0.3 * np.cumsum(np.asarray(gains)[:, None, None, None] * controls, axis=2)
    stage = np.sum(x**2, axis=-1)
    return Costs(stage, 4.0 * stage[..., -1])


def _run(settings, gains=GAINS, belief=BELIEF, evaluate=None, limits=FREE, seed=5):
    evaluate = evaluate or (lambda controls: _cost(controls, gains))
    rng = np.random.default_rng(seed)
    with np.errstate(divide='ignore'):
        log_belief = np.log(belief)
    problem = PlanProblem(NOMINAL, np.zeros(NU), limits, log_belief)
    return plan_update.plan(settings, problem, evaluate, rng)


# the measures


@given(seeds)
def test_cvar_of_the_whole_belief_is_the_mean(seed):
    costs, belief = _draw(seed)
    found = risk.cvar(costs, belief, 1.0)
    np.testing.assert_allclose(found, risk.mean(costs, belief), rtol=0, atol=ROUNDING)


@given(seeds)
def test_cvar_of_less_than_any_model_is_the_worst(seed):
    costs, belief = _draw(seed)
    for level in (belief.min(), 1e-9, 1e-300):
        found = risk.cvar(costs, belief, level)
        np.testing.assert_allclose(found, risk.worst(costs, belief), rtol=0, atol=ROUNDING)


@given(seeds)
def test_a_smaller_share_of_the_worst_is_no_better(seed):
    costs, belief = _draw(seed)
    levels = np.sort(1.0 - np.random.default_rng(seed).random(12))  # in (0, 1]
    risks = np.array([risk.cvar(costs, belief, level) for level in levels])
    assert np.all(np.diff(risks, axis=0) <= ROUNDING)
    assert np.all(risks >= risk.mean(costs, belief) - ROUNDING)
    assert np.all(risks <= risk.worst(costs, belief) + ROUNDING)


@given(seeds, st.floats(0.02, 1.0))
def test_cvar_is_the_least_of_rockafellar_and_uryasev(seed, level):
    # cvar = min over c of c + E[(S - c)+] / level: no sorting, and no boundary to split
    costs, belief = _draw(seed)
    found = risk.cvar(costs, belief, level)
    for k, h in ((0, 0), (K - 1, H - 1)):
        s = costs[:, k, h]
        least = minimize_scalar(
            lambda c, s=s: c + belief @ np.maximum(s - c, 0.0) / level,
            bounds=(s.min() - 1e-3, s.max() + 1e-3),
            method='bounded',
            options={'xatol': 1e-10, 'maxiter': 1000},
        )
        # it ends within some 1e-8 of the least, on slopes of at most 1 / 0.02
        assert found[k, h] == pytest.approx(least.fun, abs=1e-6)


def test_the_model_at_the_boundary_counts_for_what_is_missing():
    costs, belief = np.array([1.0, 2.0, 4.0])[:, None, None], np.array([0.5, 0.3, 0.2])
    # the worst 0.4: all 0.2 of the model that costs 4, and 0.2 of the 0.3 that cost 2
    assert risk.cvar(costs, belief, 0.4)[0, 0] == pytest.approx(3.0, abs=ROUNDING)
    assert risk.cvar(costs, belief, 0.2)[0, 0] == pytest.approx(4.0, abs=ROUNDING)


@pytest.mark.parametrize(('name', 'level'), MEASURES)
@given(seed=seeds)
def test_neither_order_nor_splitting_of_models_matters(name, level, seed):
    costs, belief = _draw(seed)
    measure = risk.choose(name, level)
    found = measure(costs, belief)
    order = np.random.default_rng(seed).permutation(M)
    np.testing.assert_allclose(measure(costs[order], belief[order]), found, rtol=0, atol=ROUNDING)
    halved = np.append(belief, belief[1] / 2)
    halved[1] /= 2
    twice = np.concatenate([costs, costs[1:2]])
    np.testing.assert_allclose(measure(twice, halved), found, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(('name', 'level'), MEASURES)
@given(seed=seeds)
def test_what_all_models_cost_alike_is_added_and_units_do_not_matter(name, level, seed):
    # so it is one whether the control cost, which is alike, comes before or after
    costs, belief = _draw(seed)
    measure = risk.choose(name, level)
    alike = np.random.default_rng(seed + 1).normal(size=(K, H))
    np.testing.assert_allclose(
        measure(3.0 * costs + alike, belief),
        3.0 * measure(costs, belief) + alike,
        rtol=0,
        atol=10 * ROUNDING,
    )


@pytest.mark.parametrize(('name', 'level'), MEASURES)
@pytest.mark.parametrize('odd', [-1e6, 1e6, np.inf])
def test_a_model_of_weight_zero_never_counts(name, level, odd):
    costs, belief = _draw(0)
    measure = risk.choose(name, level)
    more = np.concatenate([costs[:2], np.full((1, K, H), odd), costs[2:]])
    found = measure(more, np.insert(belief, 2, 0.0))
    assert np.array_equal(found, measure(costs, belief))


@pytest.mark.parametrize(('name', 'level'), [*MEASURES, ('cvar', 1.0), ('cvar', 1e-9)])
def test_a_plan_that_diverged_in_a_model_with_weight_is_infinitely_bad(name, level):
    costs, belief = _draw(0)
    costs[1, 2] = costs[:, 4] = np.inf  # a plan in one model, another one in all
    belief = np.array([0.5, 1e-12, 0.5 - 1e-12, 0.0])
    found = risk.choose(name, level)(costs, belief)
    assert np.all(np.isinf(found) == np.isin(np.arange(K), [2, 4])[:, None])
    assert not np.isnan(found).any()


# plans


@pytest.mark.parametrize(('name', 'level'), MEASURES)
@pytest.mark.parametrize('weighting', ['per_step', 'trajectory'])
def test_one_model_plans_as_without_a_measure(name, level, weighting):
    changes = {'models': 1, 'weighting': weighting}
    plain, info = _run(_settings('none', **changes), GAINS[:1], [1.0], limits=TIGHT)
    found, other = _run(_settings(name, level, **changes), GAINS[:1], [1.0], limits=TIGHT)
    assert np.array_equal(found, plain) and np.array_equal(other.weights, info.weights)


@pytest.mark.parametrize(('name', 'level'), MEASURES)
@pytest.mark.parametrize('window', [0, 5])
def test_equal_models_plan_as_one_of_them_with_k_rollouts(name, level, window):
    one, info = _run(_settings('none', models=1, filter_window=window), [0.8], [1.0])
    found, other = _run(_settings(name, level, filter_window=window), [0.8] * M)
    np.testing.assert_allclose(found, one, rtol=0, atol=ROUNDING)
    spread = other.weights.sum(axis=0, keepdims=True)
    np.testing.assert_allclose(spread, info.weights, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(('name', 'level'), MEASURES)
@given(seed=seeds)
def test_the_update_is_that_of_its_formula(name, level, seed):
    """As in `plan_update`, from what was rolled out, limits and filter and all."""
    settings = _settings(name, level, filter_window=5)
    found, info = _run(settings, limits=TIGHT, seed=seed)
    du, lam = info.controls[0] - NOMINAL, settings.temperature
    control = np.sum(NOMINAL / settings.variance(NU) * du, axis=-1)  # (K, H)
    running, terminal = _cost(info.controls, GAINS)
    to_go = np.flip(np.cumsum(np.flip(running, -1), -1), -1) + terminal[..., None]
    costs = risk.choose(name, level)(to_go, BELIEF)
    costs = costs + lam * np.flip(np.cumsum(np.flip(control, -1), -1), -1)
    weights = np.exp((costs.min(axis=0) - costs) / lam)
    expected = NOMINAL + np.einsum('kh,khu->hu', weights / weights.sum(axis=0), du)
    expected = TIGHT.clip(plan_update.smoother(H, 5) @ expected, np.zeros(NU))
    # costs of up to 1e2 are rounded by 1e-14 each, over a temperature of 0.3
    np.testing.assert_allclose(found, expected, rtol=0, atol=10 * ROUNDING)


@pytest.mark.parametrize(('name', 'level'), MEASURES)
def test_all_models_roll_out_the_same_plans_and_a_plan_weighs_by_belief(name, level):
    evaluated = []

    def evaluate(controls):
        evaluated.append(controls.shape)
        return _cost(controls, GAINS)

    _, info = _run(_settings(name, level), evaluate=evaluate, limits=TIGHT)
    assert evaluated == [(M, K, H, NU)]  # as many rollouts as without
    assert info.controls.shape == (M, K, H, NU) and info.costs.shape == (M, K)
    assert np.all(info.controls == info.controls[0])
    assert len(np.unique(info.controls[0, :, 0, 0])) > 1
    np.testing.assert_allclose(info.weights.sum(axis=(0, 1)), np.ones(H), rtol=0, atol=ROUNDING)
    by_belief = BELIEF[:, None, None] * info.weights.sum(axis=0)
    np.testing.assert_allclose(info.weights, by_belief, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(('name', 'level'), MEASURES)
def test_a_plan_does_not_depend_on_order_or_splitting_of_models(name, level):
    found, _ = _run(_settings(name, level))
    order = [2, 0, 3, 1]
    permuted, _ = _run(_settings(name, level), GAINS[order], BELIEF[order])
    np.testing.assert_allclose(permuted, found, rtol=0, atol=ROUNDING)
    gains, belief = np.append(GAINS, GAINS[1]), np.append(BELIEF, BELIEF[1] / 2)
    belief[1] /= 2
    split, _ = _run(_settings(name, level, models=M + 1), gains, belief)  # the same K plans
    np.testing.assert_allclose(split, found, rtol=0, atol=ROUNDING)


def test_measures_that_mean_the_same_give_the_same_plan_and_others_another():
    names = [*MEASURES, ('none', None), ('cvar', 1.0), ('cvar', 0.01)]
    warm = {'temperature': 3.0}  # else the best plan takes it all, by whatever measure
    plans = {one: _run(_settings(*one, **warm))[0] for one in names}
    for one, same in ((('cvar', 1.0), ('mean', None)), (('cvar', 0.01), ('worst', None))):
        np.testing.assert_allclose(plans[one], plans[same], rtol=0, atol=ROUNDING)
    for one, other in itertools.combinations([*MEASURES, ('none', None)], 2):
        assert np.abs(plans[one] - plans[other]).max() > 1e-3
    quarter, left_out = (_run(_settings('cvar', level))[0] for level in (CVAR_LEVEL, None))
    assert np.array_equal(quarter, left_out)


@pytest.mark.parametrize(('name', 'level'), MEASURES)
def test_trajectory_weighting_gives_one_weight_to_a_whole_plan(name, level):
    _, info = _run(_settings(name, level, weighting='trajectory'))
    assert np.all(info.weights == info.weights[..., :1])
    _, per_step = _run(_settings(name, level))
    # where the cost-to-go is the whole cost, both are the same
    assert np.array_equal(info.weights[..., 0], per_step.weights[..., 0])


def _optimum(name, level):
    """Return where the risk of the two bowls below is least, by trying."""
    grid = np.linspace(-1.5, 1.5, 6001)
    bowls = np.array([(grid + 1.0) ** 2, 4.0 * (grid - 1.0) ** 2])[..., None]
    return grid[np.argmin(risk.choose(name, level)(bowls, np.array([0.8, 0.2]))[:, 0])]


@pytest.mark.parametrize(('name', 'level'), [*MEASURES, ('cvar', 0.25)])
def test_each_measure_finds_its_optimum_between_models_that_want_different_things(name, level):
    # the likely model wants -1, the other one +1, and twice as much; the mean is least at 0,
    # the worst where both cost the same, at 1/3
    settings = _settings(
        name, level, models=2, rollouts=400, temperature=1e-3, noise_variance=[0.02]
    )
    settings = dataclasses.replace(settings, horizon=1)
    free = ControlLimits(*(np.array([x]) for x in (-np.inf, np.inf, np.inf)))

    def evaluate(controls):
        u = controls[..., 0]
        running = np.stack([(u[0] + 1.0) ** 2, 4.0 * (u[1] - 1.0) ** 2])
        return Costs(running, np.zeros((2, 400)))

    rng, u = np.random.default_rng(0), np.full((1, 1), -0.7)
    ends = []
    for _ in range(60):
        problem = PlanProblem(u, np.zeros(1), free, np.log([0.8, 0.2]))
        u, _ = plan_update.plan(settings, problem, evaluate, rng)
        ends.append(u[0, 0])
    known = {'mean': 0.0, 'worst': 1.0 / 3.0}
    optimum = _optimum(name, level)
    assert optimum == pytest.approx(known.get(name, optimum), abs=1e-3)  # a step of the grid
    # the control cost pulls to zero by lambda / (2 Sigma) u^2 = 0.025 u^2 against bowls of
    # u^2 and more, 0.01 at u = 1/3, and a smoothed kink is off by a few sqrt(lambda) = 0.03
    assert np.mean(ends[-20:]) == pytest.approx(optimum, abs=0.05)


# divergence and errors


def _diverging(where):
    def evaluate(controls):
        running, terminal = _cost(controls, GAINS)
        return Costs(running, np.where(where, np.inf, terminal))

    return evaluate


@pytest.mark.parametrize(('name', 'level'), MEASURES)
def test_a_plan_that_diverged_in_a_model_with_weight_has_none_in_any(name, level):
    where = np.zeros((M, K), dtype=bool)
    where[1, 2] = where[3, 4] = True
    found, info = _run(_settings(name, level), evaluate=_diverging(where))
    assert np.all(info.weights[:, [2, 4]] == 0.0) and np.isfinite(found).all()
    assert np.all(np.isinf(info.costs) == where) and info.diverged == 2


@pytest.mark.parametrize(('name', 'level'), MEASURES)
def test_models_without_belief_may_diverge(name, level):
    where = np.zeros((M, K), dtype=bool)
    where[2] = True
    belief = np.array([0.5, 0.3, 0.0, 0.2])
    found, info = _run(_settings(name, level), belief=belief, evaluate=_diverging(where))
    fine, _ = _run(_settings(name, level), belief=belief)
    assert np.array_equal(found, fine) and info.diverged == K
    assert np.all(info.weights[2] == 0.0)


@pytest.mark.parametrize(('name', 'level'), MEASURES)
def test_no_plan_that_every_model_survives_is_an_error(name, level):
    where = np.zeros((M, K), dtype=bool)
    where[0, :3] = where[3, 3:] = True  # each plan in one model or another
    with pytest.raises(AllDivergedError, match='each of 6 plans diverged in a model'):
        _run(_settings(name, level), evaluate=_diverging(where))
    found, _ = _run(_settings('none'), evaluate=_diverging(where))  # the paper goes on
    assert np.isfinite(found).all()


@pytest.mark.parametrize(('name', 'level'), MEASURES)
def test_a_belief_that_is_nan_is_an_error(name, level):
    with pytest.raises(DegenerateWeightsError):
        _run(_settings(name, level), belief=np.array([0.5, np.nan, 0.5, 0.0]))


@pytest.mark.parametrize(
    ('given_', 'words'),
    [
        ({'risk': 'max'}, "planner: risk: found 'max', expected one of none, mean, cvar, worst"),
        ({'risk': 'cvar', 'risk_level': 0.0}, r'risk_level: found 0.0, expected in \(0, 1\]'),
        ({'risk': 'cvar', 'risk_level': 1.5}, 'risk_level: found 1.5'),
        ({'risk': 'cvar', 'risk_level': 'low'}, "risk_level: found 'low', expected a number"),
        ({'risk': 'worst', 'risk_level': 0.1}, 'risk_level: requires risk: cvar, got.*worst'),
        ({'risk_level': 0.1}, 'risk_level: requires risk: cvar, got risk: none'),
    ],
)
def test_wrong_settings_are_errors_in_words(given_, words):
    with pytest.raises(ConfigError, match=words):
        config.build(PlannerConfig, {**SETTINGS, **given_}, 'planner')


def test_the_paper_is_the_default():
    assert config.build(PlannerConfig, SETTINGS, 'planner') == _settings('none')
