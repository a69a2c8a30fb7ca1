"""The runs of the benchmark: each cell describes one completely."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.belief.cells import code_digest
from benchmarks.belief.estimators import EMPPI
from benchmarks.belief.worlds import in_world
from benchmarks.options import check_names
from benchmarks.paper.cells import LEARNER, ORACLE, changed, task_digest
from benchmarks.robustness.sweeps import SWEEPS
from emppi_ros.app.closed_loop import CONTROLLERS
from emppi_ros.core.errors import ConfigError
from emppi_ros.tasks.task import parse_task, task_text

TASKS = ('panda_push',)
SEEDS = 10
QUICK_S, QUICK_SEEDS = 0.5, 1


@dataclass(frozen=True)
class RobustnessCell:
    """One run of a controller at one point of a sweep."""

    task: str
    sweep: str
    values: tuple[float, ...]  # along the axes of the sweep
    controller: str
    seed: int
    text: str = field(repr=False)  # the task's YAML at this point

    @property
    def key(self) -> tuple[object, ...]:
        """Identifies the cell."""
        return self.task, self.sweep, self.values, self.controller, self.seed

    @property
    def digest(self) -> str:
        """The digest of the task and, for a belief, of its code: others are outdated."""
        code = code_digest(EMPPI) if self.controller == LEARNER else ''
        return f'{task_digest(self.text)}-{code}'

    def __str__(self) -> str:
        """Return a description for messages."""
        values = ', '.join(f'{value:g}' for value in self.values)
        return f'{self.task}, {self.sweep} {values}, {self.controller}, seed {self.seed}'


class RobustnessRequest(NamedTuple):
    """The selection on the command line."""

    tasks: Sequence[str] = TASKS
    sweeps: Sequence[str] = tuple(SWEEPS)
    controllers: Sequence[str] = (LEARNER, ORACLE)
    seeds: Sequence[int] = range(SEEDS)
    quick: bool = False


def make_cells(request: RobustnessRequest) -> tuple[list[RobustnessCell], list[str]]:
    """
    Return all cells of a request, seed by seed, and one line for each sweep that is left out.

    A sweep is left out of a task to which it does not apply. ConfigError if a name is unknown or
    a task invalid.
    """
    check_names('--sweeps', 'sweep', request.sweeps, SWEEPS)
    check_names('--controllers', 'controller', request.controllers, CONTROLLERS)
    cells: list[RobustnessCell] = []
    skipped = []
    for source in request.tasks:
        text = task_text(source)
        task = parse_task(text, source).name
        if request.quick:
            text = changed(text, {'duration_s': QUICK_S})
        for sweep in request.sweeps:
            try:
                points = list(_texts(source, text, sweep))
                if request.quick and SWEEPS[sweep].real_time:
                    points = points[:1]
            except ConfigError as error:
                skipped.append(f'{task}, {sweep}: {error}')
                continue
            cells += [
                RobustnessCell(task, sweep, values, controller, seed, own)
                for seed in request.seeds
                for values, own in points
                for controller in request.controllers
                if controller == LEARNER or not SWEEPS[sweep].real_time
            ]
    return sorted(cells, key=lambda cell: cell.seed), skipped  # stable: tasks keep their order


def _texts(source: str, text: str, sweep: str) -> Iterator[tuple[tuple[float, ...], str]]:
    """Yield the values and the task's YAML of each point; ConfigError if it is invalid."""
    for point in SWEEPS[sweep].points(parse_task(text, source)):
        own = in_world(text, point.world)
        parse_task(own, source)
        yield point.values, own
