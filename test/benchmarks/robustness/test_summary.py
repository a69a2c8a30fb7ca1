"""Summaries: what counts as success, as honest, and as a warning."""

from collections.abc import Callable

import numpy as np

from benchmarks.robustness import plots, runs
from benchmarks.robustness.runs import RobustnessRow


def test_intervals_are_counted_one_by_one_and_warnings_by_run(
    make_row: Callable[..., RobustnessRow],
) -> None:
    rows = [
        make_row(means=(1.0, 1.0), seed=0),
        make_row(means=(1.0, 9.0), seed=1, misfit_s=0.5),  # wrong, and says so
        make_row(means=(1.0, 9.0), seed=2, success=False, time_s=20.0, fault='state-jump'),
    ]
    (group,) = runs.summarize(rows)
    assert (group.success.count, group.success.total) == (2, 3)
    assert group.time_s.median == 2.0
    assert (group.inside.count, group.inside.total) == (4, 6)
    assert (group.misfit.count, group.warned.count, group.warned.total) == (1, 2, 3)
    assert group.faults == {'state-jump': 1}


def test_a_controller_without_a_belief_has_no_intervals(
    make_row: Callable[..., RobustnessRow],
) -> None:
    (group,) = runs.summarize([make_row(parameters={}, controller='mppi-true')])
    assert group.inside is group.misfit is group.warned is None


def test_groups_come_by_sweep_and_value(make_row: Callable[..., RobustnessRow]) -> None:
    rows = [
        make_row(sweep=sweep, values=(value,))
        for sweep, value in (('tilt', 0.1), ('size', 1.1), ('tilt', -0.1), ('size', 0.9))
    ]
    found = [(group.sweep, *group.values) for group in runs.summarize(rows)]
    assert found == [('size', 0.9), ('size', 1.1), ('tilt', -0.1), ('tilt', 0.1)]


def test_the_edges_of_cells_lie_between_their_values() -> None:
    grid = np.array([0.02, 0.2, 2.0])
    edges = plots._edges(grid, logarithmic=True)
    np.testing.assert_allclose(edges[1:-1], np.sqrt(grid[1:] * grid[:-1]), rtol=1e-12)
    np.testing.assert_allclose(np.sqrt(edges[1:] * edges[:-1]), grid, rtol=1e-12)
    edges = plots._edges(np.array([0.0, 1.0, 3.0]), logarithmic=False)
    np.testing.assert_allclose(edges, [-0.5, 0.5, 2.0, 4.0], atol=1e-12)
