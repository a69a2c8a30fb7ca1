"""The clock of the bridge in simulated time: it follows /clock, and ages can rely on it."""

import itertools

import numpy as np
import pytest

from emppi_ros.bridge import simulated_time
from emppi_ros.bridge.simulated_time import JUMP_S, STOPPED_S

READ_S = 0.0007  # the bridge reads its clock at any time
TICK_S = 0.004


def times_of(clock, duration_s, begin=50.0):
    """Return monotonic times, readings of /clock, and the bridge's times (n,)."""
    state, rows = simulated_time.start(begin), []
    for monotonic in np.arange(begin, begin + duration_s, READ_S):
        reading = clock(monotonic - begin)
        state = simulated_time.advance(state, float(monotonic), reading)
        rows.append((monotonic, reading, state.time, state.offset))
    return np.array(rows).T


def ticking(rate, tick=TICK_S):
    return lambda elapsed: 10.0 + tick * int(rate * elapsed / tick)


@pytest.mark.parametrize('rate', [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize('tick', [0.001, TICK_S, 0.02])
def test_it_follows_a_slower_or_faster_clock_to_a_tick_and_fills_the_gaps(rate, tick):
    monotonic, clock, time, _ = times_of(ticking(rate, tick), 4.0)
    settled = monotonic > 51.0
    elapsed, passed = time[settled] - time[settled][0], clock[settled] - clock[settled][0]
    step = max(tick, rate * READ_S)  # what it can see of the clock
    # a tick between two readings, and as much of the time that fills it
    assert np.max(np.abs(elapsed - passed)) <= 2.0 * step + 1e-9
    # most readings between two ticks advance, too; none by more than a tick beside the rate's
    steps = np.diff(time[settled])
    assert np.all(steps >= 0.0) and np.max(steps) <= 2.0 * step + rate * READ_S
    if tick > 4.0 * rate * READ_S:
        assert np.mean(steps > 0.0) > 0.5


def test_a_stamp_of_the_clock_is_the_same_moment_for_as_long_as_the_clock_runs():
    _, _, _, offset = times_of(ticking(0.5), 4.0)
    running = offset[len(offset) // 2 :]
    assert np.ptp(running) < 1e-9  # rounding of sums of ticks


@pytest.mark.parametrize('rate', [0.1, 1.0, 3.0])
def test_when_the_clock_stops_time_goes_on_so_that_ages_grow(rate):
    run = ticking(rate)
    monotonic, _, time, _ = times_of(lambda t: run(min(t, 2.0)), 6.0)
    at = np.searchsorted(monotonic, 50.0 + 2.0 + STOPPED_S + np.array([0.0, 2.0]))
    passed = time[at[1]] - time[at[0]]
    assert passed == pytest.approx(2.0, abs=2 * READ_S + TICK_S / rate)


@pytest.mark.parametrize('jump', [-1000.0, -5.0, JUMP_S + 0.1, 1000.0])
def test_a_jump_of_the_clock_changes_the_offset_and_no_age(jump):
    run = ticking(1.0)
    monotonic, clock, time, offset = times_of(lambda t: 2000.0 + run(t) + jump * (t > 2.0), 4.0)
    steps = np.diff(time)
    assert np.all(steps >= 0.0) and np.max(steps) <= 2.0 * TICK_S + READ_S
    assert time[-1] - time[0] == pytest.approx(4.0, abs=4 * TICK_S)
    # what is stamped by /clock is the same moment as before the jump
    assert clock[-1] - (time[-1] + offset[-1]) == pytest.approx(0.0, abs=TICK_S)
    assert monotonic.size == time.size


def test_after_a_stop_it_goes_on_from_where_it_is():
    run = ticking(1.0)
    _, clock, time, offset = times_of(lambda t: run(min(t, 1.0) + max(0.0, t - 4.0)), 6.0)
    assert np.all(np.diff(time) >= 0.0)
    assert np.max(np.diff(time)) <= 2.0 * TICK_S + READ_S
    assert clock[-1] - (time[-1] + offset[-1]) == pytest.approx(0.0, abs=TICK_S)


def test_before_the_first_reading_it_is_a_monotonic_clock():
    monotonic, _, time, _ = times_of(lambda _: 0.0, 3.0)
    assert np.all(np.diff(time) >= 0.0)
    later = monotonic > 50.0 + STOPPED_S + READ_S
    assert np.allclose(np.diff(time[later]), READ_S)


def test_any_readings_at_any_times_leave_it_monotonic_and_finite():
    rng = np.random.default_rng(1)
    state, last = simulated_time.start(0.0), 0.0
    waits = rng.choice([0.0, 1e-4, 0.01, 2.0], 3000)
    for monotonic, reading in zip(
        itertools.accumulate(waits), rng.choice([0.0, 1.0, 1.004, 500.0, 1e9], 3000), strict=True
    ):
        state = simulated_time.advance(state, float(monotonic), float(reading))
        assert np.isfinite(state.time) and state.time >= last
        last = state.time
