"""Forecasts of the held-out part of a motion."""

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.motion import Motion, difference
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.signals import MIN_SAMPLES

Array = npt.NDArray[np.float64]


def split(motion: Motion, share: float) -> tuple[Motion, Motion]:
    """
    Return the part of a motion to learn from, and the last share, which is held out.

    Raises IdentificationError if too little is left to learn from.
    """
    count = motion.steps - int(share * motion.steps)
    if count < MIN_SAMPLES:
        raise IdentificationError(
            f'{share:.3%} held out of {motion.steps} steps leaves {count}, expected '
            f'{MIN_SAMPLES}: hold out less, or record for longer'
        )
    parts = (motion.qpos, motion.weights, motion.ctrl, motion.applied)
    return Motion(*(x[:count] for x in parts)), Motion(*(x[count:] for x in parts))


def forecast(plant: Plant, thetas: Array, known: Motion, later: Motion) -> Array:
    """
    Return forecasts (n, T, nq) of a motion from its last two known configurations.

    For each of `thetas` (n, P) MuJoCo simulates the T steps of `later`, with its inputs.
    """
    before = slice(known.steps - 1, known.steps - 1 + later.steps)  # inputs of the steps before
    ctrl = np.concatenate([known.ctrl, later.ctrl])[before]
    applied = np.concatenate([known.applied, later.applied])[before]
    last = difference(plant.model, known.qpos[-2:-1], known.qpos[-1:])[0]
    motions = np.empty((len(thetas), *later.qpos.shape))
    for rows, theta in zip(motions, thetas, strict=True):
        model = plant.at(theta)
        data = mujoco.MjData(model)
        data.qpos[:], data.qvel[:] = known.qpos[-1], last / model.opt.timestep
        for row, data.ctrl[:], data.qfrc_applied[:] in zip(rows, ctrl, applied, strict=True):
            mujoco.mj_step(model, data)
            row[:] = data.qpos
    return motions
