"""A short memory of stamped rows."""

import copy

import command_series
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import yaml

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.belief.measurement_model import Predictor
from emppi_ros.core import weights
from emppi_ros.core.errors import StaleInputError
from emppi_ros.model.ensemble import State
from emppi_ros.planning.plan_preview import PlanPreview
from emppi_ros.planning.planner import Planner
from emppi_ros.priors import particles
from emppi_ros.robots.plan import Plan
from emppi_ros.state.time_series import CommandsInForce, TimeSeries, in_steps
from emppi_ros.tasks.task import load_task, parse_task


def _series(stamps, **keys):
    series = TimeSeries('joint states', **keys)
    for stamp in stamps:
        series.append(stamp, np.array([10.0 * stamp, -stamp]))
    return series


def test_rows_are_linear_between_stamps():
    series = _series([0.0, 0.1, 0.4])
    # one rounding of numbers up to 4
    np.testing.assert_allclose(series.interpolate(0.25), [2.5, -0.25], rtol=0, atol=1e-15)
    assert series.interpolate(0.1).tolist() == [1.0, -0.1]
    assert series.last_stamp == 0.4 and series.last.tolist() == [4.0, -0.4]


def test_old_rows_and_repeated_ones_are_dropped():
    series = _series([0.2])
    series.append(0.2, np.array([9.0, 9.0]))
    series.append(0.1, np.array([9.0, 9.0]))
    assert series.last.tolist() == [2.0, -0.2]
    series.append(0.3, np.array([3.0, -0.3]))
    assert series.last.tolist() == [3.0, -0.3]


def test_the_last_row_may_be_read_within_reach_and_no_further():
    series = _series([0.0, 0.1], reach_s=0.02)
    assert series.interpolate(0.119).tolist() == [1.0, -0.1]
    with pytest.raises(StaleInputError, match='joint states: the newest is 0.050 s too old'):
        series.interpolate(0.15)


def test_what_was_before_the_first_row_is_an_error():
    with pytest.raises(StaleInputError, match='the oldest is 0.300 s too new'):
        _series([0.5, 0.6]).interpolate(0.2)


def test_an_empty_series_is_an_error_and_older_than_anything():
    series = _series([])
    assert series.last_stamp == -np.inf
    for read in (lambda: series.last, lambda: series.interpolate(0.0), lambda: series([0.0])):
        with pytest.raises(StaleInputError, match='joint states: none received yet'):
            read()


def test_a_cleared_series_is_as_new():
    series = _series([0.5, 0.6])
    series.clear()
    series.append(0.1, np.zeros(2))
    assert series.last_stamp == 0.1


def test_hold_gives_the_row_in_force_and_the_first_row_before_that():
    series = _series([0.0, 0.1, 0.4])
    rows = series(np.array([-1.0, 0.0, 0.05, 0.1, 0.399, 0.4, 9.0]))
    assert rows[:, 0].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 4.0, 4.0]


@given(st.lists(st.floats(0.001, 0.7), min_size=2, max_size=60))
def test_rows_are_kept_for_their_span_and_memory_stays_small(gaps):
    stamps = np.cumsum(gaps)
    series = _series(stamps, span_s=1.0)
    first = stamps[stamps > stamps[-1] - 1.0][0]
    for time in np.linspace(first, stamps[-1], 7):
        # an interpolation of numbers up to 420: their rounding over a gap of 1 ms
        assert series.interpolate(time)[0] == pytest.approx(10.0 * time, rel=1e-9)
    within = int(np.sum(stamps > stamps[-1] - 1.0))
    assert len(series._stamps) <= 2 * within + 1


TIMES = st.floats(-1.0, 3.0)
STAMPS = st.lists(st.integers(0, 2000), min_size=1, max_size=20, unique=True).map(
    lambda milliseconds: [0.001 * i for i in sorted(milliseconds)]
)
# numbers up to 20, summed 20 times, and divided by widths of at least 1e-3 s
ROUNDING = 20 * 20 * 2.3e-16 / 1e-3


@given(STAMPS, TIMES, st.floats(1e-3, 1.0), st.floats(1e-3, 1.0))
def test_an_average_is_that_of_the_averages_of_its_parts(stamps, begin, first, second):
    series, middle = _series(stamps, span_s=9.0), begin + first
    parts = series.average(np.array([begin, middle]), np.array([middle, middle + second]))
    whole = series.average(np.array(begin), np.array(middle + second))
    expected = (first * parts[0] + second * parts[1]) / (first + second)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=ROUNDING)


