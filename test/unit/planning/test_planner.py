"""A planning cycle: predicts to the plan's start, improves the last plan, repeats bit for bit."""

import dataclasses

import command_series
import numpy as np
import pytest

from emppi_ros.core.errors import AllDivergedError, ConfigError
from emppi_ros.journal import snapshot
from emppi_ros.model.ensemble import State
from emppi_ros.planning.information import PredictedMeasurements
from emppi_ros.planning.planner import Planner
from emppi_ros.priors import particles
from emppi_ros.priors.particles import Belief
from emppi_ros.robots.robot import select_joints
from emppi_ros.state.estimator import Estimator
from emppi_ros.tasks.task import load_task

PERIOD = 0.05


def _still(nu):
    return command_series.held(np.zeros(nu))


def _planner(task, seed=0, theta=((0.5,), (1.0,), (2.0,)), models=None):
    planner = Planner(task, np.random.default_rng(seed), models)
    planner.set_belief(particles.uniform(np.array(theta)))
    return planner


def test_the_same_seed_and_inputs_give_the_same_bits(make_task):
    task = make_task('block')
    runs = []
    for _ in range(2):
        planner, bits = _planner(task), b''
        for i in range(4):
            plan, _ = planner.plan_from(task.start(), i * PERIOD, (i + 1) * PERIOD, _still(1))
            bits += plan.values.tobytes() + plan.times.tobytes()
        runs.append(bits)
    assert runs[0] == runs[1]


def test_a_plan_starts_from_the_command_in_force_and_stays_within_limits(make_task):
    task = make_task('block')
    planner = _planner(task)
    limits = task.robot.control_limits(task.planner.step_s)
    for i in range(5):
        plan, info = planner.plan_from(
            task.start(), i * PERIOD, (i + 1) * PERIOD, command_series.held([0.1])
        )
        assert plan.start == (i + 1) * PERIOD and plan.values[0] == [0.1]
        assert np.all(np.abs(plan.values) <= limits.upper)
        assert info.controls.shape == (3, 4, 6, 1) and np.isfinite(info.costs).all()


def test_the_state_is_predicted_to_the_start_of_the_plan_by_replaying_commands(
    make_task, task_data
):
    # with no latency from the predicted state, the plan is the same as with it from the measured;
    # a squared distance, for with a plain one all rollouts of a linear cart gain the same
    data = task_data('slider')
    data['cost']['reach']['norm'] = 'squared'
    task = make_task('slider', data)
    theta = np.array([[1.5]])

    stamps = 1.0 + np.arange(6) * 0.01
    rows = 3.0 * np.sin(20.0 * stamps)[:, None]
    applied = command_series.sampled(stamps, rows)
    late = _planner(task, theta=theta, models=1)
    plan, _ = late.plan_from(State(np.array([0.2]), np.array([0.3])), 1.0, 1.05, applied)
    predicted = late.ensemble.predict(
        State(np.array([0.2]), np.array([0.3])), rows[:5], task.model.opt.timestep
    )
    now = _planner(task, theta=theta, models=1)
    same, _ = now.plan_from(State(predicted.qpos[0], predicted.qvel[0]), 1.05, 1.05, applied)
    # the substep is 0.05 / 5 by one division or another: a difference in the last bit
    np.testing.assert_allclose(plan.values, same.values, rtol=0, atol=1e-9)


def test_a_plan_pushes_towards_the_goal_and_improves(make_task, task_data):
    data = task_data('slider')
    # forces that move 1 kg by centimetres in 0.3 s, and a temperature that can tell these apart
    data['planner'].update(noise_variance=[9.0], temperature=0.005, rollouts=20)
    task = make_task('slider', data)
    planner, start = _planner(task), State(np.zeros(1), np.zeros(1))
    costs = []
    for _ in range(15):  # the same moment again and again: only the plan improves
        plan, info = planner.plan_from(start, 0.0, 0.0, _still(1))
        costs.append(info.costs.mean())
    assert plan.values[1:4].mean() > 3.0  # the goal is at x = 0.5: by more than one sd
    assert np.mean(costs[-5:]) < np.mean(costs[:5])


