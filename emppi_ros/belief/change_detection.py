"""
Detection of changes: a parameter has changed if most of the belief descends from recent jumps.

Each particle keeps the time since the last jump of each parameter. The posterior probability that
a parameter has jumped within a window is the weight of the particles for which it did. Jumps at
the start do not count: they mend a prior without particles near the truth.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.transition import Jumps
from emppi_ros.journal.snapshot import restorable
from emppi_ros.priors.particles import Belief
from emppi_ros.priors.resampling import Indices

Array = npt.NDArray[np.float64]
_WINDOW_S = 2.0  # in which a jump is recent
_DETECTED, _CLEARED = 0.5, 0.2  # probabilities at which a change is detected, and is over
_MAX_EVENTS = 100  # that are kept


@restorable
class DetectedChange(NamedTuple):
    """
    A change of a parameter that the belief has followed.

    Attributes
    ----------
    stamp : float
        Time of detection [s].
    parameter : str
        Name of the parameter.
    before : float
        Mean of the belief before the change.
    after : float
        Mean of the particles that followed it, at detection.

    """

    stamp: float
    parameter: str
    before: float
    after: float


class ChangeDetector:
    """
    Detects changes of parameters from the jumps of particles.

    Attributes
    ----------
    events : deque of DetectedChange
        The last changes, oldest first.

    """

    MEMORY = ('_age', '_before', '_elapsed', '_raised', 'events')

    def __init__(self, names: Sequence[str], count: int) -> None:
        """Expect `count` particles with P named parameters."""
        self._names = tuple(names)
        self.events: deque[DetectedChange] = deque(maxlen=_MAX_EVENTS)
        self.reset(count)

    def reset(self, count: int) -> None:
        """Start again with new particles."""
        shape = count, len(self._names)
        self._age = np.full(shape, np.inf)  # s, since the last jump
        self._before = np.zeros(shape)  # mean of the belief before it
        self._elapsed = 0.0  # s, since the start
        self._raised = np.zeros(len(self._names), dtype=bool)
        self.events.clear()

    def jump(self, jumps: Jumps, elapsed: float, mean: Array) -> None:
        """Let particles jump within `elapsed` [s], given the mean (P,) of the belief before."""
        self._elapsed += elapsed
        self._age += elapsed
        rows, origins, columns = jumps
        age, before = self._age[origins], self._before[origins]
        if self._elapsed > _WINDOW_S:
            among = np.arange(len(rows)), columns
            # a value that needs several jumps is one change
            before[among] = np.where(age[among] < _WINDOW_S, before[among], mean[columns])
            age[among] = 0.0
        self._age[rows], self._before[rows] = age, before

    def resample(self, parents: Indices) -> None:
        """Replace particles by copies of their parents."""
        self._age, self._before = self._age[parents], self._before[parents]

    def since(self, stamp: float) -> list[DetectedChange]:
        """Return the changes that were detected after `stamp` [s]."""
        return [one for one in self.events if one.stamp > stamp]

    def update(self, stamp: float, belief: Belief) -> list[DetectedChange]:
        """Return the changes that the belief at `stamp` [s] shows for the first time."""
        shares = np.exp(belief.log_weights)[:, None] * (self._age < _WINDOW_S)  # (M, P)
        probability = shares.sum(axis=0)
        found = []
        for i in np.flatnonzero((probability > _DETECTED) & ~self._raised):
            before, after = (
                float(shares[:, i] @ values[:, i] / probability[i])
                for values in (self._before, belief.theta)
            )
            found.append(DetectedChange(stamp, self._names[i], before, after))
        self._raised = probability > np.where(self._raised, _CLEARED, _DETECTED)
        self.events.extend(found)
        return found
