"""The runs of the benchmark: each cell describes one completely."""

from collections.abc import Sequence
from dataclasses import dataclass, field
import functools
import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from benchmarks.belief.cells import code_digest
from benchmarks.belief.estimators import EMPPI
from benchmarks.options import check_names
from benchmarks.paper.cells import changed
from benchmarks.peers import judo
from benchmarks.peers.planners import LEARNER, PEERS
from benchmarks.peers.tasks import PEER_TASKS, WORLDS
from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError

SEEDS = range(10, 20)  # settings were chosen on seeds 0 to 3
ROLLOUTS, THREADS = 32, 1  # 32: Judo's own number for these tasks
QUICK_S, QUICK_SEEDS = 0.4, range(1)
_OURS = ('description', 'cost', 'belief')  # keys; of `planner` only the rate is left


@dataclass(frozen=True)
class PeerCell:
    """One run of a planner on a task in a world."""

    task: str
    world: str
    planner: str
    seed: int
    rollouts: int
    threads: int
    text: str = field(repr=False)  # the task's YAML

    @property
    def key(self) -> tuple[str, str, str, int, int, int]:
        """Identifies the cell."""
        return self.task, self.world, self.planner, self.seed, self.rollouts, self.threads

    @property
    def digest(self) -> str:
        """The digest of what is read of the task and, for a belief, of its code."""
        code = code_digest(EMPPI) if self.planner == LEARNER else ''
        return f'{settings_digest(self.text, PEERS[self.planner].has_own_settings)}-{code}'

    def __str__(self) -> str:
        """Return a description for messages."""
        return f'{self.task}, {self.world}, {self.planner}, seed {self.seed}'


class PeersRequest(NamedTuple):
    """The selection on the command line."""

    tasks: Sequence[str] = tuple(PEER_TASKS)
    worlds: Sequence[str] = tuple(WORLDS)
    planners: Sequence[str] = tuple(PEERS)
    seeds: Sequence[int] = SEEDS
    rollouts: int = ROLLOUTS
    threads: int = THREADS
    quick: bool = False


def make_cells(request: PeersRequest) -> list[PeerCell]:
    """
    Return all cells of a request, seed by seed: an unfinished benchmark compares too.

    ConfigError if a name is unknown, or the rollouts cannot be shared by a task's models;
    BenchError if a package is missing.
    """
    check_names('--tasks', 'task', request.tasks, PEER_TASKS)
    check_names('--worlds', 'world', request.worlds, WORLDS)
    check_names('--planners', 'planner', request.planners, PEERS)
    judo.version()  # the models of the tasks are in it
    texts = {name: _text(name, request) for name in request.tasks}
    size = request.rollouts, request.threads
    return [
        PeerCell(task, world, planner, seed, *size, texts[task])
        for seed in request.seeds
        for task in request.tasks
        for world in request.worlds
        for planner in request.planners
        if task in (PEERS[planner].tasks or request.tasks)
    ]


@functools.cache  # many cells share a task
def settings_digest(text: str, without_ours: bool) -> str:
    """
    Return the SHA-256 of the keys and values of a task and its robot; their paths do not count.

    `without_ours` leaves out what only planners with the task's settings read. The monitors of the
    bridge never count: this loop has none.
    """
    data = config.parse(text, 'task')
    data['robot'] = config.load(Path(data['robot']))
    data['simulation'] = {k: v for k, v in data['simulation'].items() if k != 'residual_monitor'}
    if without_ours:
        data = {name: value for name, value in data.items() if name not in _OURS}
        data['planner'] = {'rate_hz': data['planner']['rate_hz']}
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()


def _text(name: str, request: PeersRequest) -> str:
    """Return the task's YAML with the rollouts shared by its models."""
    text = PEER_TASKS[name].text
    models = config.parse(text, name)['planner']['models']
    if request.rollouts % models:
        raise ConfigError(
            f'--rollouts: found {request.rollouts}; expected a multiple of the {models} models of '
            f'{name}'
        )
    size = {'rollouts': request.rollouts // models, 'threads': request.threads}
    changes = {'planner': size, **({'duration_s': QUICK_S} if request.quick else {})}
    return changed(text, changes)
