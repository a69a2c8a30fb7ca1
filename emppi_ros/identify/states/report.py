"""What the method found, in words and as a prior's file."""

from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.common import prior_output
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.states.estimate import Estimate
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]


def summarize(plant: Plant, result: Estimate) -> dict[str, Any]:
    """Return each parameter with what is known of it, and how the search went."""
    found, known = result.found, result.uncertainty
    low, high = plant.bounds
    parameters = {
        unknown.name: {
            'value': float(result.theta[i]),
            'sd': float(known.sd[i]),
            'unit': unknown.unit,
            'knowledge': result.knowledge[i],
            'at_bound': bool(result.theta[i] in (low[i], high[i])),
        }
        for i, unknown in enumerate(plant.unknowns)
    }
    names = [unknown.name for unknown in plant.unknowns]
    of = _dofs(plant.model)
    return {
        'parameters': parameters,
        # in the parameters' scales
        'unexcited_directions': prior_output.describe_directions(known.directions, names),
        'iterations': found.iterations,
        'converged': found.converged,
        'mean_cost': found.mean_cost,
        'steps': len(found.qpos),
        'observation_sd': dict(zip(of, _rms(known.observation_sd), strict=True)),
        'impulse_sd': dict(zip(of, _rms(known.impulse_sd), strict=True)),
    }


def _dofs(model: mujoco.MjModel) -> list[str]:
    """Return names of degrees of freedom: joints', with an axis where one has several."""
    found = []
    for joint, name in enumerate(scene.names(model, 'joint')):
        if scene.is_scalar(model, joint):
            found.append(name)
            continue
        turns = [f'{name} about {axis}' for axis in 'xyz']
        free = model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE.value
        found += [*(f'{name} {axis}' for axis in 'xyz'), *turns] if free else turns
    return found


def _rms(of_recordings: Array) -> list[float]:
    """Return root mean squares over recordings."""
    return np.sqrt(np.mean(of_recordings**2, axis=0)).tolist()


def draw(plant: Plant, result: Estimate, spread: float, seed: int) -> Array:
    """
    Return particles (n, P) from the linearised covariance, so that they keep correlations.

    Parameters that were not excited are alike in all. `spread` multiplies standard deviations,
    which the paper finds too small by several times (4.5).
    """
    kept = prior_output.excited(result.knowledge)
    draws = np.tile(result.theta, (prior_output.PRIOR_SAMPLES, 1))
    draws[:, kept] = prior_output.draw_within_bounds(
        result.theta[kept],
        spread**2 * result.uncertainty.covariance[np.ix_(kept, kept)],
        plant.scales[kept],
        (plant.bounds[0][kept], plant.bounds[1][kept]),
        np.random.default_rng(seed),
    )
    return draws
