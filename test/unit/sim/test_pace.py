"""Simulated time follows the clock at a factor; a pause and lost time are left out."""

import pytest

from emppi_ros.sim.pace import CATCH_UP_S, Pace


@pytest.mark.parametrize('factor', [0.25, 1.0, 4.0])
def test_simulated_time_passes_at_the_factor(factor):
    pace = Pace(100.0, factor)
    assert pace.due(102.0) == pytest.approx(2.0 * factor)


def test_time_stops_while_paused_and_goes_on_from_there():
    pace = Pace(0.0, 2.0).pause(3.0, True)
    assert pace.due(3.0) == pace.due(9.0) == pytest.approx(6.0)
    assert pace.pause(7.0, True) == pace  # a second request changes nothing
    pace = pace.pause(9.0, False)
    assert pace.due(9.0) == pytest.approx(6.0) and pace.due(10.0) == pytest.approx(8.0)
    assert pace.pause(11.0, False) == pace


@pytest.mark.parametrize('factor', [0.5, 1.0, 3.0])
def test_what_cannot_be_made_up_is_lost_and_counted(factor):
    pace = Pace(0.0, factor).catch_up(10.0, 2.0)
    assert pace.due(10.0) - 2.0 == pytest.approx(CATCH_UP_S)
    assert pace.lost_s == pytest.approx(10.0 * factor - 2.0 - CATCH_UP_S)
    assert pace.catch_up(10.0, 2.0).lost_s == pytest.approx(pace.lost_s)  # counted once


def test_a_restart_begins_at_zero_and_stays_paused():
    pace = Pace(0.0, 2.0).pause(1.0, True).restart(5.0)
    assert pace.due(8.0) == 0.0
    assert pace.pause(8.0, False).due(9.0) == pytest.approx(2.0)
