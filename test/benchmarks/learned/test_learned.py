"""Derivatives and training of the network, its place in the planner, and a row of the study."""

import numpy as np
import pytest

from benchmarks.learned import compute as runs
from benchmarks.learned import dynamics
from benchmarks.learned.compute import DATA, METHODS, LearnedCell, compute, prediction_errors
from benchmarks.learned.dynamics import LearnedModel, Network
from benchmarks.studies.learned import STUDY
from benchmarks.study import Results
from emppi_ros.core.errors import BenchError
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.tasks.task import load_task


@pytest.fixture(scope='module')
def task():
    return load_task('cartpole_swingup')


@pytest.fixture(scope='module')
def model(task):
    """Return a network of one pole, trained briefly, as a model of 16 rollouts."""
    rng = np.random.default_rng(1)
    motion = dynamics.record(task, np.tile(task.prior.mean(), (50, 1)), rng)
    return LearnedModel(task, Network(task, motion, rng, 300), 16)


def test_the_gradient_is_the_slope_of_the_error():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((7, 3)), rng.standard_normal((7, 2))
    shapes = (3, 5), (5,), (5, 4), (4,), (4, 2), (2,)
    layers, small = [rng.standard_normal(shape) for shape in shapes], 1e-6

    def error(changed):
        return 0.5 * np.mean((dynamics.forward(changed, x)[-1] - y) ** 2)

    for i, slope in enumerate(dynamics.gradient(layers, x, y)):
        for at in np.ndindex(slope.shape):
            values = []
            for sign in (1.0, -1.0):
                moved = [one.copy() for one in layers]
                moved[i][at] += sign * small
                values.append(error(moved))
            # differences of 1e-6 round to 1e-10, and are exact to their square
            assert slope[at] == pytest.approx((values[0] - values[1]) / (2.0 * small), abs=1e-8)


def test_training_reduces_the_error_of_predictions(task, model):
    rng, theta = np.random.default_rng(2), task.prior.mean()
    untrained = dynamics.record(task, np.tile(theta, (50, 1)), rng)
    start = LearnedModel(task, Network(task, untrained, rng, 1), 16)
    before, after = (prediction_errors(task, one, theta, 3)[0] for one in (start, model))
    assert after < 0.5 * before  # 0.3 rad or more without training, and less than 0.1 rad with it


def test_the_true_simulation_predicts_without_an_error(task):
    theta = task.prior.mean()
    exact = Ensemble(task.model, task.parameters, 1, 16)
    exact.write(theta[None])
    assert prediction_errors(task, exact, theta, 3) == (0.0, 0.0)


def test_states_are_recorded_at_the_ends_of_steps(task, model):
    substeps = task.planner.substeps
    start = State(np.array([0.1, 2.0]), np.array([0.3, -1.0]))
    controls = np.random.default_rng(4).uniform(-9.0, 9.0, (1, 16, 2 * substeps + 1, 1))
    records = model.rollout(start, controls, ['qpos'])
    first = model.predict(start, controls[0, 5, :substeps], task.planner.step_s / substeps)
    second = model.predict(first, controls[0, 5, substeps:-1], task.planner.step_s / substeps)
    for index, end in ((substeps - 1, first), (2 * substeps - 1, second)):
        # products of matrices of other sizes round in another order
        np.testing.assert_allclose(records.fields['qpos'][0, 5, index], end.qpos[0], rtol=1e-9)


def test_a_duration_in_between_takes_a_share_of_the_change(task, model):
    start, control = State(np.array([0.1, 2.0]), np.array([0.3, -1.0])), np.full((3, 1), 4.0)
    ends = [model.predict(start, control, s * task.planner.step_s / 3).qpos[0] for s in (1.0, 1.1)]
    np.testing.assert_allclose(ends[1] - start.qpos, 1.1 * (ends[0] - start.qpos), rtol=1e-9)


def test_a_cost_of_other_fields_is_refused(model):
    with pytest.raises(BenchError, match='the cost reads site_xpos'):
        model.rollout(State(np.zeros(2), np.zeros(2)), np.zeros((1, 16, 4, 1)), ['site_xpos'])


def test_code_of_beliefs_outdates_only_the_controller_with_a_belief(monkeypatch):
    before = {method: LearnedCell(method, 0, 'name: a').digest for method in METHODS}
    monkeypatch.setattr(runs, 'belief_digest', lambda _: 'another')
    after = {method: LearnedCell(method, 0, 'name: a').digest for method in METHODS}
    assert [method for method in METHODS if before[method] != after[method]] == ['emppi']


def test_another_number_of_updates_outdates_networks_only():
    for method in ('mppi-mean', *DATA):
        few, many = (LearnedCell(method, 0, 'name: a', n).digest for n in (10, 20))
        assert (few != many) == (method in DATA)


@pytest.mark.slow
def test_a_quick_study_has_a_row_for_each_method_and_a_page(tmp_path):
    selection = STUDY.select(quick=True, methods=['emppi', 'mppi-true', 'mppi-learned-100'])
    rows = [compute(cell) for cell in STUDY.cells(selection).cells]
    assert rows[0].errors is None and rows[1].errors == (0.0, 0.0) and rows[2].errors[1] > 0.0
    assert 'mppi-learned-100' in str(STUDY.page(Results(rows, tmp_path)).values['success'])
