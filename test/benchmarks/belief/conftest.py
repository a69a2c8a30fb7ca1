"""Cells of a task so small that runs take no time."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.belief import worlds
from benchmarks.belief.runs import BeliefCell
from benchmarks.belief.worlds import World
from benchmarks.studies.belief import BeliefStudy

MASS = 'mass'


@pytest.fixture
def jump(monkeypatch: pytest.MonkeyPatch) -> World:
    """Give the small task a world in which its mass doubles after half a second."""
    change = {'parameter': MASS, 'at_s': 0.5, 'to': 4.0}
    world = World({MASS: 2.0}, {'changes': [change]}, duration_s=4.0)
    monkeypatch.setitem(worlds.WORLDS, 'slider', {worlds.JUMP: world})
    return world


@pytest.fixture
def make_cells(
    write_task: Callable[..., Path], task_data: Callable[[str], dict[str, Any]]
) -> Callable[..., list[BeliefCell]]:
    """Return a function that makes the cells of estimators for the small task."""

    def make(
        *names: str,
        world: str = worlds.CONSTANT,
        duration_s: float = 1.5,
        seeds: tuple[int, ...] = (0,),
    ) -> list[BeliefCell]:
        data = {**task_data('slider'), 'duration_s': duration_s}
        data['planner']['noise_variance'] = [25.0]  # forces that show the mass
        data['belief'].update(particles=32, window=1, likelihood={'joint_velocity_sd': 0.002})
        path = write_task('slider', data)
        study = BeliefStudy()
        chosen = study.select(seeds, tasks=(str(path),), worlds=(world,), estimators=names)
        return study.cells(chosen).cells

    return make
