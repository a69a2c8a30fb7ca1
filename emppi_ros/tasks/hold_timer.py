"""For how long a condition has held."""

import math

ROUNDING_S = 1e-9  # rounding error of times that are sums of steps


class HoldTimer:
    """Measures for how long a condition has held without interruption."""

    MEMORY = ('_since',)

    def __init__(self) -> None:
        """Start with a condition that does not hold."""
        self._since = math.inf

    def update(self, holds: bool, now: float, hold_s: float) -> bool:
        """Return whether the condition, which `holds` now or not, has held for `hold_s`."""
        self._since = min(self._since, now) if holds else math.inf
        return now - self._since >= hold_s - ROUNDING_S
