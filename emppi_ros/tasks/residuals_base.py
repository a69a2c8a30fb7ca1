"""What a residual is once it has found its names in a model."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.tasks.norms import l2

Array = npt.NDArray[np.float64]
Fields = Mapping[str, Array]


class Bound(NamedTuple):
    """A residual that has found its names in a model."""

    fields: tuple[str, ...]  # MjData fields it reads
    evaluate: Callable[[Fields], Array]  # (..., field shape) -> (..., n)


def length(residual: Bound, data: mujoco.MjData) -> float:
    """Return the length of a residual in a simulation's current state."""
    return float(l2(residual.evaluate({name: getattr(data, name) for name in residual.fields})))
