"""How planning goes, in figures."""

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from emppi_ros.nodes.planner.planning_stats import PlanningStats

PERIOD_S = 0.05


def count(figures, *durations):
    for k, duration in enumerate(durations):
        figures.add(k * PERIOD_S, duration, late=duration > PERIOD_S)


def test_a_planner_is_overloaded_once_nothing_is_left_for_others_for_long():
    figures = PlanningStats(PERIOD_S)
    count(figures, *[0.5 * PERIOD_S] * 100)
    count(figures, *[0.9 * PERIOD_S, 1.1 * PERIOD_S] * 9, 0.7 * PERIOD_S)  # 18, and one in time
    assert not figures.values()['overloaded']
    count(figures, *[0.9 * PERIOD_S] * 20)
    assert figures.values()['overloaded']
    count(figures, *[0.1 * PERIOD_S] * 100)  # since others have more of the processor, or not
    assert figures.overloaded and figures.misses == 9
    assert not PlanningStats(PERIOD_S).overloaded  # of another task
