"""Synthetic rows."""

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.paper.cells import ParameterEstimate
from benchmarks.peers.runs import PeerRow


@pytest.fixture
def make_row() -> Callable[..., PeerRow]:
    """Return a function that makes a row by its fields."""

    def make(**fields: Any) -> PeerRow:
        values = {
            'task': 'cartpole', 'world': 'true', 'planner': 'emppi', 'seed': 0, 'rollouts': 32,
            'threads': 1, 'digest': 'one', 'reward': -2.0, 'final_reward': -1.0,
            'rewards': (-3.0, -1.0), 'success': True, 'time_s': 4.0, 'limit_s': 10.0,
            'plan_ms': 3.0, 'stepping_ms': 2.0, 'ratio': 1.5, 'observe_ms': 1.0,
            'parameters': {'pole_mass': ParameterEstimate(0.5, 0.6, 0.1, 0.4, 0.8, 'kg')},
            'compute_s': 1.0, 'made_by': 'a test',
        }  # fmt: skip
        return PeerRow(**{**values, **fields})

    return make
