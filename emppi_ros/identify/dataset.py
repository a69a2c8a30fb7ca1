"""
Recorded runs: signals of one clock, from tables (CSV, Parquet) or from bags (MCAP).

A table has a column `time_s` and columns such as `position/hinge [rad]`, `velocity/hinge [rad/s]`,
`command/motor [N m]` and `pose/block.x [m]`. Several files share one clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from emppi_ros.belief.prior_file import DataSource, hash_file
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify import bags, tables
from emppi_ros.identify.signals import Signal, check, unwrapped

FORCES = 'command', 'torque', 'effort'  # kinds of signals


@dataclass(frozen=True)
class Recording:
    """A recorded run."""

    signals: Mapping[tuple[str, str], Signal]  # by kind and name
    sources: tuple[DataSource, ...]
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
    return Recording(signals, tuple(hash_file(path) for path in files), tuple(notes))


def late(recording: Recording, lag_s: float) -> Recording:
    """Return a recording whose commands, torques and efforts count so much later."""
    signals = {
        key: signal._replace(time=signal.time + lag_s) if signal.kind in FORCES else signal
        for key, signal in recording.signals.items()
    }
    return replace(recording, signals=signals)
