"""The results of cells: one frozen row each, and tables of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emppi_ros.calibration import row_store
from emppi_ros.calibration.belief_scores import ParameterScores

TABLE, SCORES = 'table.csv', 'scores.csv'
_CELL = ('task', 'world', 'estimator', 'seed')
_RESULT = (
    'success', 'time_s', 'limit_s', 'updates', 'update_ms', 'degenerate', 'misfit_s',
    'compute_s', 'made_by', 'digest',
)  # fmt: skip
_SCORE = (
    'inside_50', 'inside_90', 'mean_square_z', 'crps', 'log_score', 'found_s', 'recovered_s',
    'true', 'mean', 'sd', 'low', 'high', 'inside_end', 'unit',
)  # fmt: skip


@dataclass(frozen=True)
class ParameterSeries:
    """True value, mean and 90 % interval of one parameter over time."""

    true: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class BeliefRow:
    """The result of one cell; without a belief there are no scores."""

    task: str
    world: str
    estimator: str
    seed: int
    digest: str
    success: bool | None  # after the last change of the truth; None: it does not control
    time_s: float | None  # until success, from the last change on; else the time that was left
    limit_s: float
    updates: int
    update_ms: float | None  # processor time of an update, mean
    degenerate: int  # updates that no particle explained
    misfit_s: float | None  # time at which a misfit is first shown; None: never
    scores: Mapping[str, ParameterScores]
    times: tuple[float, ...]  # of the series [s]
    series: Mapping[str, ParameterSeries]
    compute_s: float
    made_by: str  # version and processor

    @property
    def key(self) -> tuple[str | int, ...]:
        """The cell that this is the result of."""
        return self.task, self.world, self.estimator, self.seed


def write_tables(folder: Path, rows: Sequence[BeliefRow]) -> list[Path]:
    """Write one table of runs, and one of runs and parameters; return both paths."""
    by_parameter = (
        [*_values(row, _CELL), name, *_values(scores, _SCORE)]
        for row in rows
        for name, scores in row.scores.items()
    )
    return row_store.write_tables(
        folder,
        {
            TABLE: ((*_CELL, *_RESULT), (_values(row, (*_CELL, *_RESULT)) for row in rows)),
            SCORES: ((*_CELL, 'parameter', *_SCORE), by_parameter),
        },
    )


def _values(item: BeliefRow | ParameterScores, names: Sequence[str]) -> list[object]:
    return [getattr(item, name) for name in names]
