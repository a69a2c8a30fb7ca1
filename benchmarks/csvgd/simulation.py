"""Simulations of samples of parameters, as the experiments use them."""

from collections.abc import Sequence

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.parameters import Parameter


def roll_out(
    model: mujoco.MjModel, parameters: Sequence[Parameter], theta: Array, start: Array,
    controls: Array, fields: Sequence[str],
) -> dict[str, Array]:  # fmt: skip
    """Return fields (N, T, ...) of models with parameters (N, P), from one start or N."""
    ensemble = Ensemble(model, parameters, len(theta), threads=1)
    ensemble.write(theta)
    everywhere = np.broadcast_to(controls, (len(theta), 1, *controls.shape))
    begin = State(*np.split(start, 2, axis=-1))
    records = ensemble.rollout(begin, everywhere, fields).fields
    return {name: records[name][:, 0] for name in fields}
