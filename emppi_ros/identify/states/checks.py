"""Whether a model moves as was recorded, and whether recordings agree."""

from collections.abc import Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.motion import Motion, difference
from emppi_ros.identify.common.noise import SMOOTHING_CUTOFF_HZ, smoothing_noise
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import Recording
from emppi_ros.identify.states.estimate import Estimate
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_UNEXPLAINED = 0.2  # of the forces that accelerate a joint
_ASTRAY = 0.05  # of how far a joint moves
_SURELY = 4.0  # standard deviations of chance
_APART = 10.0  # standard deviations, which are too small by several times


def moves(plant: Plant, motion: Motion, result: Estimate) -> None:
    """
    Raise IdentificationError if the model does not move as was recorded.

    What no parameter has an effect on, such as a thing in somebody's hand, may move as it likes.
    """
    joints = scene.names(plant.model, 'joint')
    known = result.uncertainty
    for part, away, impulse in zip(
        motion.parts, known.observation_sd, known.impulse_sd, strict=True
    ):
        needed = _accelerating(plant, result, part)
        lacking = impulse / plant.model.opt.timestep
        span = np.ptp(motion.qpos[part], axis=0) if plant.model.nq == plant.model.nv else None
        for dof in np.flatnonzero(known.affected):
            name = joints[plant.model.dof_jntid[dof]]
            if lacking[dof] > _UNEXPLAINED * needed[dof]:
                raise IdentificationError(
                    f'joint {name!r}: the model does not match: it lacks {lacking[dof]:.3g} N m '
                    f'(or N) of the {needed[dof]:.3g} that accelerate it (rms): check units, '
                    'signs and commands of the recording, and what the model leaves out'
                )
            if span is not None and away[dof] > _ASTRAY * span[dof]:
                raise IdentificationError(
                    f'joint {name!r}: the model does not match: it stays {away[dof]:.3g} rad '
                    f'(or m) away from a motion over {span[dof]:.3g} (rms): check units, signs '
                    'and commands of the recording, and what the model leaves out'
                )


def _accelerating(plant: Plant, result: Estimate, part: slice) -> Array:
    """Return the forces (nv,) that inertia alone needs along a part, rms in N m or N."""
    model, qpos = plant.at(result.theta), result.found.qpos[part]
    v = difference(model, qpos[:-1], qpos[1:]) / model.opt.timestep
    a = np.diff(v, axis=0) / model.opt.timestep
    data, forces = mujoco.MjData(model), np.empty_like(a)
    for k, row in enumerate(forces):
        data.qpos[:] = qpos[k + 1]
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_mulM(model, data, row, a[k])
    return np.sqrt(np.mean(forces**2, axis=0))


def strays(
    plant: Plant,
    names: Sequence[str],
    recordings: Sequence[Recording],
    motion: Motion,
    result: Estimate,
) -> list[str]:
    """
    Return in words which joints' states stay further from what was measured than its noise.

    What smoothing takes out is more than the noise, so that this is too strict only as far as n
    samples of noise tell its standard deviation: to a share of 1 / sqrt(2 n).
    """
    told, joints = [], scene.names(plant.model, 'joint')
    for name, recording, rows, away in zip(
        names, recordings, motion.parts, result.uncertainty.observation_sd, strict=True
    ):
        where = f' of {name}' if len(recordings) > 1 else ''
        for dof, joint in enumerate(plant.model.dof_jntid):
            signal = recording.signals.get(('position', joints[joint]))
            noise = None if signal is None else smoothing_noise(signal, SMOOTHING_CUTOFF_HZ)
            if noise is None:
                continue
            fewest = min(len(signal.values), rows.stop - rows.start)
            if away[dof] > noise * (1.0 + _SURELY / np.sqrt(2.0 * fewest)):
                told.append(
                    f'{signal.of}{where} by {away[dof]:.2g}, where noise is {noise:.2g} at most'
                )
    if not told:
        return []
    return [
        f'states stay away from what was measured: {", ".join(told)} (rms): forces are not as '
        'sure as was supposed, and standard deviations too small: record faster and take a '
        'shorter --step, or a smaller --state-weight'
    ]


def disagreement(
    plant: Plant, names: Sequence[str], alone: Sequence[Estimate], together: Estimate
) -> list[str]:
    """Return in words which parameters are not the same in all recordings."""
    told = []
    for i, unknown in enumerate(plant.unknowns):
        off = [one.theta[i] - together.theta[i] for one in alone]
        sd = [np.hypot(one.uncertainty.sd[i], together.uncertainty.sd[i]) for one in alone]
        if any(np.abs(off) > _APART * np.array(sd)):
            each = ', '.join(
                f'{one.theta[i]:.4g} +- {one.uncertainty.sd[i]:.2g} in {name}'
                for one, name in zip(alone, names, strict=True)
            )
            told.append(f'{unknown.name} is {each}')
    if not told:
        return []
    return [f'recordings do not agree: {"; ".join(told)}: was it the same in all of them?']
