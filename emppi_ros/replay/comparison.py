"""What a replay said beside what was recorded: bit by bit, and where they first part."""

from collections import defaultdict, deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Comparison:
    """Compares tables (rows, columns) of float64 by their stamps [ns]."""

    def __init__(self, what: str, row: str) -> None:
        """Name what is compared (a plan) and a row of it (point), for reports."""
        self._what, self._row = what, row
        self._recorded: dict[int, deque[Array]] = defaultdict(deque)
        self.recorded = self.replayed = self.identical = self.absent = 0
        self.first = ''  # where they first part, in words
        self._span: tuple[int, int] | None = None  # of replayed stamps
        self._origin = 0

    def record(self, stamp_ns: int, table: Array) -> None:
        """Take what was recorded."""
        self._origin = self._origin or stamp_ns
        self._recorded[stamp_ns].append(table)
        self.recorded += 1

    def replay(self, stamp_ns: int, table: Array, columns: Sequence[str]) -> None:
        """Take what the replay said, with its columns' names; all recorded was taken before."""
        low, high = self._span or (stamp_ns, stamp_ns)
        self._span = min(low, stamp_ns), max(high, stamp_ns)
        self.replayed += 1
        if not self._recorded[stamp_ns]:
            self.absent += 1
            return
        recorded = self._recorded[stamp_ns].popleft()
        if recorded.shape == table.shape and recorded.tobytes() == table.tobytes():
            self.identical += 1
        elif not self.first:
            self.first = self._part(stamp_ns, recorded, table, columns)

    @property
    def different(self) -> int:
        """How many of those in both differ in some bit."""
        return self.replayed - self.absent - self.identical

    @property
    def unexplained(self) -> list[int]:
        """Stamps of what was recorded between what was replayed, and was not said again."""
        low, high = self._span or (1, 0)
        return sorted(s for s, left in self._recorded.items() if left and low <= s <= high)

    @property
    def outside(self) -> int:
        """How many were recorded before or after all that was replayed."""
        left = sum(map(len, self._recorded.values()))
        return left - len(self.unexplained)

    def _part(self, stamp_ns: int, recorded: Array, table: Array, columns: Sequence[str]) -> str:
        """Return in words where two tables differ first."""
        seconds = (stamp_ns - self._origin) * 1e-9
        when = f'{self._what} {self.replayed} of the replay, {seconds:.3f} s after the first'
        if recorded.shape != table.shape:
            return f'{when}: recorded {recorded.shape}, replayed {table.shape} (rows, columns)'
        bits = recorded.view(np.uint64) != table.view(np.uint64)
        row, column = (int(i[0]) for i in np.nonzero(bits))
        a, b = float(recorded[row, column]), float(table[row, column])
        return (
            f'{when}: {self._row} {row}, {columns[column]}: recorded {a!r}, replayed {b!r} '
            f'({int(bits.sum())} of {bits.size} values differ, by at most '
            f'{float(np.max(np.abs(recorded - table))):.3g})'
        )
