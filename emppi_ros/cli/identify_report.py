"""`emppi identify --report`: the pictures of every method."""

from collections.abc import Sequence
from pathlib import Path
import sys

import numpy as np
import numpy.typing as npt

from emppi_ros.identify import pictures
from emppi_ros.identify.pictures import Future, Way
from emppi_ros.identify.states.plant import Plant

Array = npt.NDArray[np.float64]


def write(
    folder: Path,
    plant: Plant,
    theta: Array,
    way: Way | None = None,
    futures: Sequence[Future] = (),
) -> dict[str, str]:
    """Draw particles theta (N, P) and what they forecast; return what the summary says of it."""
    for path in pictures.write_all(plant, theta, way, futures, folder):
        print(f'wrote {path}', file=sys.stderr)
    return {'report': str(folder)}
