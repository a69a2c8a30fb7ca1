"""Whether the model's time step, and not the model, causes correlated residuals."""

from collections.abc import Sequence
import copy
from dataclasses import replace

import numpy as np

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states.diagnostics import estimate_lag
from emppi_ros.identification.states.estimation import StatesEstimate, estimate
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.recordings.motion import Motion, join, physical_step, resample_and_split
from emppi_ros.recordings.recordings import Recording

_SHORTER = 1.5  # a step that is longer than the physical one by this factor is compared with it
_BETTER = 0.5  # of the variance that the residuals cause


def find_shorter_step(
    plant: Plant,
    recordings: Sequence[Recording],
    held_out: float,
    config: SolverConfig,
    used: tuple[Motion, StatesEstimate],
) -> float | None:
    """
    Return the physical step if residuals cause less than half of the variance with it.

    `used` are the motion and the estimate with the plant's own step. None if that is as good, if
    commands lag with the other step, too, or if there is no estimate with it.
    """
    step = physical_step(recordings, plant.model)
    if plant.model.opt.timestep < _SHORTER * step:
        return None
    finer = replace(plant, model=copy.copy(plant.model))
    finer.model.opt.timestep = step
    try:
        parts = resample_and_split(recordings, finer.model, finer.bodies, held_out)
        motion = join([earlier for earlier, _ in parts])
        other = estimate(finer, motion, config)
    except IdentificationError:
        return None
    if _variance(motion, other) > _BETTER * _variance(*used):
        return None
    lag = estimate_lag(finer, motion, config, other)
    return step if lag is None or not lag.notes else None


def _variance(motion: Motion, result: StatesEstimate) -> float:
    """Return the largest variance of the mean residual of a joint, in arbitrary units."""
    counts = np.array([motion.observed[part].sum(axis=0) for part in motion.parts])
    uncertainty = result.uncertainty
    each = uncertainty.observation_sd**2 * uncertainty.correlation / np.maximum(counts, 1)
    return float(np.nanmax(each[:, uncertainty.affected], initial=0.0))
