"""
The clock of the bridge in simulated time: it follows /clock, but never stops or goes back.

Between two readings time advances at the measured rate of /clock, by one reading at most. If
/clock stops, time goes on at the rate of the monotonic clock, so that the watchdog trips. A jump
of /clock changes its offset only.
"""

from typing import NamedTuple

JUMP_S = 1.0  # a longer step of /clock, or one backwards, is a jump
STOPPED_S = 0.5  # without a new reading, after which /clock counts as stopped
_SHARE = 0.1  # of the newest step in the means


class SimulatedTime(NamedTuple):
    """State of the clock."""

    time: float  # s, on the bridge's own time line
    clock: float  # s, last reading of /clock; 0 before the first
    anchor: float  # s, time at that reading
    read_at: float  # s, monotonic clock at that reading
    step_s: float = 0.0  # mean of /clock between two readings
    wait_s: float = 1.0  # mean of the monotonic clock between two readings

    @property
    def offset(self) -> float:
        """What /clock is ahead of `time` [s]."""
        return self.clock - self.anchor


def start(monotonic: float) -> SimulatedTime:
    """Return the clock at a time of the monotonic clock [s], before the first reading."""
    return SimulatedTime(monotonic, 0.0, monotonic, monotonic)


def advance(state: SimulatedTime, monotonic: float, clock: float) -> SimulatedTime:
    """Return the clock at a time of the monotonic clock, given the newest reading of /clock."""
    if clock != state.clock:
        state = _read(state, monotonic, clock)
    elapsed = monotonic - state.read_at
    ahead = min(elapsed * state.step_s / state.wait_s, state.step_s)
    ahead += max(0.0, elapsed - STOPPED_S)
    return state._replace(time=max(state.time, state.anchor + ahead))


def _read(state: SimulatedTime, monotonic: float, clock: float) -> SimulatedTime:
    """Return the state after a new reading of /clock."""
    step, wait, anchor = clock - state.clock, monotonic - state.read_at, state.time
    known = state.clock > 0.0 and 0.0 < step <= JUMP_S
    if known and state.anchor + step + state.step_s >= state.time:
        anchor = state.anchor + step  # else time went on while /clock had stopped
    if known and wait < STOPPED_S:
        share = _SHARE if state.step_s else 1.0
        step_s = (1.0 - share) * state.step_s + share * step
        wait_s = (1.0 - share) * state.wait_s + share * wait
        state = state._replace(step_s=step_s, wait_s=max(wait_s, 1e-6))
    return state._replace(clock=clock, anchor=anchor, read_at=monotonic)
