"""What the method found, in words and as a prior's file; and whether it explains the motion."""

from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.belief.file import PriorFile, Source
from emppi_ros.errors import IdentificationError
from emppi_ros.identify import particles
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.dataset import noise as noise_of
from emppi_ros.identify.states.estimate import CUTOFF_HZ, Estimate
from emppi_ros.identify.states.motion import Motion, difference
from emppi_ros.identify.states.plant import Plant
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
SPREAD = 3.0  # factor on linearised standard deviations, unless another is asked for
_UNEXPLAINED = 0.2  # of the forces that accelerate a joint
_ASTRAY = 0.05  # of how far a joint moves


def check(plant: Plant, motion: Motion, result: Estimate) -> None:
    """
    Raise IdentificationError if the model does not move as was recorded, or nothing shows.

    What no parameter has an effect on, such as a thing in somebody's hand, may move as it likes.
    """
    particles.excited(result.knowledge)
    joints = scene.names(plant.model, 'joint')
    needed = _accelerating(plant, result)
    apart = result.uncertainty.observation_sd
    lacking = result.uncertainty.impulse_sd / plant.model.opt.timestep
    span = np.ptp(motion.qpos, axis=0) if plant.model.nq == plant.model.nv else None
    for dof in np.flatnonzero(result.uncertainty.affected):
        name = joints[plant.model.dof_jntid[dof]]
        if lacking[dof] > _UNEXPLAINED * needed[dof]:
            raise IdentificationError(
                f'joint {name!r}: the model does not match: it lacks {lacking[dof]:.3g} N m '
                f'(or N) of the {needed[dof]:.3g} that accelerate it (rms): check units, signs '
                'and commands of the recording, and what the model leaves out'
            )
        if span is not None and apart[dof] > _ASTRAY * span[dof]:
            raise IdentificationError(
                f'joint {name!r}: the model does not match: it stays {apart[dof]:.3g} rad (or m) '
                f'away from a motion over {span[dof]:.3g} (rms): check units, signs and commands '
                'of the recording, and what the model leaves out'
            )


def strays(plant: Plant, recording: Recording, result: Estimate) -> list[str]:
    """
    Return in words which joints' states stay further from what was measured than its noise.

    What smoothing takes out is more than the noise, so that this is never too strict.
    """
    told = []
    for dof, joint in enumerate(plant.model.dof_jntid):
        signal = recording.signals.get(('position', scene.names(plant.model, 'joint')[joint]))
        noise = None if signal is None else noise_of(signal, CUTOFF_HZ)
        apart = result.uncertainty.observation_sd[dof]
        if noise is not None and apart > noise:
            told.append(f'{signal.of} by {apart:.2g}, where noise is {noise:.2g} at most')
    if not told:
        return []
    return [
        f'states stay away from what was measured: {", ".join(told)} (rms): forces are not as '
        'sure as was supposed, and standard deviations too small: record faster and take a '
        'shorter --step, or a smaller --state-weight'
    ]


def _accelerating(plant: Plant, result: Estimate) -> Array:
    """Return the forces (nv,) that inertia alone needs along the motion, rms in N m or N."""
    model, qpos = plant.at(result.theta), result.found.qpos
    v = difference(model, qpos[:-1], qpos[1:]) / model.opt.timestep
    a = np.diff(v, axis=0) / model.opt.timestep
    data, forces = mujoco.MjData(model), np.empty_like(a)
    for k, row in enumerate(forces):
        data.qpos[:] = qpos[k + 1]
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_mulM(model, data, row, a[k])
    return np.sqrt(np.mean(forces**2, axis=0))


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
    joints = scene.names(plant.model, 'joint')
    of = [joints[joint] for joint in plant.model.dof_jntid]
    return {
        'parameters': parameters,
        # in the parameters' scales
        'unexcited_directions': particles.blind(known.directions, names),
        'iterations': found.iterations,
        'converged': found.converged,
        'mean_cost': found.mean_cost,
        'steps': len(found.qpos),
        'observation_sd': dict(zip(of, known.observation_sd.tolist(), strict=True)),
        'impulse_sd': dict(zip(of, known.impulse_sd.tolist(), strict=True)),
    }


def draw(plant: Plant, result: Estimate, spread: float, seed: int) -> Array:
    """
    Return particles (n, P) from the linearised covariance, so that they keep correlations.

    Parameters that were not excited are alike in all. `spread` multiplies standard deviations,
    which the paper finds too small by several times (4.5).
    """
    kept = particles.excited(result.knowledge)
    draws = np.tile(result.theta, (particles.COUNT, 1))
    draws[:, kept] = particles.draw(
        result.theta[kept],
        spread**2 * result.uncertainty.covariance[np.ix_(kept, kept)],
        plant.scales[kept],
        (plant.bounds[0][kept], plant.bounds[1][kept]),
        np.random.default_rng(seed),
    )
    return draws


def to_prior(
    plant: Plant, result: Estimate, draws: Array, sources: tuple[Source, ...],
    settings: Mapping[str, Any], diagnostics: Mapping[str, Any],
) -> PriorFile:  # fmt: skip
    """Return a prior of particles (n, P); unexcited parameters are left to the task's own."""
    kept = particles.excited(result.knowledge)
    unknowns = [plant.unknowns[i] for i in kept]
    return particles.to_prior('states', unknowns, draws[:, kept], sources, settings, diagnostics)
