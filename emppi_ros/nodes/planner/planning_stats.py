"""Statistics of the planning cycles."""

from collections import deque
import math

from emppi_ros.nodes.common.diagnostics import Durations

_OVERLOAD_SHARE, _OVERLOAD_PLANS = 0.8, 20


class PlanningStats:
    """
    Counters of the planning cycles, and start times of the last hundred plans.

    `overloaded` becomes true after 20 consecutive plans that took over 80 % of the period, and
    stays true, so that the node does not alternate between real-time and normal priority.
    """

    def __init__(self, period_s: float) -> None:
        self._limit, self._consecutive = _OVERLOAD_SHARE * period_s, 0
        self.overloaded = False
        self.cycles = self.misses = 0
        self.times = Durations()
        self.starts: deque[float] = deque(maxlen=100)

    def add(self, start: float, duration: float, late: bool) -> None:
        """Record a plan that starts at `start` and took `duration` to compute [s]."""
        self.starts.append(start)
        self.times.add(duration)
        self.misses += late
        self._consecutive = self._consecutive + 1 if duration > self._limit else 0
        self.overloaded |= self._consecutive >= _OVERLOAD_PLANS

    def values(self) -> dict[str, object]:
        """Return all statistics by name, for diagnostics."""
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
