"""Runs of planners on tasks in worlds: cells, and their rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
import functools
import hashlib
import json
from pathlib import Path

from benchmarks.belief.estimators import EMPPI
from benchmarks.belief.runs import code_digest
from benchmarks.paper.cells import changed
from benchmarks.paper.rows import ParameterEstimate
from benchmarks.peers.planners import LEARNER, PEERS
from benchmarks.peers.tasks import PEER_TASKS
from benchmarks.study import Run
from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError

QUICK_S = 0.4
_OURS = ('description', 'cost', 'belief')  # keys; of `planner` only the rate is left


@dataclass(frozen=True)
class PeerRun(Run):
    """A planner on a task in a world."""

    task: str
    world: str
    planner: str
    seed: int
    rollouts: int
    threads: int


@dataclass(frozen=True)
class PeerCell(PeerRun):
    """A run to compute."""

    text: str = field(repr=False)  # the task's YAML

    @property
    def digest(self) -> str:
        """The digest of what is read of the task and, for a belief, of its code."""
        code = code_digest(EMPPI) if self.planner == LEARNER else ''
        return f'{settings_digest(self.text, PEERS[self.planner].has_own_settings)}-{code}'

    def __str__(self) -> str:
        """Return a description for messages."""
        return f'{self.task}, {self.world}, {self.planner}, seed {self.seed}'


@dataclass(frozen=True)
class PeerRow(PeerRun):
    """The result of one cell; rewards are means over physics steps, by the task's author."""

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


def task_text(name: str, rollouts: int, threads: int, quick: bool) -> str:
    """Return the YAML with the rollouts shared by the models; ConfigError if they cannot be."""
    text = PEER_TASKS[name].text
    models = config.parse(text, name)['planner']['models']
    if rollouts % models:
        raise ConfigError(
            f'--rollouts: found {rollouts}; expected a multiple of the {models} models of {name}'
        )
    size = {'rollouts': rollouts // models, 'threads': threads}
    return changed(text, {'planner': size, **({'duration_s': QUICK_S} if quick else {})})
