"""Laws of the strategies: what each one makes of the same samples."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.core.errors import AllDivergedError
from emppi_ros.planning import plan_update
from emppi_ros.planning.plan_update import PlanProblem
from emppi_ros.robots.robot import ControlLimits
from emppi_ros.strategies.strategy import STRATEGIES, weigh_steps
from emppi_ros.tasks.cost import Costs
from emppi_ros.tasks.planner_config import PlannerConfig

M, K, H, NU = 2, 20, 4, 2
CONFIG = PlannerConfig(
    models=M, rollouts=K, horizon=H, step_s=0.05, rate_hz=20.0, substeps=1, temperature=0.3,
    noise_variance=(0.5,),
)  # fmt: skip
LIMITS = ControlLimits(np.full(NU, -0.9), np.full(NU, 0.9), np.full(NU, 0.8))
GAINS, BELIEF = np.array([0.5, 1.5]), np.array([0.3, 0.7])
NOMINAL = np.random.default_rng(1).normal(0.0, 0.2, (H, NU))
ROUNDING = 1e-14  # sums of up to 20 numbers below 1
names = pytest.mark.parametrize('name', STRATEGIES)
seeds = given(st.integers(0, 10_000))


def _cost(controls):
    x = 1.0 + np.cumsum(GAINS[:, None, None, None] * controls, axis=2)
    return Costs(np.sum(x**2, axis=-1), np.zeros(controls.shape[:2]))


def _run(name, seed, evaluate=_cost, nominal=NOMINAL, **changes):
    config = dataclasses.replace(CONFIG, strategy=name, **changes)
    problem = PlanProblem(nominal, np.zeros(NU), LIMITS, np.log(BELIEF))
    return plan_update.plan(config, problem, evaluate, np.random.default_rng(seed))


def _mean_costs(controls):
    """Return the mean cost of each plan over models, (K,)."""
    return BELIEF @ _cost(controls).running.sum(axis=2)


@seeds
def test_predictive_sampling_returns_the_best_sample_and_never_a_worse_plan(seed):
    plan, info = _run('predictive_sampling', seed)
    costs = _mean_costs(info.controls)
    np.testing.assert_allclose(plan, info.controls[0, np.argmin(costs)], rtol=0, atol=ROUNDING)
    before = LIMITS.clip(NOMINAL, np.zeros(NU))
    np.testing.assert_allclose(info.controls[0, 0], before, rtol=0, atol=ROUNDING)
    improved = _mean_costs(np.broadcast_to(plan, (M, 1, H, NU)))[0]
    assert improved <= costs[0] + 100 * ROUNDING


@seeds
def test_the_plan_of_the_cross_entropy_method_is_the_mean_of_the_elites(seed):
    plan, info = _run('cem', seed)
    elites = info.controls[0, np.argsort(_mean_costs(info.controls))[: K // 10]]
    np.testing.assert_allclose(plan, elites.mean(axis=0), rtol=0, atol=ROUNDING)
    single, info = _run('cem', seed, rollouts=8)  # one elite
    best = info.controls[0, np.argmin(_mean_costs(info.controls))]
    np.testing.assert_allclose(single, best, rtol=0, atol=ROUNDING)


@seeds
def test_mppi_is_emppi_of_whole_plans_by_their_mean_cost(seed):
    ours, _ = _run('mppi', seed)
    same, _ = _run('emppi', seed, risk='mean', weighting='trajectory')
    np.testing.assert_allclose(ours, same, rtol=0, atol=10 * ROUNDING)


@names
@seeds
def test_weights_sum_to_one_and_neither_limits_nor_inputs_are_violated(name, seed):
    nominal = NOMINAL.copy()
    plan, info = _run(name, seed, nominal=nominal)
    np.testing.assert_allclose(info.weights.sum(axis=(0, 1)), np.ones(H), rtol=0, atol=1e-12)
    assert np.array_equal(nominal, NOMINAL) and np.abs(plan).max() <= 0.9


@names
def test_diverged_samples_have_no_weight_and_all_diverged_is_an_error(name):
    def diverging(controls, count=K - 1):
        costs = _cost(controls)
        costs.running[:, :count] = np.inf
        return costs

    _, info = _run(name, 0, diverging)
    assert np.all(info.weights[:, : K - 1] == 0.0) and info.diverged == M * (K - 1)
    with pytest.raises(AllDivergedError, match='no valid plan'):
        _run(name, 0, lambda controls: diverging(controls, K))


@names
def test_updates_go_downhill(name):
    rng, plan, costs = np.random.default_rng(3), np.zeros((H, NU)), []
    for _ in range(15):
        costs.append(_mean_costs(np.broadcast_to(plan, (M, 1, H, NU)))[0])
        plan, _ = _run(name, rng, nominal=plan, temperature=0.05, noise_variance=(0.05,))
    assert costs[-1] < 0.5 * costs[0]


def test_weights_ignore_infinite_costs_and_follow_the_prior():
    costs = np.array([[1.0], [np.inf], [1.0], [1.0]])
    w = weigh_steps(costs, np.log([0.5, 0.5, 0.25, 0.25]), 0.5)
    # three weights in proportion 2 : 1 : 1, rounded once
    np.testing.assert_allclose(w, [[0.5], [0.0], [0.25], [0.25]], rtol=1e-15)
