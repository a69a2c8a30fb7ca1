"""The results of cells: one frozen row each, and a table of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paper.rows import ParameterEstimate
from emppi_ros.calibration import row_store

TABLE = 'table.csv'
_COLUMNS = (
    'task', 'sweep', 'controller', 'seed', 'success', 'time_s', 'limit_s', 'fault', 'misfit_s',
    'missed', 'holds', 'compute_s', 'made_by', 'digest',
)  # fmt: skip
_ESTIMATE = ('true', 'mean', 'sd', 'low', 'high', 'inside')


@dataclass(frozen=True)
class RobustnessRow:
    """The result of one cell."""

    task: str
    sweep: str
    values: tuple[float, ...]  # along the axes of the sweep
    controller: str
    seed: int
    digest: str
    success: bool
    time_s: float  # until success, else the limit
    limit_s: float
    fault: str  # of the bridge, the first one; '' without
    misfit_s: float | None  # time at which a misfit is first shown; None: never
    parameters: Mapping[str, ParameterEstimate]  # at the end; empty without a belief
    compute_s: float
    made_by: str  # version and processor
    missed: float | None = None  # share of plans that were late; None in simulated time
    holds: int | None = None  # times that the bridge held the arm; None in simulated time

    @property
    def key(self) -> tuple[object, ...]:
        """The cell that this is the result of."""
        return self.task, self.sweep, self.values, self.controller, self.seed

    @property
    def inside(self) -> bool | None:
        """Whether all 90 % intervals that can be judged hold the truth; None without one."""
        judged = [one.inside for one in self.parameters.values() if one.inside is not None]
        return all(judged) if judged else None


def write_table(folder: Path, rows: Sequence[RobustnessRow]) -> list[Path]:
    """Write a table of runs and parameters; return its path."""
    header = (*_COLUMNS[:2], 'values', *_COLUMNS[2:], 'parameter', *_ESTIMATE)
    lines = (
        [row.task, row.sweep, ' '.join(f'{x:g}' for x in row.values)]
        + [getattr(row, name) for name in _COLUMNS[2:]]
        + [name, *(getattr(one, key) if one else '' for key in _ESTIMATE)]
        for row in rows
        for name, one in _estimates(row).items()
    )
    return row_store.write_tables(folder, {TABLE: (header, lines)})


def _estimates(row: RobustnessRow) -> Mapping[str, ParameterEstimate | None]:
    """Return the estimate of each line of a run, which has one without an estimate, too."""
    return row.parameters or {'': None}
