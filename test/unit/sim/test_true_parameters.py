"""True parameters over time: drawn or given, constant or changing."""

import numpy as np
import pytest

from emppi_ros.core.errors import ConfigError, ParameterError
from emppi_ros.sim.true_parameters import TrueParameters, draw_truth, parse_truth
from emppi_ros.tasks.schema import ParameterChange
from emppi_ros.tasks.validation import validate

WAITING = {
    'parameter': 'mass',
    'when': {'residual': {'residual': 'distance', 'of': 'block', 'to': 'goal'}, 'below': 0.1},
    'to': {'distribution': 'uniform', 'lower': 2.0, 'upper': 3.0},
}


def fixed(value):
    return {'distribution': 'fixed', 'value': value}


def _changing(task_data, make_task, *changes):
    data = task_data('block')
    data['simulation']['changes'] = list(changes)
    return make_task('block', data)


def test_steps_and_ramps_follow_one_another():
    truth = TrueParameters(
        np.array([1.0, 5.0]),
        {
            0: (ParameterChange('mass', 2.0, 3.0), ParameterChange('mass', 4.0, 2.0, over_s=0.5)),
            1: (ParameterChange('friction', 0.0, 6.0),),
        },
    )
    times = [0.0, 1.999, 2.0, 3.999, 4.0, 4.2, 4.25, 4.2599, 4.5, 9.0]
    values = [truth.at(time).tolist() for time in times]
    assert values[0] == [1.0, 6.0]  # a change at 0 is in force from the start
    masses = [row[0] for row in values]
    assert masses[1:5] == [1.0, 3.0, 3.0, 3.0]
    assert masses[5:8] == pytest.approx([2.6, 2.5, 2.5])  # every 10 ms
    assert masses[8:] == [2.0, 2.0]  # exactly
    assert truth.initial.tolist() == [1.0, 5.0]


def test_a_change_in_the_task_follows_the_drawn_value(task_data, make_task):
    task = _changing(task_data, make_task, {'parameter': 'mass', 'at_s': 1.0, 'to': 2.5})
    truth, constant = draw_truth(task, 4), draw_truth(make_task('block'), 4)
    assert truth.at(0.0).tolist() == constant.at(9.0).tolist()
    assert truth.at(1.0).tolist() == [2.5]
    # a given value replaces the changes, too
    assert draw_truth(task, 4, {'mass': 0.7}).at(9.0).tolist() == [0.7]
    given = draw_truth(task, 4, {'mass': np.array([[0.0, 0.3], [5.0, 1.2], [8.0, 0.5]])})
    assert [given.at(time)[0] for time in (0.0, 4.9, 5.0, 7.9, 8.0)] == [0.3, 0.3, 1.2, 1.2, 0.5]
    later = draw_truth(task, 4, {'mass': [(5.0, 1.2)]})
    assert later.at(4.9).tolist() == constant.initial.tolist() and later.at(5.0).tolist() == [1.2]


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'parameter': 'mas'}, r"changes\[1\]: parameter: unknown .*'mas' .did you mean 'mass'"),
        ({'to': 21.0}, r'changes\[1\]: to: found 21, expected from 0.01 to 20 kg'),
        ({'at_s': -1.0}, r'changes\[1\]: at_s: found -1.0, expected a non-negative number'),
        ({'at_s': 1.5}, r"changes\[1\]: at_s: found 1.5, .* previous change of 'mass', .* at 2 s"),
        ({'over_s': -1.0}, r'changes\[1\]: over_s: found -1.0, expected a non-negative number'),
        ({'of': 'block'}, r"changes\[1\]: unknown key 'of'"),
    ],
)
def test_a_wrong_change_is_an_error(task_data, make_task, change, message):
    first = {'parameter': 'mass', 'at_s': 1.0, 'to': 2.0, 'over_s': 1.0}
    second = {'parameter': 'mass', 'at_s': 3.0, 'to': 1.0}
    with pytest.raises(ConfigError, match=f'simulation: {message}'):
        _changing(task_data, make_task, first, {**second, **change})


