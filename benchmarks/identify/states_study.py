"""Study `states`: two pendulums of the paper, from synthetic encoder readings."""

from collections.abc import Callable, Iterator, Mapping
import itertools
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.identify import pendulums
from benchmarks.identify.study import Study, StudySettings
from emppi_ros.identify.common.motion import Motion
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.states import solver
from emppi_ros.identify.states.estimation import estimate, initial_states
from emppi_ros.identify.states.solver import SolverConfig

Array = npt.NDArray[np.float64]
RECORDINGS = 5  # recordings of the pendulum, as in the paper
PENDULUM_STEPS, FURUTA_STEPS = 2000, 4000  # 10 s, 20 s
SETTINGS = SolverConfig()


def pendulum_motions(seed: int) -> list[Motion]:
    """Return releases from almost upright, with Stribeck friction."""
    plant, rng = pendulums.pendulum_plant('stribeck'), np.random.default_rng(seed)
    motions = []
    for _ in range(RECORDINGS):
        start = rng.uniform(2.7, 3.1, 1)
        qpos, ctrl = pendulums.simulate(plant, pendulums.PENDULUM_TRUTH, start, PENDULUM_STEPS)
        motions.append(_observe(qpos, ctrl))
    return motions


def furuta_motion(seed: int) -> Motion:
    """Return a swing-up of the Furuta pendulum."""
    start = np.array([0.0, np.random.default_rng(seed).uniform(0.1, 0.5)])
    plant, truth = pendulums.furuta_plant(), pendulums.FURUTA_TRUTH
    return _observe(*pendulums.simulate(plant, truth, start, FURUTA_STEPS, pendulums.swing_up))


def _observe(qpos: Array, ctrl: Array) -> Motion:
    measured = pendulums.read_encoders(qpos)
    return Motion(measured, np.ones_like(measured), ctrl, np.zeros_like(measured))


def measure_pendulum(seed: int, advance: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Yield a row for each friction model: costs as in Table 3, and inertia errors."""
    motions = pendulum_motions(seed)
    for kind in pendulums.FRICTION_MODELS:
        plant = pendulums.pendulum_plant(kind)
        names, results = [unknown.name for unknown in plant.unknowns], []
        for motion in motions:
            results.append(estimate(plant, motion, SETTINGS))
            advance()
        others = [
            _state_cost(plant, result.theta, motion)
            for i, result in enumerate(results)
            for j, motion in enumerate(motions)
            if i != j
        ]
        inertia = np.array([result.theta[0] for result in results])
        off = np.abs(inertia / pendulums.PENDULUM_TRUTH[0] - 1).max()
        yield {
            'friction': kind,
            'cost': float(np.mean([result.solution.mean_cost for result in results])),
            'cross_validation': float(np.mean(others)),
            'inertia_error_percent': 100.0 * float(off),
            'iterations': max(result.solution.iterations for result in results),
            'parameters': [dict(zip(names, r.theta.tolist(), strict=True)) for r in results],
        }


def _state_cost(plant: Plant, theta: Array, motion: Motion) -> float:
    """Return the mean cost of a recording with fixed parameters."""
    fixed = plant.with_fixed(theta)
    return solver.solve(fixed, motion, SETTINGS, initial_states(fixed, motion)).mean_cost


def measure_furuta(seed: int) -> dict[str, Any]:
    """Return the estimates of 13 parameters, their errors, and the cost."""
    plant, motion = pendulums.furuta_plant(), furuta_motion(seed)
    began = time.process_time()
    result = estimate(plant, motion, SETTINGS)
    seconds = time.process_time() - began  # of one core
    columns = pendulums.FURUTA_TRUTH, result.theta, result.uncertainty.sd, result.knowledge
    errors = [
        100.0 * float(abs(value / truth - 1.0)) if truth else np.nan
        for truth, value in zip(pendulums.FURUTA_TRUTH, result.theta, strict=True)
    ]
    rows = {
        unknown.name: {
            'unit': unknown.unit,
            'true': float(truth),
            'found': float(value),
            'sd': float(sd),
            'error_percent': error,
            'knowledge': knowledge,
        }
        for unknown, error, truth, value, sd, knowledge in zip(
            plant.unknowns, errors, *columns, strict=True
        )
    }
    pairs = zip(errors, result.knowledge, strict=True)
    return {
        'iterations': result.solution.iterations,
        'converged': result.solution.converged,
        'seconds': seconds,
        'cost': result.solution.mean_cost,
        'worst_error_percent': max(error for error, known in pairs if known == 'found'),
        'parameters': rows,
    }


class StatesStudy(Study):
    """States and parameters of two pendulums, from synthetic encoder readings."""

    description = 'states and parameters of pendulums'

    def run(self, options: Any, settings: StudySettings) -> dict[str, Any]:
        """Return the estimates of both pendulums."""
        steps = len(pendulums.FRICTION_MODELS) * RECORDINGS
        with settings.progress('states', steps + 1, 'recordings') as bar:
            done = itertools.count(1)
            frictions = list(measure_pendulum(settings.seed, lambda: bar(next(done))))
            furuta = measure_furuta(settings.seed)
            bar(next(done))
        return {'seed': settings.seed, 'pendulum': frictions, 'furuta': furuta}

    def show(self, results: Mapping[str, Any]) -> None:
        """Print a table per pendulum."""
        _show_pendulum(results['pendulum'])
        _show_furuta(results['furuta'])


def _show_pendulum(rows: list[dict[str, Any]]) -> None:
    print(f'{"pendulum":<9} {"cost":>9} {"CV":>9} {"inertia off":>12} {"iterations":>10}')
    for row in rows:
        print(
            f'{row["friction"]:<9} {row["cost"]:9.2e} {row["cross_validation"]:9.2e} '
            f'{row["inertia_error_percent"]:10.3f} % {row["iterations"]:10}'
        )


def _show_furuta(results: dict[str, Any]) -> None:
    print(
        f'\nFuruta pendulum: {results["iterations"]} iterations, {results["seconds"]:.1f} s, '
        f'cost {results["cost"]:.2e}, worst of those found {results["worst_error_percent"]:.2f} %'
    )
    print(f'{"":<20} {"true":>10} {"found":>10} {"sd":>8} {"off":>8}')
    for name, row in results['parameters'].items():
        known = row['knowledge'] == 'found' and row['true'] != 0.0
        error = f'{row["error_percent"]:6.2f} %' if known else f'{row["knowledge"]:>8}'
        print(
            f'{name:<20} {row["true"]:10.4g} {row["found"]:10.4g} {row["sd"]:8.1e} {error}'
            f'  {row["unit"]}'
        )
