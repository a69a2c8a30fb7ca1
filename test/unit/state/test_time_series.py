"""A short memory of stamped rows."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from emppi_ros.core.errors import StaleInputError
from emppi_ros.state.time_series import TimeSeries


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
    assert not series.append(0.2, np.array([9.0, 9.0]))
    assert not series.append(0.1, np.array([9.0, 9.0]))
    assert series.last.tolist() == [2.0, -0.2]
    assert series.append(0.3, np.array([3.0, -0.3]))


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
    for read in (lambda: series.last, lambda: series.interpolate(0.0), lambda: series.hold([0.0])):
        with pytest.raises(StaleInputError, match='joint states: none received yet'):
            read()


def test_a_cleared_series_is_as_new():
    series = _series([0.5, 0.6])
    series.clear()
    assert series.append(0.1, np.zeros(2)) and series.last_stamp == 0.1


def test_hold_gives_the_row_in_force_and_the_first_row_before_that():
    series = _series([0.0, 0.1, 0.4])
    rows = series.hold(np.array([-1.0, 0.0, 0.05, 0.1, 0.399, 0.4, 9.0]))
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
    held = series.hold(np.array([begin]))
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
    spread = np.ptp(series.rows, axis=0)
    assert np.all(np.abs(other - one) <= spread * change / width + ROUNDING)