@given(STAMPS, TIMES)
def test_an_average_between_two_stamps_is_the_row_that_holds_to_the_bit(stamps, begin):
    series = _series(stamps, span_s=9.0)
    later = [stamp for stamp in stamps if stamp > begin]
    end = later[0] if later else begin + 1.0
    held = series(np.array([begin]))
    assert np.array_equal(series.average(np.array([begin]), np.array([begin])), held)
    half = np.array([0.5 * (begin + end)])
    if half < end:
        assert np.array_equal(series.average(np.array([begin]), half), held)


@given(STAMPS, TIMES, st.floats(1e-3, 1.0), st.floats(0.0, 0.5))
def test_shifted_stamps_are_shifted_bounds(stamps, begin, width, delay):
    begins = np.array([begin, begin + 0.3])
    late, series = TimeSeries('commands', span_s=9.0), _series(stamps, span_s=9.0)
    for stamp in stamps:
        late.append(stamp + delay, np.array([10.0 * stamp, -stamp]))
    np.testing.assert_allclose(
        late.average(begins, begins + width),
        series.average(begins - delay, begins + width - delay),
        rtol=0, atol=ROUNDING,
    )  # fmt: skip


@given(STAMPS, TIMES, st.floats(1e-3, 1.0), st.floats(0.0, 0.1))
def test_averages_are_continuous_in_the_bounds(stamps, begin, width, change):
    """A bound that moves by a time replaces that share of the interval, by rows within a range."""
    series = _series(stamps, span_s=9.0)
    bounds = np.array([begin, begin + change])
    one, other = series.average(bounds, bounds + width)
    spread = np.ptp(series.between(-np.inf, np.inf)[1], axis=0)
    assert np.all(np.abs(other - one) <= spread * change / width + ROUNDING)


DELAY = {
    'field': 'command_delay',
    'lower': 0.0,
    'upper': 0.1,
    'unit': 's',
    'prior': {'distribution': 'uniform', 'lower': 0.0, 'upper': 0.05},
}
START = State(np.array([0.2]), np.array([0.3]))


def changing(rate_hz=250.0, shift=0.0, count=60):
    """Return commands of two joints that change at a rate."""
    i = np.arange(count)
    return command_series.sampled(
        i / rate_hz + shift, np.stack([np.sin(0.9 * i), np.cos(0.4 * i)], 1)
    )


@pytest.mark.parametrize('count', [5, 7, 16])  # steps of 4, 2.9 and 1.25 ms; commands of 4 ms
def test_steps_have_the_impulse_of_the_commands_however_they_are_aligned(count):
    applied, begin = changing(), 0.0513
    rows = in_steps(applied, begin, 0.02, count, None)
    # a fine sum, whose cells of 1e-6 s each miss a change of a command by at most their width
    times = begin + (np.arange(20_000) + 0.5) * 1e-6
    expected = applied(times).mean(axis=0)
    np.testing.assert_allclose(rows.mean(axis=0), expected, rtol=0, atol=6 * 2e-6 / 0.02)


def test_no_delay_is_a_delay_of_zero():
    rows = in_steps(changing(), 0.05, 0.02, 7, np.zeros(2))
    assert np.array_equal(rows[0], rows[1])
    assert np.array_equal(rows[0], in_steps(changing(), 0.05, 0.02, 7, None))


def test_a_delay_is_the_same_as_later_stamps():
    delays = np.array([0.0, 0.013, 0.02])
    found = in_steps(changing(), 0.1, 0.02, 5, delays)
    for row, delay in zip(found, delays, strict=True):
        # sums of 60 commands up to 1 that hold 4 ms, in steps of 4 ms: a few roundings
        expected = in_steps(changing(shift=delay), 0.1, 0.02, 5, np.zeros(1))[0]
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-12)


def test_commands_in_steps_are_continuous_in_the_delay():
    delays = np.linspace(0.0, 0.05, 501)
    found = in_steps(changing(), 0.1, 0.02, 8, delays)
    # 0.1 ms more delay replaces 4 % of a step of 2.5 ms, by commands that differ by at most 2
    assert 0.0 < np.abs(np.diff(found, axis=0)).max() <= 2.0 * 0.1 / 2.5 + 1e-12


def test_each_model_may_have_steps_of_its_own_length():
    delays, durations = np.array([0.01, 0.03]), np.array([0.02, 0.06])
    found = in_steps(changing(), 0.1, durations, 4, delays)
    for row, delay, duration in zip(found, delays, durations, strict=True):
        alone = in_steps(changing(), 0.1, float(duration), 4, np.array([delay]))[0]
        # the sums begin at other commands: a few roundings of sums of 60
        np.testing.assert_allclose(row, alone, rtol=0, atol=1e-12)


