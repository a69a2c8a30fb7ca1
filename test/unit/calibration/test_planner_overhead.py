"""The floor is the stepping of a plan alone; timing does not change plans."""

import dataclasses
import json
import math
from pathlib import Path

import command_series
import numpy as np
import pytest

from emppi_ros.calibration import planner_overhead as benchmark
from emppi_ros.calibration.planner_overhead import fit_line
from emppi_ros.cli import main
from emppi_ros.core.errors import ConfigError
from emppi_ros.planning.planner import Planner
from emppi_ros.tasks.task import load_task


@pytest.mark.slow
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
            planner.plan_from(start, 0.1 * i, 0.1 * i + 0.03, command_series.held(held))[0]
            for i in range(3)
        ]
        return np.array([row.values for row in rows])

    plain = plan_with(Planner(task, np.random.default_rng(5)))
    timed = plan_with(benchmark.TimedPlanner(task, np.random.default_rng(5), lambda _: None))
    assert np.array_equal(plain, timed)
    assert math.isfinite(plain.sum())


def test_times_on_a_line_give_that_line() -> None:
    values = np.array([5.0, 10.0, 20.0, 40.0])
    line = fit_line(values, 2.0 + 0.3 * values)
    assert (line.offset, line.slope) == pytest.approx((2.0, 0.3))
    assert line.deviation == pytest.approx(0.0, abs=1e-12)


def test_the_deviation_is_that_of_the_worst_time_relative_to_the_line() -> None:
    values = np.array([1.0, 2.0, 3.0])
    line = fit_line(values, np.array([1.0, 4.0, 9.0]))  # grows with the square
    errors = line.times / line.at(values) - 1.0
    assert line.deviation == np.max(np.abs(errors)) > 0.1
    # least squares of relative errors: no line nearby is better
    for offset, slope in ((0.01, 0.0), (-0.01, 0.0), (0.0, 0.01), (0.0, -0.01)):
        other = dataclasses.replace(line, offset=line.offset + offset, slope=line.slope + slope)
        worse = other.at(values) / line.times - 1.0
        assert np.sum(worse**2) > np.sum((line.at(values) / line.times - 1.0) ** 2)


@pytest.mark.slow
def test_the_command_measures_models_rollouts_and_horizon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(benchmark, 'FACTORS', (0.5, 1.0))
    picture = tmp_path / 'growth.png'
    command = ['bench', 'planner', '--task', 'cartpole_swingup', '--pairs', '2', '--json']
    assert main([*command, '--growth', str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {
        f'{size}_{name}'
        for size in benchmark.SIZES
        for name in ('ms_each', 'floor_ms_each', 'deviation', 'floor_deviation')
    }
    assert picture.read_bytes().startswith(b'\x89PNG')


def test_a_belief_with_too_few_particles_is_an_error() -> None:
    task = load_task('cartpole_swingup')
    task.belief = dataclasses.replace(task.belief, particles=100)
    task.planner = dataclasses.replace(task.planner, models=100)
    with pytest.raises(ConfigError, match=r'belief: particles: 100; .* up to 400 models'):
        benchmark.measure_growth(task, 2)
