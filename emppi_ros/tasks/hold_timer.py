"""For how long a condition has held."""

import math

ROUNDING_S = 1e-9  # rounding error of times that are sums of steps


def holding_since(since: float, holds: bool, now: float) -> float:
    """Return since when [s] a condition holds, which held from `since` on; inf if it does not."""
    return min(since, now) if holds else math.inf


def has_held(since: float, now: float, hold_s: float) -> bool:
    """Return whether a condition that holds since a time has held for `hold_s`."""
    return now - since >= hold_s - ROUNDING_S


class HoldTimer:
    """Measures for how long a condition has held without interruption."""

    MEMORY = ('_since',)

    def __init__(self) -> None:
        """Start with a condition that does not hold."""
        self._since = math.inf

    def update(self, holds: bool, now: float, hold_s: float) -> bool:
        """Return whether the condition, which `holds` now or not, has held for `hold_s`."""
        self._since = holding_since(self._since, holds, now)
        return has_held(self._since, now, hold_s)
