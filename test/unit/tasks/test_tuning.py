"""What may change while a task runs changes, alone, and within its range."""

import json

import command_series
import numpy as np
import pytest

from emppi_ros.app.closed_loop import SupervisedLoop
from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.planning.planner import Planner
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import load_task, parse_task

PUSH = load_task('panda_push')
NAMES = paths.available('tasks')


def data_of(name):
    return config.load(paths.find_config('tasks', name))


@pytest.mark.parametrize('name', NAMES)
def test_a_tuned_task_is_the_task_but_for_its_numbers(name):
    data = data_of(name)
    knobs = tuning.tunable_parameters(data)
    assert {'planner.temperature', 'planner.noise_variance'} < set(knobs)
    assert all(knob.doc and knob.low < knob.high for knob in knobs.values())
    assert tuning.is_tuned(data, tuning.tune(data, {n: k.value for n, k in knobs.items()}))
    halves = {
        n: tuple(v / 2 for v in k.value) if isinstance(k.value, tuple) else k.value / 2
        for n, k in knobs.items()
    }
    tuned = tuning.tune(data, halves)
    assert tuning.is_tuned(data, tuned) and tuning.is_tuned(tuned, data)
    assert {n: k.value for n, k in tuning.tunable_parameters(tuned).items()} == halves
    assert data == data_of(name)  # what was given stays
    assert config.parse(tuning.to_text(tuned), 'tuned') == tuned


@pytest.mark.parametrize(
    ('key', 'value'), [('duration_s', 16.0), ('robot', 'fr3'), ('scene', 'panda_reconfigure.xml')]
)
def test_a_task_that_differs_in_more_is_another(key, value):
    assert not tuning.is_tuned(PUSH.data, {**PUSH.data, key: value})


@pytest.mark.parametrize(
    'change',
    [
        {'planner': 3}, {'planner': {}}, {'planner': {'temperature': 'x', 'noise_variance': 1}},
        {'planner': {'temperature': 10**400, 'noise_variance': 1}}, {'cost': [1]}, {'cost': 'x'},
        {'cost': {'reach': {}}}, {'stages': [{}]}, {'stages': 5}, {'belief': None},
        {'belief': {'likelihood': 2}},
    ],
)  # fmt: skip
def test_what_is_no_task_is_another_and_no_reason_to_fail(change):
    wrong = {**PUSH.data, **change}
    assert not tuning.is_tuned(PUSH.data, wrong) and not tuning.is_tuned(wrong, PUSH.data)
    assert not tuning.is_tuned(PUSH.data, {'a': 1})


def test_a_task_with_other_terms_is_another():
    fewer = {k: v for k, v in PUSH.data['cost'].items() if k != 'force'}
    assert not tuning.is_tuned(PUSH.data, {**PUSH.data, 'cost': fewer})


@pytest.mark.parametrize(
    ('values', 'words'),
    [
        ({'cost.reach.weight': -1.0}, r'cost\.reach\.weight: found -1, expected from 0 to 1e\+06'),
        ({'cost.reach.weight': float('nan')}, 'found nan'),
        ({'planner.temperature': 0.0}, 'planner.temperature: found 0'),
        ({'planner.noise_variance': (0.1, -1.0)}, 'found -1'),
        (
            {'cost.reech.weight': 1.0},
            "unknown tunable .*did you mean 'cost.reach.weight'",
        ),
        ({'planner.horizon': 5.0}, 'unknown tunable parameter'),
    ],
)
def test_what_may_not_be_is_told_with_what_may(values, words):
    with pytest.raises(ConfigError, match=words):
        tuning.tune(PUSH.data, {'cost.push.weight': 1.0, **values})


@pytest.mark.parametrize(
    ('values', 'words'),
    [
        ({'cost.force.weight': 0.0}, 'force.*the term has no effect'),
        ({'planner.noise_variance': (0.1, 0.2)}, 'noise_variance'),
    ],
)
def test_numbers_that_contradict_one_another_are_told(values, words):
    with pytest.raises(ConfigError, match=words):
        PUSH.tuned(tuning.tune(PUSH.data, values))


