"""`emppi bench identify --method states`: the paper's two pendulums, from synthetic recordings."""

from collections.abc import Callable, Iterator
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from emppi_ros.bench.identify import furuta, pendulum, states_simulation
from emppi_ros.identify.common.motion import Motion
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.states import solver
from emppi_ros.identify.states.estimation import StatesEstimate, estimate, initial_states
from emppi_ros.identify.states.solver import SolverConfig

Array = npt.NDArray[np.float64]
SERIES = 5  # recordings of the pendulum, as in the paper
PENDULUM_STEPS, FURUTA_STEPS = 2000, 4000  # 10 s, 20 s
SETTINGS = SolverConfig()


def pendulum_motions(seed: int) -> list[Motion]:
    """Return releases from almost upright, with Stribeck friction, as encoders show them."""
    plant, rng = pendulum.plant('stribeck'), np.random.default_rng(seed)
    motions = []
    for _ in range(SERIES):
        start = rng.uniform(2.7, 3.1, 1)
        qpos, ctrl = states_simulation.simulate(plant, pendulum.TRUTH, start, PENDULUM_STEPS)
        motions.append(_observe(qpos, ctrl))
    return motions


def furuta_motion(seed: int) -> Motion:
    """Return a swing-up as encoders show it."""
    start = np.array([0.0, np.random.default_rng(seed).uniform(0.1, 0.5)])
    return _observe(
        *states_simulation.simulate(
            furuta.plant(), furuta.TRUTH, start, FURUTA_STEPS, states_simulation.swing_up
        )
    )


def _observe(qpos: Array, ctrl: Array) -> Motion:
    seen = states_simulation.read_encoders(qpos)
    return Motion(seen, np.ones_like(seen), ctrl, np.zeros_like(seen))


def measure_pendulum(seed: int, advance: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Yield a row for each friction model: costs as in Table 3, and the inertia's error."""
    motions = pendulum_motions(seed)
    for kind in pendulum.MODELS:
        plant = pendulum.plant(kind)
        found = []
        for motion in motions:
            found.append(estimate(plant, motion, SETTINGS))
            advance()
        others = [
            _state_cost(plant, result.theta, motion)
            for i, result in enumerate(found)
            for j, motion in enumerate(motions)
            if i != j
        ]
        inertia = np.array([result.theta[0] for result in found])
        yield {
            'friction': kind,
            'cost': float(np.mean([result.solution.mean_cost for result in found])),
            'cross_validation': float(np.mean(others)),
            'inertia_error_percent': 100.0 * float(np.abs(inertia / pendulum.TRUTH[0] - 1).max()),
            'iterations': max(result.solution.iterations for result in found),
            'parameters': [dict(_values(plant, result)) for result in found],
        }


def _state_cost(plant: Plant, theta: Array, motion: Motion) -> float:
    """Return the mean cost of a recording when only its states are estimated."""
    fixed = plant.with_fixed(theta)
    return solver.solve(fixed, motion, SETTINGS, initial_states(fixed, motion)).mean_cost


def _values(plant: Plant, result: StatesEstimate) -> Iterator[tuple[str, float]]:
    for unknown, value in zip(plant.unknowns, result.theta, strict=True):
        yield unknown.name, float(value)


def measure_furuta(seed: int) -> dict[str, Any]:
    """Return what was found of 13 parameters, how far it is off, and in how many iterations."""
    plant, motion = furuta.plant(), furuta_motion(seed)
    began = time.process_time()
    result = estimate(plant, motion, SETTINGS)
    seconds = time.process_time() - began  # of one core
    rows = {
        unknown.name: {
            'unit': unknown.unit,
            'true': float(truth),
            'found': float(value),
            'sd': float(sd),
            'error_percent': 100.0 * float(abs(value / truth - 1.0)) if truth else np.nan,
            'knowledge': knowledge,
        }
        for unknown, truth, value, sd, knowledge in zip(
            plant.unknowns,
            furuta.TRUTH,
            result.theta,
            result.uncertainty.sd,
            result.knowledge,
            strict=True,
        )
    }
    errors = [row['error_percent'] for row in rows.values() if row['knowledge'] == 'found']
    return {
        'iterations': result.solution.iterations,
        'converged': result.solution.converged,
        'seconds': seconds,
        'cost': result.solution.mean_cost,
        'worst_error_percent': max(errors),
        'parameters': rows,
    }
