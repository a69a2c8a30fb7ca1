"""How planning goes, in figures."""

from collections import deque
import math

from emppi_ros.nodes.diagnostics import Durations


class Figures:
    """Counts cycles, and knows when the last hundred plans started."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.cycles = self.misses = 0
        self.times = Durations()
        self.starts: deque[float] = deque(maxlen=100)

    def add(self, start: float, duration: float, late: bool) -> None:
        """Count a plan that starts then, and took so long [s]."""
        self.starts.append(start)
        self.times.add(duration)
        self.misses += late

    def values(self) -> dict[str, object]:
        """Return all of it by name, for diagnostics."""
        starts = list(self.starts)
        span = starts[-1] - starts[0] if len(starts) > 1 else math.nan
        return {
            'cycles': self.cycles,
            'deadline_misses': self.misses,
            'deadline_miss_fraction': self.misses / max(self.cycles, 1),
            'plan_ms_p50': self.times.quantile_ms(0.5),
            'plan_ms_p99': self.times.quantile_ms(0.99),
            'plan_ms_recent': self.times.take_recent_ms(),
            'rate_hz': (len(starts) - 1) / span,
        }