def test_a_tuned_task_is_what_its_text_says():
    data = tuning.tune(PUSH.data, {'cost.push.weight': 7.5, 'planner.temperature': 0.5})
    tuned, read = PUSH.tuned(data), parse_task(tuning.to_text(data))
    assert tuned.planner == read.planner and tuned.belief == read.belief
    weights = [[term.weight for term in task.stages[0].cost.terms] for task in (tuned, read)]
    assert weights[0] == weights[1] and 7.5 in weights[0]
    assert PUSH.planner.temperature == 0.02


def test_tuning_keeps_the_plan_and_the_belief():
    planner, rng = Planner(PUSH, np.random.default_rng(0)), np.random.default_rng(1)
    state = PUSH.start()
    planner.plan_from(state, 0.0, 0.05, command_series.held(np.zeros(7)))
    before, models = planner._controls.copy(), planner.ensemble
    tuned = PUSH.tuned(tuning.tune(PUSH.data, {'planner.temperature': 0.5}))
    planner.tune(json.dumps(tuned.data))
    assert planner.ensemble is models and np.array_equal(planner._controls, before)
    assert planner.settings.temperature == 0.5
    assert planner.settings.models == PUSH.planner.models
    learned = ParticleFilter(PUSH, rng)
    theta = learned.belief.theta
    learned.tune(PUSH.tuned(tuning.tune(PUSH.data, {'belief.likelihood.joint_velocity_sd': 0.1})))
    assert learned.belief.theta is theta
    assert learned._config.likelihood.joint_velocity_sd == 0.1


def test_a_dead_zone_can_change_where_a_term_has_one():
    data = PUSH.data
    found = {name for name in tuning.tunable_parameters(data) if name.endswith('deadzone')}
    having = {name for name, term in data['cost'].items() if 'deadzone' in term}
    assert found == {f'cost.{name}.deadzone' for name in having} and 'force' in having
    tuned = PUSH.tuned(tuning.tune(data, {'cost.force.deadzone': 0.0}))
    zones = {term.name: term.deadzone for term in tuned.stages[0].cost.terms}
    assert zones['force'] == 0.0 and tuning.is_tuned(data, tuned.data)
    with pytest.raises(ConfigError, match='cost.force.deadzone: found -1'):
        tuning.tune(data, {'cost.force.deadzone': -1.0})


def test_other_weights_change_the_plan_as_they_do_in_a_file():
    data = tuning.tune(PUSH.data, {'cost.reach.weight': 50.0})
    plans = []
    for task, then in ((PUSH, PUSH.tuned(data)), (parse_task(tuning.to_text(data)), None)):
        planner = Planner(task, np.random.default_rng(0))
        if then is not None:
            planner.tune(json.dumps(then.data))
        planner.plan_from(PUSH.start(), 0.0, 0.05, command_series.held(np.zeros(7)))
        plans.append(planner._controls)
    # the same arithmetic on the same models: equal to the last bit
    assert np.array_equal(*plans)


def test_a_goal_moves_while_a_task_runs(make_task, task_data):
    data = task_data('slider')
    for entry in (data['cost']['reach'], data['success']['residual']):
        del entry['to']
        entry['point'] = [0.4, 0.0, 0.0]
    data['duration_s'] = 4.0
    data['planner'] |= {'rollouts': 16, 'horizon': 10, 'temperature': 0.01}
    loop = SupervisedLoop(make_task('slider', data), seed=0)
    loop.arm(True)
    goals = ((0.4, 0.0, 0.0), (-0.3, 0.0, 0.0))
    for goal in goals:
        loop.tune({'cost.reach.point': goal, 'success.residual.point': goal})
        reached = loop.run(stop_at_success=False).frames[-1]
        assert reached.error < 0.1
        assert reached.qpos[0] == pytest.approx(goal[0], abs=0.1)
    with pytest.raises(ConfigError, match='point'):
        loop.tune({'cost.reach.point': (0.1, 0.0)})
