"""Plots show the belief of each time, with gaps where nobody watched."""

import numpy as np
import pytest

from emppi_ros.belief.changes import DetectedChange
from emppi_ros.model.ensemble import State
from emppi_ros.priors.particles import Belief
from emppi_ros.viz.shapes.task_shapes import DisplayState
from emppi_ros.viz.web.charts import MAX_ROWS, SPAN_S, STEP_S, History
from emppi_ros.viz.web.robot_source import Snapshot


def snapshot(clock, belief, run=0):
    display = DisplayState(clock, State(np.zeros(1), np.zeros(1)), {}, belief)
    return Snapshot(
        None, run, clock, np.zeros(1), np.zeros((0, 4)), None, display, '', 0.1, 5.0,
        {'plan': 20.0}, 'armed', True, False,
    )  # fmt: skip


@pytest.fixture
def belief(rng):
    return Belief(rng.normal(size=(30, 2)), np.log(rng.dirichlet(np.ones(30))))


def test_histograms_sum_to_one_and_have_the_mean_of_the_belief(belief):
    history = History()
    for i in range(5):
        history.append(snapshot(i * STEP_S, belief), {'reach': 1.0})
    low, high = history.extent(0, -1.0, 1.0)
    found = history.histograms(0, 2000, low, high)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)  # rounding of 30 weights
    middles = low + (np.arange(2000) + 0.5) * (high - low) / 2000
    np.testing.assert_allclose(
        found @ middles, history.means(0), atol=(high - low) / 2000  # the width of a bin
    )  # fmt: skip


def test_true_values_are_those_of_their_time(belief):
    history = History()
    for i, theta in enumerate((None, np.array([0.3, 1.0]), np.array([0.5, 1.0]))):
        history.append(snapshot(i * STEP_S, belief)._replace(theta=theta), {})
    np.testing.assert_array_equal(history.truths(0), [np.nan, 0.3, 0.5])


def test_rows_are_a_step_apart_and_reach_back_half_a_minute(belief):
    history = History()
    taken = [history.append(snapshot(0.05 * i, belief), {}) for i in range(2000)]
    assert sum(taken) == 2000 // round(STEP_S / 0.05)
    assert len(history.rows) == MAX_ROWS
    np.testing.assert_allclose(history.times[[0, -1]], [-SPAN_S, 0.0], atol=1e-6)


@pytest.mark.parametrize(('clock', 'run'), [(30.0, 0), (0.0, 0), (0.4, 1)])
def test_a_gap_a_reset_or_a_new_run_clears_the_history(belief, clock, run):
    history = History()
    for i in range(3):
        history.append(snapshot(i * STEP_S, belief), {})
    history.append(snapshot(clock, belief, run), {})
    assert [row.clock for row in history.rows] == [clock]


def test_a_term_of_another_stage_is_nan_and_not_zero(belief):
    history = History()
    history.append(snapshot(0.0, belief), {'reach': 1.0})
    history.append(snapshot(1.0, belief), {'pull': 2.0})
    np.testing.assert_array_equal(history.series('terms', 'reach'), [1.0, np.nan])
    np.testing.assert_array_equal(history.series('latencies', 'plan'), [20.0, 20.0])


def test_changes_are_those_of_a_parameter_before_the_newest_row(belief):
    def changed(clock, *changes):
        now = snapshot(clock, belief)
        events = tuple(DetectedChange(*change, 0.0, 1.0) for change in changes)
        return now._replace(display=now.display._replace(changes=events))

    history = History()
    history.append(changed(1.0, (0.25, 'mass'), (0.5, 'slip')), {})
    assert history.changes('mass') == [-0.75]
    history.append(changed(1.5, (0.25, 'mass'), (1.5, 'mass')), {})
    assert history.changes('mass') == [-1.25, 0.0]
    assert history.changes('slip') == []
