"""
Recorded runs: signals of one clock, from tables (CSV, Parquet) or from bags (MCAP).

A table has a column `time_s` and columns such as `position/hinge [rad]`, `velocity/hinge [rad/s]`,
`command/motor [N m]` and `pose/block.x [m]`. Several files share one clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy

from emppi_ros.belief.file import Source, digest
from emppi_ros.errors import IdentificationError
from emppi_ros.identify import bags, tables
from emppi_ros.identify.signals import Signal, check, unwrapped

Array = npt.NDArray[np.float64]
FORCES = 'command', 'torque', 'effort'  # kinds of signals
_ORDER = 2  # of the filter
_ENDS = 2.0  # periods of the cutoff, in which the filter forgets
_QUIET = 0.1  # of a noise's variance that smoothing must take out, for it to be read
_LEAST = 1e-4  # noise, of the standard deviation of what was measured: data may have none


@dataclass(frozen=True)
class Recording:
    """A recorded run."""

    signals: Mapping[tuple[str, str], Signal]  # by kind and name
    sources: tuple[Source, ...]
    notes: tuple[str, ...] = ()  # what of the files it leaves out, in words

    def named(self, kind: str) -> list[str]:
        """Return of what there is a kind of signal."""
        return [of for found, of in self.signals if found == kind]


def read(paths: Sequence[Path]) -> Recording:
    """Return the recording in files; IdentificationError names the file and column or topic."""
    are_bags = [bags.is_bag(path) for path in paths]
    if all(are_bags):
        found, files, notes = bags.read(paths)
    elif any(are_bags):
        bag, table = (paths[are_bags.index(is_bag)] for is_bag in (True, False))
        raise IdentificationError(
            f'{bag} is a bag, and {table} is none: they do not share a clock: give bags alone'
        )
    else:
        found = [signal for path in paths for signal in tables.read(path)]
        files, notes = list(paths), []
    signals: dict[tuple[str, str], Signal] = {}
    for signal in found:
        if (signal.kind, signal.of) in signals:
            other = signals[signal.kind, signal.of].where
            raise IdentificationError(f'{signal.where}: is in {other} already')
        try:
            checked = check(signal)
        except IdentificationError as error:
            raise IdentificationError('; '.join([str(error), *notes])) from None
        whole = signals[signal.kind, signal.of] = unwrapped(checked)
        if whole is not checked:
            notes = [*notes, f'{signal.where}: jumps by a turn were taken out']
    return Recording(signals, tuple(digest(path) for path in files), tuple(notes))


def late(recording: Recording, lag_s: float) -> Recording:
    """Return a recording whose commands, torques and efforts count so much later."""
    signals = {
        key: signal._replace(time=signal.time + lag_s) if signal.kind in FORCES else signal
        for key, signal in recording.signals.items()
    }
    return replace(recording, signals=signals)


def smooth(values: Array, rate_hz: float, cutoff_hz: float) -> Array:
    """
    Return values (n, ...) through a low-pass filter without lag.

    It is a Butterworth filter of second order, forward and then backward. Where the cutoff is not
    below half the rate there is nothing to take out.
    """
    if cutoff_hz >= 0.5 * rate_hz:
        return values.copy()
    b, a = scipy.signal.butter(_ORDER, cutoff_hz, fs=rate_hz)
    return scipy.signal.filtfilt(b, a, values, axis=0)


def noise(signal: Signal, cutoff_hz: float) -> float | None:
    """
    Return the standard deviation that smoothing takes out, in proportion to white noise.

    The ends do not count where there is more: beyond them the filter guesses how a motion goes
    on. None where samples come too seldom to tell noise from motion.
    """
    rate = 1.0 / signal.period
    blip = np.zeros(len(signal.values))
    blip[len(blip) // 2] = 1.0
    share = float(np.sum((blip - smooth(blip, rate, cutoff_hz)) ** 2))
    if share < _QUIET:
        return None
    left = signal.values - smooth(signal.values, rate, cutoff_hz)
    end = math.ceil(_ENDS * rate / cutoff_hz)
    taken = np.std(left[end:-end] if len(left) > 4 * end else left) / np.sqrt(share)
    return max(float(taken), _LEAST * float(np.std(signal.values)))