@pytest.mark.parametrize('adaptation', [None, {}])
def test_a_forgotten_plan_is_as_none(make_task, task_data, adaptation):
    data = task_data('block')
    data['planner']['noise_adaptation'] = adaptation
    task = make_task('block', data)
    planner = _planner(task)
    planner.plan_from(task.start(), 0.0, PERIOD, _still(1))
    planner.reset_plan()
    _, info = planner.plan_from(task.start(), PERIOD, 2 * PERIOD, _still(1))
    fresh = _planner(task)
    fresh._rng.standard_normal((3, 4, 6, 1))  # as many draws as the first plan took
    _, other = fresh.plan_from(task.start(), PERIOD, 2 * PERIOD, _still(1))
    assert np.array_equal(info.controls, other.controls)


def test_adapted_noise_moves_on_with_the_plan_also_from_a_snapshot(make_task, task_data):
    data = task_data('slider')  # with noise far within the limits
    data['planner'] |= {'noise_adaptation': {'rate': 0.9}, 'rollouts': 500, 'temperature': 1e-4}
    task = make_task('slider', data)
    planner = _planner(task)
    _, info = planner.plan_from(task.start(), 0.0, PERIOD, _still(1))
    other = _planner(task, seed=1)
    snapshot.restore(other, snapshot.dump(planner))
    _, after = planner.plan_from(task.start(), PERIOD, 2 * PERIOD, _still(1))
    _, same = other.plan_from(task.start(), PERIOD, 2 * PERIOD, _still(1))
    assert np.array_equal(after.controls, same.controls)
    spread = after.controls.reshape(-1, *after.controls.shape[2:]).var(axis=0)
    shifted = np.concatenate([info.variance[1:], info.variance[-1:]])  # a step is a period
    assert np.ptp(shifted) > 0.2 * shifted.mean()  # steps differ by more than the tolerance
    # 1500 draws: five relative standard deviations, sqrt(2 / 1500)
    np.testing.assert_allclose(spread, shifted, rtol=5 * np.sqrt(2 / 1500))


def test_one_model_gets_as_many_rollouts_as_the_ensemble(make_task):
    planner = Planner(make_task('block'), np.random.default_rng(0), models=1)
    assert (planner.settings.models, planner.settings.rollouts) == (1, 12)
    assert planner.config.models == 3


def test_a_one_hot_belief_plans_as_if_other_models_were_not_there(make_task):
    task = make_task('slider')
    theta = np.array([[0.5], [1.0], [2.0]])
    log_weights = np.array([-np.inf, 0.0, -np.inf])
    plans = []
    for others in (theta, np.array([[9.0], [1.0], [0.1]])):
        planner = Planner(task, np.random.default_rng(0))
        planner.set_belief(Belief(others, log_weights))
        plans.append(planner.plan_from(task.start(), 0.0, PERIOD, _still(1))[0].values)
    assert np.array_equal(*plans)


@pytest.mark.parametrize('risk', ['mean', 'cvar', 'worst'])
def test_with_a_risk_measure_all_models_roll_out_the_same_plans(make_task, task_data, risk):
    data = task_data('slider')
    data['planner'].update(risk=risk, noise_variance=[9.0])  # forces that tell models apart
    task = make_task('slider', data)
    values = []
    for theta in (((0.5,), (1.0,), (2.0,)), ((2.0,), (0.5,), (1.0,))):  # in any order
        plan, info = _planner(task, theta=theta).plan_from(task.start(), 0.0, PERIOD, _still(1))
        values.append(plan.values)
        assert info.controls.shape == (3, 4, 6, 1) and info.weights.shape == (3, 4, 6)
        assert np.all(info.controls == info.controls[0])
        assert not np.array_equal(info.costs[0], info.costs[1])
    # sums over three models in another order, of costs of order 1 over a temperature of 0.02
    np.testing.assert_allclose(*values, rtol=0, atol=1e-9)


