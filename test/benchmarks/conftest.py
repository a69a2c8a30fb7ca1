"""Synthetic rows and cells, and a task so small that runs take no time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.paper import cells
from benchmarks.paper.cells import Cell, EstimateSeries, ParameterEstimate, Row


@pytest.fixture
def make_row() -> Callable[..., Row]:
    """Return a function that makes a row, of a cell or by its fields."""

    def make(cell: Cell | None = None, **fields: Any) -> Row:
        cell = cell or Cell(
            fields.pop('study', cells.SUCCESS),
            fields.pop('task', 'slider'),
            fields.pop('controller', 'emppi'),
            fields.pop('seed', 0),
            'name: slider',
            models=fields.pop('models', 0),
            rollouts=fields.pop('rollouts', 0),
        )
        errors = fields.pop('errors', (4.0, 1.0))
        values = {
            **cell.identity,
            'digest': cell.digest, 'success': True, 'time_s': 2.0, 'limit_s': 10.0, 'steps': 40,
            'squared_error': errors[-1],
            'parameters': {'mass': ParameterEstimate(1.0, 1.5, 0.4, 0.9, 2.1, 'kg')},
            'course': EstimateSeries((0.0, 1.0), errors, {'mass': (3.0, 2.0)}),
            'attempts': (), 'diverged': 0, 'degenerate': 0, 'plan_ms': 5.0, 'plan_p99_ms': 9.0,
            'period_ms': 50.0, 'compute_s': 0.5, 'made_by': 'a test',
        }  # fmt: skip
        return Row(**{**values, **fields})

    return make


@pytest.fixture
def small(write_task: Callable[..., Path], task_data: Callable[[str], dict]) -> Path:
    """Return the YAML of a cart of unknown mass, which is run for a tenth of a second."""
    return write_task('slider', {**task_data('slider'), 'duration_s': 0.1})


@pytest.fixture
def small_cells(small: Path) -> Callable[..., list[Cell]]:
    """Return a function that makes the cells of the small task."""

    def make(seeds: int = 3, controllers: tuple[str, ...] = ('emppi',)) -> list[Cell]:
        request = cells.Request((str(small),), controllers, (cells.SUCCESS,), range(seeds))
        return cells.make_cells(request)

    return make