@pytest.fixture
def in_force():
    """Return commands applied until 0.1 s, and a plan that starts then as a ramp."""
    applied = TimeSeries('commands', reach_s=np.inf)
    for stamp, value in ((0.0, 0.2), (0.06, 0.4), (0.1, 1.0)):
        applied.append(stamp, np.array([value]))
    plan = Plan(0.1, np.array([0.0, 1.0]), np.array([[1.0], [11.0]]))
    return lambda rests: CommandsInForce(applied, [plan], rests)


def test_until_the_last_applied_command_means_are_those_of_the_applied_ones(in_force):
    applied = in_force(True)._applied
    begins = applied.last_stamp - np.array([0.0123, 0.0049])
    ends = np.full(2, applied.last_stamp - 1e-4)  # within a cell of the plan's start
    assert np.array_equal(in_force(True).average(begins, ends), applied.average(begins, ends))


def test_planned_commands_follow_the_applied_ones(in_force):
    commands = in_force(True)
    assert commands(np.array([0.05, 0.07])).tolist() == [[0.2], [0.4]]
    assert commands(np.array([0.15]))[0] == pytest.approx(1.5)  # 10 per second from 1
    found = commands.average(np.array([0.04, 0.05, 0.1]), np.array([0.08, 0.15, 0.2]))
    ramp = 1.25 * 0.05  # from 1 to 1.5 in 0.05 s
    expected = [[0.3], [(0.2 * 0.01 + 0.4 * 0.04 + ramp) / 0.1], [1.5]]
    # samples of a ramp at the middle of 1 ms: exact but for the last part of one, 10/s * 1 ms
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_a_resting_bridge_executes_no_plan():
    applied = TimeSeries('commands', reach_s=np.inf)
    applied.append(0.0, np.array([0.0]))
    plan = Plan(0.1, np.array([0.0, 1.0]), np.array([[1.0], [11.0]]))
    for rests, value in ((True, 0.0), (False, 6.0)):
        commands = CommandsInForce(applied, [plan], rests)
        assert commands(np.array([0.6]))[0] == pytest.approx(value)
        mean = commands.average(np.array([0.595]), np.array([0.605]))[0]
        assert mean == pytest.approx(value, abs=1e-9)


def with_delay(data):
    data['parameters']['delay'] = DELAY
    data['simulation']['truth']['delay'] = {'distribution': 'fixed', 'value': 0.02}
    return data


@pytest.fixture
def slider(make_task, task_data):
    """Return the cart on a rail, whose dynamics are linear, with a delay of commands."""
    data = with_delay(task_data('slider'))
    data['cost']['reach']['norm'] = 'squared'
    return make_task('slider', data)


def forces(shift=0.0):
    commands = TimeSeries('commands', reach_s=np.inf)
    for i in range(200):
        commands.append(0.004 * i + shift, np.array([4.0 * np.sin(0.7 * i)]))
    return commands


def predict(task, delays, commands, end=0.44):
    predictor = Predictor(task, len(delays), threads=1)
    predictor.write(np.column_stack([np.full(len(delays), 1.5), delays]))
    return np.concatenate(predictor.predict((0.4, START), end, commands), axis=1)


def test_predictions_with_a_delay_are_those_of_later_commands(slider):
    delays = np.array([0.0, 0.0107, 0.02, 0.05])
    found = predict(slider, delays, forces())
    for row, delay in zip(found, delays, strict=True):
        # averages of the same commands up to a few roundings of sums of 200, in 20 steps
        expected = predict(slider, [0.0], forces(delay))[0]
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-12)
    assert np.ptp(found[:, 1]) > 1e-3


def test_predictions_are_continuous_in_the_delay(slider):
    found = predict(slider, np.linspace(0.0, 0.05, 501), forces())
    # 0.1 ms of another force: up to 8 N on 1.5 kg; and over 40 ms of motion for the position
    assert np.abs(np.diff(found[:, 1])).max() <= 1e-4 * 8.0 / 1.5
    assert np.abs(np.diff(found[:, 0])).max() <= 0.04 * 1e-4 * 8.0 / 1.5


