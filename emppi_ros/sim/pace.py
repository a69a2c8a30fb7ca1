"""How a simulation follows the clock: at a real-time factor, paused, and without what it lost."""

from typing import NamedTuple

CATCH_UP_S = 0.1  # of simulated time that is behind the clock, at most; the rest is lost


class Pace(NamedTuple):
    """Simulated time that is due at a time of the monotonic clock."""

    began: float  # s, time of the clock at which simulated time would be 0
    factor: float = 1.0  # simulated seconds per second
    paused_at: float | None = None  # s, time of the clock
    lost_s: float = 0.0  # simulated time that was skipped because the simulation is too slow

    def due(self, now: float) -> float:
        """Return the simulated time that is due at a time of the clock [s]."""
        paused = now if self.paused_at is None else min(now, self.paused_at)
        return (paused - self.began) * self.factor

    def catch_up(self, now: float, simulated: float) -> 'Pace':
        """Return the pace without the time that the simulation cannot make up for."""
        lost = max(0.0, self.due(now) - simulated - CATCH_UP_S)
        if not lost:
            return self
        return self._replace(began=self.began + lost / self.factor, lost_s=self.lost_s + lost)

    def pause(self, now: float, paused: bool) -> 'Pace':
        """Return the pace paused or not from a time of the clock on."""
        if paused == (self.paused_at is not None):
            return self
        if self.paused_at is None:
            return self._replace(paused_at=now)
        return self._replace(began=self.began + now - self.paused_at, paused_at=None)

    def restart(self, now: float) -> 'Pace':
        """Return the pace with simulated time 0 at a time of the clock."""
        paused = None if self.paused_at is None else now
        return self._replace(began=now, paused_at=paused)
