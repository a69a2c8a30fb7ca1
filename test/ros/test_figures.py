"""How planning goes, in figures."""

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from emppi_ros.nodes.planner.node import PlanningStats

PERIOD_S = 0.05


def add(stats, *durations):
    for k, duration in enumerate(durations):
        stats.add(k * PERIOD_S, duration, late=duration > PERIOD_S)


def test_a_planner_that_is_too_slow_plans_in_every_second_period_until_it_is_fast_again():
    stats = PlanningStats(PERIOD_S)
    add(stats, *[0.5 * PERIOD_S] * 100)
    add(stats, *[0.9 * PERIOD_S, 0.5 * PERIOD_S] * 8, 1.1 * PERIOD_S)  # single slow plans
    assert stats.values()['stride'] == 1 and stats.misses == 1
    add(stats, *[0.9 * PERIOD_S] * 30)
    assert stats.values()['stride'] == 2
    add(stats, *[0.9 * PERIOD_S] * 100)
    assert stats.stride == 2
    add(stats, *[0.5 * PERIOD_S] * 30)
    assert stats.stride == 1
    assert PlanningStats(PERIOD_S).stride == 1  # of another task


@pytest.mark.parametrize(('duration', 'stride'), [(0.69, 1), (0.71, 2), (1.41, 3), (10.0, 4)])
def test_planning_takes_at_most_70_percent_of_the_time_unless_it_is_far_too_slow(duration, stride):
    stats = PlanningStats(PERIOD_S)
    add(stats, *[duration * PERIOD_S] * 20)
    assert stats.stride == stride