def test_predictions_get_the_impulse_of_commands_that_change_within_steps(make_task):
    """The mass and its velocity show the force at any end of the interval, and any step."""
    task, applied = make_task('slider'), forces()
    task.model.dof_damping[:] = 0.0
    predictor, masses = Predictor(task, 2, threads=1), np.array([1.5, 2.0])
    predictor.write(masses[:, None])
    for end in (0.4317, 0.44, 0.4483):
        impulse = (end - 0.4) * applied.average(np.array([0.4]), np.array([end]))[0]
        ends = predictor.predict((0.4, START), end, applied)
        # sums of 25 steps
        np.testing.assert_allclose(ends.qvel[:, 0], START.qvel + impulse / masses, atol=1e-12)


def make_planner(task, theta):
    planner = Planner(task, np.random.default_rng(0), 1)
    planner.set_belief(particles.uniform(np.array([theta])))
    return planner


def test_a_plan_starts_where_its_first_command_acts(slider, make_task, task_data):
    """With a delay of 20 ms: the same plan as 20 ms later without one."""
    commands, delay = forces(), 0.02
    plan, info = make_planner(slider, [1.5, delay]).plan_from(START, 0.4, 0.45, commands)
    end = predict(slider, [delay], commands, 0.4 + 0.05 + delay)[0]
    data = task_data('slider')
    data['cost']['reach']['norm'] = 'squared'
    late = make_planner(make_task('slider', data), [1.5])
    state = State(*np.split(end, 2))
    same, others = late.plan_from(state, 0.45, 0.45, commands)
    # steps of 10 ms in the planner and of 2 ms in the belief: first-order errors of a motion of
    # 70 ms with 4 N on 1.5 kg at 5 ms of a rate of the force of 4 N / 6 ms
    np.testing.assert_allclose(info.costs, others.costs, rtol=0.02)
    np.testing.assert_allclose(plan.values, same.values, rtol=0, atol=0.05)
    assert np.abs(plan.values[1:-1] - plan.values[0]).max() > 0.5  # it moves


def test_a_delay_of_zero_plans_the_same_bits_under_a_held_command(slider, make_task, task_data):
    commands = TimeSeries('commands', reach_s=np.inf)
    commands.append(0.0, np.array([0.7]))
    data = task_data('slider')
    data['cost']['reach']['norm'] = 'squared'
    tasks = (slider, [1.5, 0.0]), (make_task('slider', data), [1.5])
    plans = [
        make_planner(task, theta).plan_from(START, 0.4, 0.45, commands)[0] for task, theta in tasks
    ]
    assert np.array_equal(plans[0].values, plans[1].values)


def test_a_plan_may_start_at_the_measurement(slider):
    planner = Planner(slider, np.random.default_rng(0), 3)
    planner.set_belief(particles.uniform(np.array([[1.5, 0.0], [1.5, 0.02], [2.0, 0.05]])))
    plan, info = planner.plan_from(START, 0.4, 0.4, forces())
    assert np.isfinite(plan.values).all() and np.isfinite(info.costs).all()


def test_a_previewed_plan_acts_after_the_delay_of_each_model(slider):
    planner = make_planner(slider, [1.5, 0.0])
    plan, _ = planner.plan_from(State(np.zeros(1), np.zeros(1)), 0.0, 0.05, forces())
    preview = PlanPreview(slider)
    theta = np.array([[1.5, 0.0], [1.5, 0.03], [1.5, 0.05]])
    step = slider.planner.step_s / slider.planner.substeps
    start = State(np.zeros(1), np.zeros(1))
    both = preview.predict(particles.uniform(theta), start, 0.05, plan, {}).points
    late = plan._replace(start=plan.start + 3 * step)
    shifted = preview.predict(particles.uniform(0.0 * theta + [1.5, 0.0]), start, 0.05, late, {})
    # a delay of three steps is a plan that starts three steps later
    np.testing.assert_allclose(both[1], shifted.points[1], rtol=0, atol=1e-12)
    assert np.abs(both[1] - both[0]).max() > 1e-4


@pytest.mark.slow
def test_a_delay_of_20_ms_is_found_within_3_s_and_the_task_succeeds():
    """Without the parameter the pole is not swung up, and its mass is estimated at two thirds."""
    data = with_delay(copy.deepcopy(dict(load_task('cartpole_swingup').data)))
    loop = ClosedLoop(parse_task(yaml.safe_dump(data, sort_keys=False)), 0)
    loop.run(3.0, stop_at_success=False)
    belief, truth = loop.filter.belief, loop.trace.truth
    mean = weights.mean(belief.log_weights, belief.theta)
    assert truth[2] == 0.02
    assert abs(mean[2] - 0.02) < 0.002
    assert abs(mean[0] / truth[0] - 1.0) < 0.15
    assert loop.run(loop.task.file.duration_s - 3.0).success
