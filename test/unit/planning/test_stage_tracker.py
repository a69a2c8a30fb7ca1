"""Stages follow one another as measured, not as hoped."""

import command_series
import numpy as np
import pytest

from emppi_ros.core.errors import ConfigError, SceneError
from emppi_ros.model.ensemble import State
from emppi_ros.planning.planner import Planner
from emppi_ros.planning.stage_tracker import StageTracker
from emppi_ros.tasks.hold_timer import HoldTimer

REACH = {'residual': 'distance', 'of': 'body:cart', 'to': 'goal'}


def _stages(**last):
    cost = {'reach': {**REACH, 'weight': 1.0}}
    until = {'residual': REACH, 'below': 0.05, 'hold_s': 0.2}
    calm = {'calm': {'residual': 'joint_velocity', 'joints': ['x'], 'weight': 1.0}}
    return [
        {'name': 'reach', 'cost': cost, 'until': until},
        {'name': 'rest', 'cost': calm, **last},
    ]


@pytest.fixture
def staged(make_task, task_data):
    """Return a maker of tasks with two stages: reach the goal at 0.5, then rest."""

    def make(**last):
        data = task_data('slider')
        del data['cost']
        return make_task('slider', {**data, 'stages': _stages(**last)})

    return make


def _at(x):
    return State(np.array([x]), np.zeros(1))


def test_a_stage_ends_when_its_condition_has_held_for_its_time(staged):
    staging = StageTracker(staged())
    names = [
        staging.advance(_at(x), stamp).name
        for stamp, x in [(0.0, 0.0), (0.1, 0.5), (0.25, 0.5), (0.3, 0.5), (0.4, 0.0)]
    ]
    assert names == ['reach', 'reach', 'reach', 'rest', 'rest']


def test_a_condition_that_was_lost_begins_anew(staged):
    staging = StageTracker(staged())
    for stamp, x in [(0.0, 0.5), (0.15, 0.3), (0.2, 0.5), (0.35, 0.5)]:
        assert staging.advance(_at(x), stamp).name == 'reach'
    assert staging.advance(_at(0.5), 0.41).name == 'rest'


def test_what_was_reached_and_is_lost_is_reached_again(staged):
    staging = StageTracker(staged(back_above=0.1))
    for stamp in (0.0, 0.2):
        staging.advance(_at(0.5), stamp)
    assert staging.advance(_at(0.42), 0.3).name == 'rest'
    assert staging.advance(_at(0.35), 0.4).name == 'reach'


def test_the_planner_plans_with_the_cost_of_the_stage(staged, rng):
    planner = Planner(staged(), rng)
    seen = []
    for stamp in (0.0, 0.25, 0.5):
        planner.plan_from(_at(0.5), stamp, stamp + 0.05, command_series.held(np.zeros(1)))
        seen.append([term.name for term in planner.stage.cost.terms])
    assert seen == [['reach'], ['calm'], ['calm']]


@pytest.mark.parametrize(
    ('change', 'match'),
    [
        (lambda d: d.update(cost={'a': {**REACH, 'weight': 1.0}}), 'either cost or stages'),
        (lambda d: d.update(stages=[]), 'either cost or stages'),
        (lambda d: d['stages'][0].pop('until'), 'stages: reach: until: missing: the next stage'),
        (
            lambda d: d['stages'][1].update(until=d['stages'][0]['until']),
            'stages: rest: until: the last stage has none',
        ),
        (
            lambda d: d['stages'][0].update(back_above=1.0),
            'back_above: the first stage has none',
        ),
        (lambda d: d['stages'][1].update(name='reach'), 'stages: two have the same name'),
        (lambda d: d['stages'][1].update(grasp=['g']), "rest: grasp: unknown equality 'g'"),
        (lambda d: d['stages'][1].update(grap=[]), "unknown key 'grap'"),
    ],
)
def test_stages_that_make_no_sense_are_errors(make_task, task_data, change, match):
    data = task_data('slider')
    del data['cost']
    data['stages'] = _stages()
    change(data)
    with pytest.raises((ConfigError, SceneError), match=match):
        make_task('slider', data)


def test_it_has_held_when_it_did_at_every_moment_of_the_time():
    held = HoldTimer()
    seen = [(True, 0.0), (True, 0.5), (False, 0.9), (True, 1.0), (True, 1.9), (True, 2.0)]
    assert [held.update(holds, now, 1.0) for holds, now in seen] == [False] * 5 + [True]


def test_sums_of_steps_are_not_a_step_late():
    held, now, found = HoldTimer(), 0.0, []
    for _ in range(11):
        found.append(held.update(True, now, 1.0))
        now += 0.1  # ten of them are 0.9999999999999999
    assert found == [False] * 10 + [True]


def test_without_a_time_it_has_to_hold_just_once():
    held = HoldTimer()
    assert [held.update(holds, now, 0.0) for holds, now in ((False, 0.0), (True, 1.0))] == [
        False,
        True,
    ]
