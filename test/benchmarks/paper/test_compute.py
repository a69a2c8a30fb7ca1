"""The same cell gives the same row, wherever and however it is computed."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks.paper import cells
from benchmarks.paper import compute as computing
from benchmarks.paper.cells import Cell, Request, make_cells
from benchmarks.paper.compute import MAX_TIMES, compute, estimate_series
from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.core import weights
from emppi_ros.core.errors import ConfigError
from emppi_ros.priors import particles
from emppi_ros.tasks.task import load_task, parse_task

CLOCK = {'plan_ms': None, 'plan_p99_ms': None, 'compute_s': 0.0}


def _bits(row):
    """Return all of a row but what the clock says."""
    return repr(dataclasses.replace(row, **CLOCK))


@pytest.mark.parametrize('controller', ['emppi', 'mppi-true', 'no-update'])
def test_the_same_cell_gives_the_same_bits_with_any_number_of_threads(small_cells, controller):
    first, other = small_cells(2, (controller,))
    rows = [compute(cell, threads) for cell, threads in ((first, None), (first, 1), (other, 1))]
    assert _bits(rows[0]) == _bits(rows[1]) != _bits(rows[2])


def test_controllers_share_the_truth_and_only_one_learns(small_cells):
    rows = [compute(cell) for cell in small_cells(1, ('emppi', 'mppi-true', 'no-update'))]
    assert len({row.parameters['mass'].true for row in rows}) == 1
    assert len({row.course.squared_error[0] for row in rows}) == 1  # the same prior
    assert [len(row.course.times) > 1 for row in rows] == [True, False, False]


def test_every_measure_of_risk_meets_the_same_truth_learns_and_plans_by_it(small_cells):
    (plain,) = small_cells(1)
    found = {}
    for name in cells.MEASURES:
        text = cells.changed(plain.text, {'planner': {'risk': name, 'noise_variance': [9.0]}})
        found[name] = compute(Cell(cells.RISK, plain.task, name, 0, text))
    assert len({row.parameters['mass'].true for row in found.values()}) == 1
    assert all(len(row.course.times) > 1 for row in found.values())
    assert len({row.course.means['mass'] for row in found.values()}) > 1  # they move otherwise
    text = cells.changed(plain.text, {'planner': {'noise_variance': [9.0]}})
    paper = compute(dataclasses.replace(plain, text=text))
    assert found['none'].course == paper.course


def test_a_row_matches_its_run(small, small_cells):
    (cell,) = small_cells(1)
    row, loop = compute(cell), ClosedLoop(load_task(str(small)), 0)
    trace = loop.run()
    assert row.digest == cell.digest and row.key == cell.key and row.made_by
    assert (row.success, row.steps, row.diverged) == (False, len(trace.plan_s), 0)
    assert row.time_s == row.limit_s == 0.1  # no success: all that was allowed
    assert row.course.times[0] == 0.0 and row.course.times[-1] == trace.beliefs[-1][0]
    estimate, belief = row.parameters['mass'], loop.filter.belief
    assert estimate.mean == weights.mean(belief.log_weights, belief.theta)[0]
    assert estimate.low <= estimate.mean <= estimate.high and estimate.sd > 0.0
    assert row.squared_error == (estimate.mean - estimate.true) ** 2


def test_success_ends_a_run_and_its_time_is_when(small_cells):
    (cell,) = small_cells(1)
    easy = dataclasses.replace(cell, text=cells.changed(cell.text, {'success': {'below': 9.0}}))
    row = compute(easy)
    assert row.success and row.time_s < row.limit_s


def test_learning_runs_continue_after_success(small_cells):
    (cell,) = small_cells(1)
    easy = cells.changed(cell.text, {'success': {'below': 9.0}})
    row = compute(dataclasses.replace(cell, study=cells.LEARNING, text=easy))
    assert row.success and row.time_s < row.limit_s
    assert row.course.times[-1] > row.limit_s - 0.05  # an update every 0.02 s


def test_attempts_of_a_trace_are_kept_where_there_are_any(monkeypatch, small_cells):
    class Tried(NamedTuple):
        end: float
        reached: bool
        lost: bool

    tried = [Tried(0.25, True, False), Tried(0.5, False, True), Tried(0.75, True, False)]
    run = ClosedLoop.run

    def tries(loop, **how):
        trace = run(loop, **how)
        trace.attempts = tried
        return trace

    monkeypatch.setattr(ClosedLoop, 'run', tries)
    (cell,) = small_cells(1)
    row = compute(cell)
    assert row.goals_s == [0.25, 0.75] and [one.lost for one in row.attempts] == [
        False,
        True,
        False,
    ]


def test_an_error_names_the_cell():
    with pytest.raises(ConfigError, match='success: x, emppi, seed 4: .*missing key'):
        compute(Cell(cells.SUCCESS, 'x', 'emppi', 4, 'name: x'))


@pytest.mark.parametrize('count', [1, 2, 60, 61, 1000])
def test_an_estimate_series_is_thinned_and_keeps_both_ends(small, count):
    task = load_task(str(small))
    beliefs = [
        (float(i), particles.uniform(np.array([[1.0 + i], [3.0 + i]]))) for i in range(count)
    ]
    found = estimate_series(task, np.array([2.0]), beliefs)
    assert len(found.times) == min(count, MAX_TIMES) and found.times[0] == 0.0
    assert found.times[-1] == count - 1 and np.all(np.diff(found.times) > 0)
    # the mean is 2 + i and the truth 2: sums of halves are exact
    assert found.squared_error == tuple(i**2 for i in found.times)
    assert found.means['mass'] == tuple(2.0 + i for i in found.times)


@pytest.mark.slow
def test_calibration_draws_its_truth_from_the_prior_and_learns():
    request = Request((cells.STUDIED,), ('emppi',), (cells.CALIBRATION,), quick=True)
    rows = [compute(cell, 1) for cell in make_cells(request)]
    assert len(rows) == cells.QUICK_RUNS
    task = parse_task(make_cells(request)[0].text)
    left = []
    for row in rows:
        assert not row.success and row.steps == 0 and len(row.course.times) > 10
        for prior, estimate in zip(task.priors, row.parameters.values(), strict=True):
            assert prior.lower <= estimate.true <= prior.upper
            left.append(estimate.sd / (prior.upper - prior.lower) * np.sqrt(12.0))
    # of a uniform prior's sd: half a second of motion leaves less than half of it, mostly
    assert np.median(left) < 0.5


def test_excitation_is_smooth_within_limits_and_another_for_each_seed():
    task = load_task(cells.STUDIED)
    one, other = (
        computing.smooth_commands(task, np.random.default_rng(seed), 2.0) for seed in (0, 1)
    )
    limits = task.robot.control_limits(task.planner.step_s)
    assert one.shape == (201, 1) and np.all(np.abs(one) <= limits.upper)
    assert not np.array_equal(one, other) and one.std() > 0.05 * limits.upper[0]
    # a wave of so many Hz turns by at most so much between two commands
    fastest = 2.0 * np.pi * computing.HIGHEST_HZ / computing.RATE_HZ
    sizes = np.random.default_rng(0)
    sizes.uniform(size=(computing.WAVES, 1))  # the frequencies are drawn first
    reach = computing.SHARE * limits.upper[0] / np.sqrt(computing.WAVES)
    most = reach * np.abs(sizes.standard_normal((computing.WAVES, 1))).sum()
    assert np.abs(np.diff(one, axis=0)).max() <= most * fastest


def test_the_cart_stays_on_its_rail_while_it_is_excited():
    task = load_task(cells.STUDIED)
    trace, _ = computing.run_open_loop(task, 3)
    assert trace.beliefs[-1][0] > 0.9 * computing.DURATION_S and trace.degenerate == 0
