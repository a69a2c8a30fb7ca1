"""The closed loop in which planners are compared, with this package's planner."""

import numpy as np
import pytest

from benchmarks.paper.cells import changed
from benchmarks.peers import compute
from benchmarks.peers.compute import Timing
from benchmarks.peers.planners import EnsemblePlanner, PlannerSettings
from emppi_ros.core import weights
from emppi_ros.model.ensemble import State
from emppi_ros.model.parameters import nominal_values
from emppi_ros.tasks.task import Task, parse_task, task_text

SETTINGS = PlannerSettings(rollouts=64, threads=1, seed=0)
START = State(np.array([0.0, np.pi]), np.zeros(2))


@pytest.fixture(scope='module')
def task() -> Task:
    text = changed(task_text('cartpole_swingup'), {'duration_s': 0.6, 'planner': {'threads': 1}})
    return parse_task(text)


def test_a_ratio_is_the_median_of_pairs_not_the_ratio_of_medians() -> None:
    pairs = np.array([[1.0, 1.0], [4.0, 2.0], [9.0, 1.0]])
    found = Timing(pairs, np.array([0.5, 1.5]), np.array([1.0, 1.0, 3.0])).summary()
    assert found == {
        'plan_ms': 4e3, 'stepping_ms': 1e3, 'ratio': 2.0, 'observe_ms': 1e3, 'own_ratio': 3.0,
    }  # fmt: skip
    assert Timing(pairs, np.array([0.5]), np.array([])).summary()['own_ratio'] is None


@pytest.mark.slow
def test_a_run_is_the_same_with_the_same_seed_and_another_with_another(task: Task) -> None:
    truth, states = nominal_values(task.parameters, task.model), []
    for seed in (0, 0, 1):
        settings = SETTINGS._replace(seed=seed)
        planner = EnsemblePlanner(False, task, settings)
        motion, _ = compute.run(task, planner, truth, START, settings)
        states.append(motion.states)
    assert np.array_equal(states[0], states[1])
    assert not np.array_equal(states[0], states[2])


def test_every_planner_rolls_out_as_often(task: Task) -> None:
    for learns in (False, True):
        planner = EnsemblePlanner(learns, task, SETTINGS)
        planner.plan(0.0, START)
        assert np.prod(planner.rollouts.controls.shape[:2]) == SETTINGS.rollouts


@pytest.mark.slow
def test_only_what_learns_finds_other_parameters(task: Task) -> None:
    truth = np.array([0.5, 0.012])
    learner = EnsemblePlanner(True, task, SETTINGS)
    compute.run(task, learner, truth, START, SETTINGS)
    belief = learner.belief.filter.belief
    found = weights.mean(belief.log_weights, belief.theta)
    # 0.6 s of motion: at least three times closer than the prior's mean
    assert np.all(np.abs(found - truth) < np.abs(task.prior.mean() - truth) / 3.0)
    fixed = EnsemblePlanner(False, task, SETTINGS)
    compute.run(task, fixed, truth, START, SETTINGS)
    assert np.array_equal(
        fixed.planner.ensemble.theta[0], nominal_values(task.parameters, task.model)
    )


def test_plans_with_a_delay_start_where_commands_still_act() -> None:
    """Before a run none does: a cart with a hanging pole coasts for the delay of each model."""
    bounds = {'lower': 0.0, 'upper': 0.05}
    delay = {
        'field': 'command_delay', 'unit': 's', **bounds,
        'prior': {'distribution': 'uniform', **bounds},
    }  # fmt: skip
    truth = {'delay': {'distribution': 'fixed', 'value': 0.02}}
    changes = {'parameters': {'delay': delay}, 'simulation': {'truth': truth}}
    delayed = parse_task(changed(task_text('cartpole_swingup'), changes))
    planner = EnsemblePlanner(True, delayed, SETTINGS)
    planner.plan(0.0, State(START.qpos, np.array([0.5, 0.0])))
    delays = planner.planner.ensemble.delays
    assert delays is not None and np.ptp(delays) > 0.03
    # friction of 0.05 N s/m on 1 kg or more takes at most 0.05 / 1 * (0.05 s + h) / 2 of the way,
    # with steps of at most h = 0.01 s whose velocity moves the cart from their start on
    np.testing.assert_allclose(planner.rollouts.start.qpos[:, 0], 0.5 * delays, rtol=1.5e-3)
    forces = [planner.control(0.01 * i)[0] for i in range(10)]
    planner.plan(0.1, START)
    assert np.sign(planner.rollouts.start.qvel[np.argmax(delays), 0]) == np.sign(forces[-1])
