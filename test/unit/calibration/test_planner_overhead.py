"""The floor is the stepping of a plan alone; timing does not change plans."""

import math

import numpy as np
import pytest

from emppi_ros.calibration import planner_overhead as benchmark
from emppi_ros.planning.planner import Planner
from emppi_ros.tasks.task import load_task


@pytest.mark.parametrize('name', ['panda_push', 'cartpole_swingup'])
def test_the_floor_is_the_bare_stepping_of_a_plan(name: str) -> None:
    task = load_task(name)
    seen: list[float] = []
    found = benchmark.measure(task, pairs=8, progress=seen.append)
    planner = task.planner
    assert found['sim_steps'] == (
        planner.models * planner.rollouts * (planner.horizon * planner.substeps + 1)
    )
    assert found['threads'] >= 1
    assert 0.0 < found['floor_ms'] and 0.0 < found['plan_ms']
    # no bound on the ratio: `emppi bench planner` measures it, and a busy machine decides here
    assert 0.0 < found['ratio'] < math.inf
    assert seen[-1] >= 8


def test_timing_a_cycle_does_not_change_its_plan() -> None:
    task = load_task('cartpole_swingup')
    start = task.start()
    theta = np.tile([0.2, 0.02], (task.planner.models, 1))

    def plan_with(planner: Planner) -> np.ndarray:
        planner.ensemble.write(theta)
        held = np.zeros(len(task.robot.commanded))
        rows = [
            planner.plan_from(
                start, 0.1 * i, 0.1 * i + 0.03, lambda t: np.tile(held, (len(t), 1))
            )[0]
            for i in range(3)
        ]
        return np.array([row.values for row in rows])

    plain = plan_with(Planner(task, np.random.default_rng(5)))
    timed = plan_with(benchmark.TimedPlanner(task, np.random.default_rng(5), lambda _: None))
    assert np.array_equal(plain, timed)
    assert math.isfinite(plain.sum())
