"""The runs of the benchmark: each cell describes one completely."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
import functools
import hashlib
import importlib.util
from pathlib import Path
from typing import NamedTuple

from benchmarks.belief import worlds
from benchmarks.belief.estimators import EMPPI, ESTIMATORS, FROZEN, EstimatorKind
from benchmarks.options import check_names
from benchmarks.paper.cells import changed, task_digest
from emppi_ros.core import paths
from emppi_ros.core.errors import BenchError
from emppi_ros.tasks.task import parse_task, task_text

TASKS = ('fr3_follow', 'fr3_pickup', 'cartpole_swingup')
SEEDS = 20
QUICK_S, QUICK_SEEDS = 1.5, 1
_CODE = (  # of all beliefs
    'emppi_ros/belief',
    'emppi_ros/priors',
    'emppi_ros/calibration/belief_scores.py',
    'emppi_ros/calibration/scores.py',
    'benchmarks/belief/compute.py',
    'benchmarks/belief/estimators.py',
)
_DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef


@dataclass(frozen=True)
class BeliefCell:
    """One estimator in one world, in one run."""

    task: str
    world: str
    estimator: str
    seed: int
    text: str = field(repr=False)  # the task's YAML in this world, with the estimator's changes

    @property
    def key(self) -> tuple[str | int, ...]:
        """Identifies the cell."""
        return self.task, self.world, self.estimator, self.seed

    @property
    def digest(self) -> str:
        """The digest of the task and of the estimator's code: others are outdated."""
        return f'{task_digest(self.text)}-{code_digest(self.estimator)}'

    @property
    def kind(self) -> EstimatorKind:
        """The estimator's line in the registry."""
        return ESTIMATORS[self.estimator]

    @property
    def run(self) -> tuple[str, ...]:
        """Identifies the run: estimators that only observe share that of the particle filter."""
        return (
            self.task,
            self.world,
            str(self.seed),
            self.estimator if self.kind.in_loop else EMPPI,
        )

    def __str__(self) -> str:
        """Return a description for messages."""
        return f'{self.task}, {self.world}, {self.estimator}, seed {self.seed}'


class BeliefRequest(NamedTuple):
    """The selection on the command line."""

    tasks: Sequence[str] = TASKS
    worlds: Sequence[str] = worlds.NAMES
    estimators: Sequence[str] = (EMPPI, FROZEN)
    seeds: Sequence[int] = range(SEEDS)
    quick: bool = False


@functools.cache
def code_digest(estimator: str) -> str:
    """
    Return a digest of the code that an estimator's scores depend on; '' without a belief.

    Comments and docstrings do not count.
    """
    kind = ESTIMATORS[estimator]
    if not kind.believes:
        return ''
    files = [path for name in _CODE for path in _files(paths.PACKAGE.parent / name)]
    if kind.made_by:
        files.append(_origin(kind.made_by.partition(':')[0]))
    return hashlib.sha256('\n'.join(map(_code, files)).encode()).hexdigest()[:16]


def _origin(module: str) -> Path:
    """Return the file of a module, without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise BenchError(f'{module}: found no such module, expected the file of an estimator')
    return Path(spec.origin)


def _files(path: Path) -> Iterable[Path]:
    return sorted(path.glob('*.py')) if path.is_dir() else [path]


def _code(path: Path) -> str:
    """Return the syntax tree of a file without docstrings, as text."""
    tree = ast.parse(path.read_text(encoding='utf-8'))
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


def make_cells(request: BeliefRequest) -> list[BeliefCell]:
    """
    Return all cells of a request, seed by seed: an unfinished benchmark compares too.

    Worlds that a task does not have, or that cannot be simulated here, are left out: `skipped`
    has the reasons. ConfigError if a name is unknown or a task invalid.
    """
    check_names('--estimators', 'estimator', request.estimators, ESTIMATORS)
    check_names('--worlds', 'world', request.worlds, worlds.NAMES)
    cells: list[BeliefCell] = []
    for name in request.tasks:
        task = parse_task(task_text(name), name)
        for world, text in _texts(request, name, task.name):
            parse_task(text, f'{name} in world {world}')
            for estimator in request.estimators:
                changes = ESTIMATORS[estimator].changes
                own = changed(text, changes) if changes else text
                cells += [
                    BeliefCell(task.name, world, estimator, seed, own) for seed in request.seeds
                ]
    return sorted(cells, key=lambda cell: cell.seed)  # stable: tasks keep their order


def _texts(request: BeliefRequest, source: str, task: str) -> Iterator[tuple[str, str]]:
    """Yield each wanted world of a task, and the task's YAML in it."""
    of_task = worlds.worlds_of(task)
    for world in request.worlds:
        if world in of_task and not worlds.unavailable(world):
            text = worlds.in_world(task_text(source), of_task[world])
            yield world, changed(text, {'duration_s': QUICK_S}) if request.quick else text


def skipped(request: BeliefRequest) -> list[str]:
    """Return one line for each world of a task that is left out, with the reason."""
    lines = []
    for name in request.tasks:
        task = parse_task(task_text(name), name).name
        of_task = worlds.worlds_of(task)
        for world in request.worlds:
            reason = worlds.unavailable(world) if world in of_task else 'not defined for this task'
            if reason:
                lines.append(f'{task}, {world}: {reason}')
    return lines
