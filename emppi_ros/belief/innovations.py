"""
Whether measurements are as far from their predictions as a belief expects.

The innovation is what was measured less what was predicted. In units of its own standard
deviation, that of the measurement and of the particles' predictions together, it has mean 0 and
variance 1 if the belief is right (Bar-Shalom, Li and Kirubarajan, *Estimation with Applications
to Tracking and Navigation*, 2001, section 5.4): a mean that stays away from 0 is a bias, more
variance something that no particle explains, less a measurement better than the task says.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.likelihood import Deviation
from emppi_ros.core import weights

Array = npt.NDArray[np.float64]
_KEPT = 200  # updates: a few seconds
_EXCESSIVE = 2.0  # mean square, that of a right belief is 1


def normalized(log_weights: Array, deviations: Sequence[Deviation]) -> dict[str, Array]:
    """
    Return innovations (n,) in units of their standard deviation, by quantity.

    `log_weights` (M,) are those before the update. Models that diverged do not count; where all
    did, there is nothing to tell.
    """
    found: dict[str, list[Array]] = {}
    for one in deviations:
        sound = np.isfinite(one.values).all(axis=1) & np.isfinite(log_weights)
        if sound.any():
            shares, values = log_weights[sound], one.values[sound]
            mean = weights.mean(shares, values)
            variance = weights.mean(shares, (values - mean) ** 2)
            found.setdefault(one.quantity, []).append(-mean / np.sqrt(1.0 + variance))
    return {quantity: np.concatenate(parts) for quantity, parts in found.items()}


class Innovations:
    """Mean and variance of the last few hundred innovations of each quantity."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self._sums: dict[str, deque[tuple[int, float, float]]] = {}

    def add(self, innovations: dict[str, Array]) -> None:
        """Add those of an update."""
        for quantity, values in innovations.items():
            kept = self._sums.setdefault(quantity, deque(maxlen=_KEPT))
            kept.append((values.size, float(values.sum()), float(values @ values)))

    def statistics(self) -> dict[str, tuple[float, float]]:
        """Return (mean, variance) of each quantity."""
        found = {}
        for quantity, kept in list(self._sums.items()):  # while another thread adds
            count, total, square = np.sum(list(kept), axis=0)
            mean = total / count
            found[quantity] = float(mean), float(square / count - mean**2)
        return found

    @property
    def excessive(self) -> bool:
        """Whether some quantity is off by more than the belief can explain."""
        return any(m**2 + v > _EXCESSIVE for m, v in self.statistics().values())
