"""For how long something has held without a break."""

import math

ROUNDING_S = 1e-9  # of times that are sums of steps


class Held:
    """Notes since when something holds."""

    MEMORY = ('_since',)

    def __init__(self) -> None:
        """Begin with something that does not."""
        self._since = math.inf

    def note(self, holds: bool, now: float, hold_s: float) -> bool:
        """Return whether it has held for `hold_s` by now, given whether it holds now."""
        self._since = min(self._since, now) if holds else math.inf
        return now - self._since >= hold_s - ROUNDING_S