def test_information_without_weight_changes_no_bit_and_computes_nothing(
    make_task, task_data, monkeypatch
):
    monkeypatch.setattr(PredictedMeasurements, 'evaluate', None)  # calling it would raise
    plans = []
    for keys in ({}, {'information_weight': 0.0}):
        data = task_data('block')
        data['planner'].update(keys)
        planner = _planner(make_task('block', data))
        fields = []
        rollout = planner.ensemble.rollout
        monkeypatch.setattr(
            planner.ensemble,
            'rollout',
            lambda *a, f=fields, r=rollout, **k: f.append(a[2]) or r(*a, **k),
        )
        plan, info = planner.plan_from(planner.task.start(), 0.0, PERIOD, _still(1))
        assert fields == [list(planner.stage.cost.record)]
        assert not np.array_equal(info.controls[0], info.controls[1])  # each model its own noise
        plans.append(plan.values)
    assert np.array_equal(*plans)


def test_with_information_all_models_roll_out_the_same_plans(make_task, task_data):
    data = task_data('slider')
    data['planner']['information_weight'] = 0.1
    task = make_task('slider', data)
    _, info = _planner(task).plan_from(task.start(), 0.0, PERIOD, _still(1))
    assert info.controls.shape == (3, 4, 6, 1)
    assert np.all(info.controls == info.controls[0])


@pytest.mark.parametrize('how', ['weight', 'probe'])
def test_information_is_sought_only_where_models_disagree(make_task, task_data, how):
    # a cart at its target, so that nothing but its unknown mass is a reason to push
    data = task_data('slider')
    data['planner'].update(rollouts=16, noise_variance=[9.0])
    if how == 'weight':
        data['planner']['information_weight'] = 5.0
    else:
        data['probe'] = {'information_weight': 5.0}
    task = make_task('slider', data)
    forces = []
    for masses in (((1.0,), (1.0,), (1.0,)), ((0.5,), (1.0,), (2.0,))):
        planner = _planner(task, theta=masses)
        if how == 'probe':
            planner.probe(10.0)
        start = State(np.array([0.5]), np.zeros(1))
        for i in range(10):
            plan, _ = planner.plan_from(start, i * PERIOD, (i + 1) * PERIOD, _still(1))
        forces.append(np.abs(plan.values).mean())
    assert forces[1] > 2.0 * forces[0]


def test_a_planner_that_has_probed_plans_like_one_that_has_not(make_task):
    task, values = make_task('slider'), []
    for until in (None, 0.5):
        planner = _planner(task)
        if until is not None:
            planner.probe(until)
        plan, _ = planner.plan_from(task.start(), 1.0 - PERIOD, 1.0, _still(1))
        values.append(plan.values)
    assert np.array_equal(*values)


def test_probing_needs_parameters_and_several_models(make_task, task_data):
    data = task_data('slider')
    data['parameters'], data['simulation'] = {}, {'truth': {}}
    with pytest.raises(ConfigError, match='probe: the task has no unknown parameters'):
        Planner(make_task('slider', data)).probe(1.0)
    planner = _planner(make_task('slider'), theta=[[1.0]], models=1)
    with pytest.raises(ConfigError, match='probe: needs several models'):
        planner.probe(1.0)


@pytest.mark.parametrize('risk', ['none', 'mean', 'worst'])
def test_a_model_that_cannot_be_predicted_leaves_no_plan_to_a_risk_measure(
    make_task, task_data, monkeypatch, risk
):
    data = task_data('slider')
    data['planner']['risk'] = risk
    task = make_task('slider', data)
    planner = _planner(task)
    blown = State(np.array([[0.0], [np.nan], [0.0]]), np.zeros((3, 1)))
    monkeypatch.setattr(planner.ensemble, 'predict', lambda *_: blown)
    if risk == 'none':  # the paper goes on with the others
        _, info = planner.plan_from(task.start(), 0.0, PERIOD, _still(1))
        assert info.diverged == 4
        return
    with pytest.raises(AllDivergedError, match='each of 4 plans diverged in a model'):
        planner.plan_from(task.start(), 0.0, PERIOD, _still(1))


