"""Synthetic rows."""

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.paper.cells import ParameterEstimate
from benchmarks.robustness.runs import RobustnessRow


@pytest.fixture
def make_row() -> Callable[..., RobustnessRow]:
    """Return a function that makes a row by its fields; `means` are of an interval around 1."""

    def make(means: tuple[float, ...] = (1.0,), **fields: Any) -> RobustnessRow:
        values = {
            'task': 'panda_push', 'sweep': 'tilt', 'values': (0.0,), 'controller': 'emppi',
            'seed': 0, 'digest': 'one', 'success': True, 'time_s': 2.0, 'limit_s': 20.0,
            'fault': '', 'misfit_s': None, 'compute_s': 1.0, 'made_by': 'a test',
            'parameters': {
                f'p{i}': ParameterEstimate(1.0, mean, 0.1, mean - 0.2, mean + 0.2)
                for i, mean in enumerate(means)
            },
        }  # fmt: skip
        return RobustnessRow(**{**values, **fields})

    return make
