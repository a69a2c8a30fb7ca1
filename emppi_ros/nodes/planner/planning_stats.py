"""How planning goes, in figures."""

from collections import deque
import math

from emppi_ros.nodes.common.diagnostics import Durations

_MOST, _IN_A_ROW = 0.8, 20  # of a period; plans


class PlanningStats:
    """
    Counts cycles, and knows when the last hundred plans started.

    `overloaded`: 20 plans in a row took over 80 % of a period; there is hardly time for anybody
    else. That stays so, for priority that is given back and taken again would do it no good.
    """

    def __init__(self, period_s: float) -> None:
        """Begin at nothing."""
        self._enough, self._long = _MOST * period_s, 0
        self.overloaded = False
        self.cycles = self.misses = 0
        self.times = Durations()
        self.starts: deque[float] = deque(maxlen=100)

    def add(self, start: float, duration: float, late: bool) -> None:
        """Count a plan that starts then, and took so long [s]."""
        self.starts.append(start)
        self.times.add(duration)
        self.misses += late
        self._long = self._long + 1 if duration > self._enough else 0
        self.overloaded |= self._long >= _IN_A_ROW

    def values(self) -> dict[str, object]:
        """Return all of it by name, for diagnostics."""
        starts = list(self.starts)
        span = starts[-1] - starts[0] if len(starts) > 1 else math.nan
        return {
            'cycles': self.cycles,
            'deadline_misses': self.misses,
            'overloaded': self.overloaded,
            'deadline_miss_fraction': self.misses / max(self.cycles, 1),
            'plan_ms_p50': self.times.quantile_ms(0.5),
            'plan_ms_p99': self.times.quantile_ms(0.99),
            'plan_ms_recent': self.times.take_recent_ms(),
            'rate_hz': (len(starts) - 1) / span,
        }
