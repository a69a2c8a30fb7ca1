"""The results of cells: one frozen row each, and a table of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paper.rows import ParameterEstimate
from emppi_ros.calibration import row_store

TABLE = 'table.csv'
_COLUMNS = (
    'task', 'world', 'planner', 'seed', 'rollouts', 'threads', 'reward', 'final_reward', 'success',
    'time_s', 'limit_s', 'plan_ms', 'stepping_ms', 'ratio', 'own_ratio', 'observe_ms', 'compute_s',
    'made_by', 'digest',
)  # fmt: skip


@dataclass(frozen=True)
class PeerRow:
    """The result of one cell; rewards are means over physics steps, by the task's author."""

    task: str
    world: str
    planner: str
    seed: int
    rollouts: int
    threads: int
    digest: str
    reward: float  # of the run
    final_reward: float  # of its last part
    rewards: tuple[float, ...]  # of equal parts of the run
    success: bool
    time_s: float  # until success, else the limit
    limit_s: float
    plan_ms: float  # medians
    stepping_ms: float
    ratio: float
    observe_ms: float
    parameters: Mapping[str, ParameterEstimate]  # at the end; empty without a belief
    compute_s: float
    made_by: str  # version and processor
    own_ratio: float | None = None  # the same in a physics engine of the planner's own

    @property
    def key(self) -> tuple[object, ...]:
        """The cell that this is the result of."""
        return self.task, self.world, self.planner, self.seed, self.rollouts, self.threads


def write_table(folder: Path, rows: Sequence[PeerRow]) -> list[Path]:
    """Write a table of the runs; return its path."""
    lines = ([getattr(row, name) for name in _COLUMNS] for row in rows)
    return row_store.write_tables(folder, {TABLE: (_COLUMNS, lines)})
