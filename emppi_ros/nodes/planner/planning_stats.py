"""Statistics of the planning cycles."""

from collections import deque
import math
import statistics

from emppi_ros.nodes.common.diagnostics import Durations

_SHARE = 0.7  # of the time between plans that planning may take
_JUDGED_PLANS = 20
_MOST_PERIODS = 4


class PlanningStats:
    """
    Counters of the planning cycles, and start times of the last hundred plans.

    `stride` is the number of periods from one plan to the next. On a machine that is too slow it
    rises, so that planning, at real-time priority, takes at most 70 % of the time: the median of
    20 plans decides. It falls again when plans take less time.
    """

    def __init__(self, period_s: float) -> None:
        self._period = period_s
        self._judged: deque[float] = deque(maxlen=_JUDGED_PLANS)
        self.stride = 1
        self.cycles = self.misses = 0
        self.times = Durations()
        self.starts: deque[float] = deque(maxlen=100)

    def add(self, start: float, duration: float, late: bool) -> None:
        """Record a plan that starts at `start` and took `duration` to compute [s]."""
        self.starts.append(start)
        self.times.add(duration)
        self.misses += late
        self._judged.append(duration)
        if len(self._judged) == _JUDGED_PLANS:
            periods = statistics.median(self._judged) / (_SHARE * self._period)
            stride = min(max(1, math.ceil(periods)), _MOST_PERIODS)
            if stride != self.stride:
                self.stride = stride
                self._judged.clear()

    def values(self) -> dict[str, object]:
        """Return all statistics by name, for diagnostics."""
        starts = list(self.starts)
        span = starts[-1] - starts[0] if len(starts) > 1 else math.nan
        return {
            'cycles': self.cycles,
            'deadline_misses': self.misses,
            'stride': self.stride,
            'deadline_miss_fraction': self.misses / max(self.cycles, 1),
            'plan_ms_p50': self.times.quantile_ms(0.5),
            'plan_ms_p99': self.times.quantile_ms(0.99),
            'plan_ms_recent': self.times.take_recent_ms(),
            'rate_hz': (len(starts) - 1) / span,
        }
