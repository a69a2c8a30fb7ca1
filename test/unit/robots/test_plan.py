"""Plans: linear between points, ending at rest, and refused for every reason there is."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.core.errors import PlanError
from emppi_ros.planning import interpolation
from emppi_ros.robots import plan as plans
from emppi_ros.robots import velocity_bounds
from emppi_ros.robots.plan import Plan
from emppi_ros.robots.robot import JointLimits, PositionLimits, Robot

LIMITS = JointLimits(
    PositionLimits((-1.0, -2.0), (1.0, 2.0)), (1.5, 0.5), (5.0, 4.0), (), (10.0, 20.0)
)
VELOCITY = Robot('r', ('a', 'b'), ('a', 'b'), 'velocity', (0.0, 0.0), LIMITS)
POSITION = dataclasses.replace(VELOCITY, command='position')
EFFORT = dataclasses.replace(VELOCITY, command='effort')
ALL = (VELOCITY, POSITION, EFFORT)
GOOD = Plan(5.0, np.array([0.0, 0.1, 0.3]), np.array([[0.1, 0.2], [0.4, -0.3], [0.0, 0.0]]))


def test_a_plan_is_linear_between_points_and_its_ends_hold():
    # one rounding of numbers below 1 at a phase that is rounded at 5
    np.testing.assert_allclose(GOOD.at(5.05), [0.25, -0.05], rtol=0, atol=1e-13)
    np.testing.assert_allclose(GOOD.at(5.2), [0.2, -0.15], rtol=0, atol=1e-13)
    assert GOOD.at(4.0).tolist() == GOOD.at(5.0).tolist() == [0.1, 0.2]
    assert GOOD.at(5.31).tolist() == GOOD.at(99.0).tolist() == [0.0, 0.0]
    assert GOOD.end == 5.3


@pytest.mark.parametrize('kind', ['hold', 'linear'])
@pytest.mark.parametrize('robot', ALL, ids=lambda r: r.command)
def test_a_made_plan_is_the_planners_curve_and_passes_its_own_check(robot, kind, rng):
    applied, controls = rng.uniform(-0.4, 0.4, 2), rng.uniform(-0.4, 0.4, (6, 2))
    made = plans.make(robot, 3.0, applied, controls, 0.05, kind)
    assert np.all(np.diff(made.times) > 0.0)
    times = (np.arange(60) + 0.5) * 0.005  # the middle of substeps: not on the edges of held steps
    expected = interpolation.sample(controls, applied, times, 0.05, kind)
    ours = np.array([made.at(3.0 + t) for t in times])
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)  # times rounded at 3, slopes 16
    checked = plans.check(robot, ['a', 'b'], made, 3.0)
    assert np.array_equal(checked.values, made.values)


@pytest.mark.parametrize('kind', ['hold', 'linear'])
@pytest.mark.parametrize('last', [[1.5, -0.5], [0.0, 0.0], [-0.3, 0.2]], ids=str)
def test_a_velocity_plan_brakes_to_rest_within_its_acceleration(kind, last):
    controls = np.array([[0.2, 0.1], [1.4, -0.4], [0.1, 0.0], last])
    made = plans.make(VELOCITY, 0.0, np.zeros(2), controls, 0.05, kind)
    assert made.values[-1].tolist() == [0.0, 0.0]
    tail = (made.values[-1] - made.values[-2]) / (made.times[-1] - made.times[-2])
    usable = velocity_bounds.usable_acceleration(VELOCITY)
    assert np.all(np.abs(tail) <= usable * (1.0 + 1e-9))  # a difference of times is rounded
    assert np.any(np.isclose(np.abs(tail), usable)) or not np.any(last)


def test_a_position_plan_ends_where_it_stays_and_an_effort_plan_without_effort():
    controls = np.array([[0.1, 0.2], [0.2, 0.3], [0.3, 0.4]])
    assert plans.make(POSITION, 0, np.zeros(2), controls, 0.1, 'linear').values[-1].tolist() == [
        0.3,
        0.4,
    ]
    assert not plans.make(EFFORT, 0, np.zeros(2), controls, 0.1, 'linear').values[-1].any()


def test_joints_may_come_in_any_order():
    swapped = GOOD._replace(values=GOOD.values[:, ::-1])
    checked = plans.check(VELOCITY, ['b', 'a'], swapped, 5.0)
    assert np.array_equal(checked.values, GOOD.values)


def _with(**changes):
    return GOOD._replace(**{k: np.array(v, dtype=float) for k, v in changes.items()})


def _value(row, column, value):
    values = GOOD.values.copy()
    values[row, column] = value
    return GOOD._replace(values=values)


REST = [[0.0, 0.0]]
MANY = plans.MAX_POINTS + 1
BAD = {
    'missing joint': (['a'], GOOD, 5.0, 'plan for joints a; expected exactly a, b'),
    'other joint': (['a', 'c'], GOOD, 5.0, 'plan for joints a, c'),
    'extra joint': (['a', 'b', 'c'], GOOD, 5.0, 'plan for joints a, b, c'),
    'joint twice': (['a', 'a'], GOOD, 5.0, 'plan for joints a, a'),
    'no joints': ([], GOOD, 5.0, 'plan for joints none'),
    'no points': (['a', 'b'], _with(times=[], values=np.empty((0, 2))), 5.0, 'plan of 0 points'),
    'one point': (['a', 'b'], _with(times=[0.0], values=REST), 5.0, 'plan of 1 points'),
    'many points': (
        ['a', 'b'],
        _with(times=np.arange(MANY), values=np.zeros((MANY, 2))),
        5.0,
        f'plan of {MANY} points; expected 2 to {plans.MAX_POINTS}',
    ),
    'nan': (['a', 'b'], _value(1, 0, np.nan), 5.0, 'plan with values that are not finite'),
    'infinity': (['a', 'b'], _value(1, 1, -np.inf), 5.0, 'plan with values that are not finite'),
    'nan time': (
        ['a', 'b'],
        _with(times=[0.0, np.nan, 0.3]),
        5.0,
        'plan with values that are not finite',
    ),
    'nan start': (
        ['a', 'b'],
        GOOD._replace(start=np.nan),
        5.0,
        'plan with values that are not finite',
    ),
    'infinite start': (
        ['a', 'b'],
        GOOD._replace(start=np.inf),
        5.0,
        'plan with values that are not finite',
    ),
    'fewer values': (
        ['a', 'b'],
        _with(values=GOOD.values[:, :1]),
        5.0,
        'plan with values of shape',
    ),
    'more values': (['a', 'b'], _with(values=np.zeros((3, 3))), 5.0, 'plan with values of shape'),
    'fewer rows': (['a', 'b'], _with(values=GOOD.values[1:]), 5.0, 'plan with values of shape'),
    'negative time': (
        ['a', 'b'],
        _with(times=[-0.1, 0.1, 0.3]),
        5.0,
        'plan whose times do not increase from 0',
    ),
    'equal times': (
        ['a', 'b'],
        _with(times=[0.0, 0.1, 0.1]),
        5.0,
        'plan whose times do not increase from 0',
    ),
    'past': (['a', 'b'], GOOD, 5.4, 'plan that ended 0.100 s ago'),
    'ends now': (['a', 'b'], GOOD, 5.3, 'plan that ended 0.000 s ago'),
    'far future': (['a', 'b'], GOOD, 3.9, 'plan that starts in 1.100 s; at most 0.1 s'),
    'too fast': (['a', 'b'], _value(1, 1, 0.51), 5.0, 'plan beyond the velocity limits of b'),
    'too fast back': (
        ['a', 'b'],
        _value(0, 0, -1.51),
        5.0,
        'plan beyond the velocity limits of a',
    ),
    'both too fast': (
        ['a', 'b'],
        _with(values=[[9.0, 9.0], [0.0, 0.0], [0.0, 0.0]]),
        5.0,
        'plan beyond the velocity limits of a, b',
    ),
    'moving end': (
        ['a', 'b'],
        _value(2, 0, 0.001),
        5.0,
        'plan that does not end at rest: its last point must be zero',
    ),
}


@pytest.mark.parametrize('case', BAD)
def test_a_bad_plan_is_an_error_that_says_why(case):
    joints, plan, now, match = BAD[case]
    with pytest.raises(PlanError) as error:
        plans.check(VELOCITY, joints, plan, now)
    assert str(error.value).startswith(match)


@pytest.mark.parametrize('count', [2, plans.MAX_POINTS])
@pytest.mark.parametrize('sign', [1.0, -1.0])
def test_a_good_plan_is_at_most_as_long_and_as_fast_as_it_may_be(count, sign):
    values = sign * np.tile([1.5, 0.5], (count, 1)) * (1.0 + 1e-10)  # of roundings
    values[-1] = 0.0
    plan = Plan(5.1, np.arange(count) * 0.1, values)
    checked = plans.check(VELOCITY, ['a', 'b'], plan, 5.0)
    assert checked.start == 5.1 and checked.times is plan.times


def test_limits_are_those_of_what_is_commanded():
    for robot, allowed, beyond in ((POSITION, 0.9, 1.1), (EFFORT, 9.9, 10.1)):
        plans.check(robot, ['a', 'b'], _value(1, 0, allowed), 5.0)
        with pytest.raises(PlanError, match=f'beyond the {robot.command} limits of a'):
            plans.check(robot, ['a', 'b'], _value(1, 0, beyond), 5.0)
    plans.check(POSITION, ['a', 'b'], _value(2, 0, 0.5), 5.0)  # a position may end anywhere
    with pytest.raises(PlanError, match='end at rest'):
        plans.check(EFFORT, ['a', 'b'], _value(2, 0, 0.5), 5.0)