def test_a_change_that_waits_for_a_condition_begins_when_it_is_told(task_data, make_task):
    first = {**WAITING, 'over_s': 0.4}
    data = task_data('block')
    data['simulation']['changes_when'] = [first, {**WAITING, 'to': fixed(0.5)}]
    task = make_task('block', data)
    truth, plain = draw_truth(task, 4), draw_truth(make_task('block'), 4)
    start = plain.initial[0]
    assert truth.at(99.0).tolist() == [start] and not truth.constant and plain.constant
    drawn = truth.pending[0].to
    assert 2.0 < drawn < 3.0 and drawn != draw_truth(task, 5).pending[0].to
    begun = truth.begin(3.0)
    assert begun.at(2.99).tolist() == [start] and begun.at(3.4).tolist() == [drawn]
    assert begun.at(3.2)[0] == pytest.approx(0.5 * (start + drawn))
    last = begun.begin(7.0)
    assert last.at(6.9).tolist() == [drawn] and last.at(7.0).tolist() == [0.5]
    assert last.pending == () and truth.at(99.0).tolist() == [start]
    assert draw_truth(task, 4, {'mass': 0.7}).constant  # a given value replaces it


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'parameter': 'mas'}, r"changes_when\[0\]: parameter: unknown .*did you mean 'mass'"),
        ({'when': {'residual': {}, 'below': 1.0}}, r'changes_when\[0\]: when: residual: missing'),
        ({'when': {'below': 1.0}}, r"changes_when\[0\]: when: missing key 'residual'"),
        ({'to': 2.0}, r'changes_when\[0\]: to: expected a mapping of keys, found 2.0'),
        ({'at_s': 2.0}, r"changes_when\[0\]: unknown key 'at_s'"),
    ],
)
def test_a_wrong_conditional_change_is_an_error(task_data, make_task, change, message):
    data = task_data('block')
    data['simulation']['changes_when'] = [{**WAITING, **change}]
    with pytest.raises(ConfigError, match=f'simulation: {message}'):
        make_task('block', data)


def test_a_parameter_changes_by_time_or_by_condition(task_data, make_task):
    data = task_data('block')
    data['simulation']['changes'] = [{'parameter': 'mass', 'at_s': 1.0, 'to': 2.5}]
    data['simulation']['changes_when'] = [WAITING]
    with pytest.raises(ConfigError, match=r"changes_when\[0\]: parameter: 'mass' is in `changes`"):
        make_task('block', data)


def test_a_value_out_of_bounds_is_an_error_before_a_run(task_data, make_task):
    data = task_data('block')
    data['simulation']['changes_when'] = [{**WAITING, 'to': fixed(21.0)}]
    with pytest.raises(ConfigError, match='mass'):
        validate(make_task('block', data))


@pytest.mark.parametrize(
    ('schedule', 'message'),
    [
        ([(0.0, 0.5), (-1.0, 1.0)], 'mass: found a change at -1 s, expected 0 or later'),
        ([(0.0, 0.5), (np.nan, 1.0)], 'mass: found a change at nan s'),
        ([(0.0, 0.5), (2.0, 1.0), (2.0, 1.5)], 'mass: .*found 2, expected a later time'),
        ([(0.0, 0.5), (2.0, 25.0)], r'mass: 25 is not within \[0.01, 20\] kg'),
        ([(0.0, 0.5), (2.0, np.nan)], 'mass: nan is not within'),
        (-1.0, 'mass: -1 is not within'),
    ],
)
def test_a_wrong_schedule_is_an_error(make_task, schedule, message):
    with pytest.raises(ParameterError, match=message):
        draw_truth(make_task('block'), 0, {'mass': schedule})


def test_the_command_line_has_values_and_times():
    found = parse_truth(['mass=0.3', 'friction = 0.3, 1.2@5,0.5@8.5', 'damping=2@3'], '--truth')
    assert found == {
        'mass': [(0.0, 0.3)],
        'friction': [(0.0, 0.3), (5.0, 1.2), (8.5, 0.5)],
        'damping': [(3.0, 2.0)],
    }


@pytest.mark.parametrize(
    'text',
    ['mass', 'mass=', '=0.3', 'mass=0.3,', 'mass=0.3,0.5', 'mass=a', 'mass=0.3@', 'mass=inf'],
)
def test_another_form_is_an_error(text):
    with pytest.raises(ConfigError, match=r'--truth: found .*such as .*block_mass=0.3,1.2@5'):
        parse_truth([text], '--truth')
    with pytest.raises(ConfigError, match='--truth: mass is given twice'):
        parse_truth(['mass=1', 'mass=2'], '--truth')