def test_a_state_that_diverges_everywhere_is_an_error(make_task, capfd):
    task = make_task('block')
    start = task.start()
    start.qvel[0] = np.nan
    with pytest.raises(AllDivergedError, match='all 12 rollouts diverged'):
        _planner(task).plan_from(start, 0.0, PERIOD, _still(1))
    assert capfd.readouterr() == ('', '')


def test_joints_and_actuators_may_be_in_any_order(make_task, task_data):
    # the robot lists the elbow first, the scene's actuators the shoulder
    robot = {
        'name': 'r',
        'joints': ['elbow', 'shoulder'],
        'commanded': ['elbow', 'shoulder'],
        'command': 'position',
        'home': [-0.2, 0.3],
        'limits': {
            'position': {'lower': [-2.0, -2.0], 'upper': [2.0, 2.0]},
            'velocity': [1.0, 1.0],
            'acceleration': [5.0, 5.0],
        },
    }
    plain, swapped = make_task('two_link'), make_task('two_link', robot=robot)
    assert np.array_equal(plain.start().qpos, swapped.start().qpos)
    rng = np.random.default_rng(0)
    controls = rng.normal(0.0, 0.3, (3, 4, 6, 2))
    costs = []
    for task, order in ((plain, [0, 1]), (swapped, [1, 0])):
        planner = _planner(task)

        class Given:
            def standard_normal(self, shape, order=order):
                return controls[..., order]

        planner._rng = Given()
        home = np.array(task.robot.home)
        _, info = planner.plan_from(task.start(), 0.0, 0.0, command_series.held(home))
        costs.append(info.costs)
    # sums over two controls in another order
    np.testing.assert_allclose(costs[0], costs[1], rtol=1e-12)


@pytest.mark.parametrize('shift', [0.7, -1.1])
def test_where_joint_positions_have_their_zero_does_not_change_a_plan_of_positions(
    make_task, task_data, robot_data, write_task, shift
):
    plans = []
    for offset in (0.0, shift):
        robot = robot_data('two_link')
        robot['home'] = [home + offset for home in robot['home']]
        robot['limits']['position'] = {'lower': [-2.0 + offset] * 2, 'upper': [2.0 + offset] * 2}
        path = write_task('two_link', robot=robot)
        scene = path.with_suffix('.xml')
        degrees = np.rad2deg(offset)
        text = scene.read_text().replace('type="hinge"', f'type="hinge" ref="{degrees}"')
        scene.write_text(text)
        planner = _planner(load_task(str(path)))
        home = np.array(robot['home'])
        for i in range(3):  # later plans start from the last one
            plan, _ = planner.plan_from(
                planner.task.start(), i * PERIOD, (i + 1) * PERIOD,
                command_series.held(home),
            )  # fmt: skip
        plans.append(plan.values - offset)
    # costs of order 1 over a temperature of 0.1, with the offset rounded: 1e3 * 2^-53
    np.testing.assert_allclose(plans[1], plans[0], rtol=0, atol=1e-12)


def test_settings_of_a_plan_are_those_of_the_task(make_task):
    task = make_task('slider')
    assert _planner(task).settings == dataclasses.replace(task.planner)


def test_a_permuted_joint_state_gives_the_identical_plan(make_task):
    task = make_task('two_link')
    message = {'elbow': (-0.2, 0.4), 'finger': (9.0, 9.0), 'shoulder': (0.3, -0.1)}
    plans = []
    for names in (['shoulder', 'elbow'], ['elbow', 'shoulder'], ['finger', 'elbow', 'shoulder']):
        position, velocity = ([message[name][i] for name in names] for i in (0, 1))
        found = select_joints(
            task.robot.joints, names, {'position': position, 'velocity': velocity}
        )
        estimator = Estimator(task)
        estimator.add_joints(0.0, found['position'], found['velocity'])
        state = estimator.state(0.0)
        plans.append(_planner(task).plan_from(state, 0.0, PERIOD, _still(2))[0].values.tobytes())
    assert plans[0] == plans[1] == plans[2]
