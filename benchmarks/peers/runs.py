"""
Runs of planners on the tasks of other people, in worlds: cells, and their rows.

To add a task, add a line to PEER_TASKS; `emppi bench peers --tasks NAME` then offers it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
import functools
import hashlib
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.belief.estimators import EMPPI
from benchmarks.belief.runs import belief_digest
from benchmarks.paper.cells import ParameterEstimate, changed
from benchmarks.peers.planners import LEARNER, PEERS
from benchmarks.study import Computed, Run
from emppi_ros.core import config, paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import nominal_values
from emppi_ros.sim.true_parameters import draw_truth
from emppi_ros.tasks.task import Task, task_text

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
        code = belief_digest(EMPPI) if self.planner == LEARNER else ''
        return f'{settings_digest(self.text, PEERS[self.planner].has_own_settings)}-{code}'

    def __str__(self) -> str:
        """Return a description for messages."""
        return f'{self.task}, {self.world}, {self.planner}, seed {self.seed}'


@dataclass(frozen=True)
class PeerRow(PeerRun, Computed):
    """The result of one cell; rewards are means over physics steps, by the task's author."""

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


def sized_text(name: str, rollouts: int, threads: int, quick: bool) -> str:
    """Return the YAML with the rollouts shared by the models; ConfigError if they cannot be."""
    text = peer_text(name)
    models = config.parse(text, name)['planner']['models']
    if rollouts % models:
        raise ConfigError(
            f'--rollouts: found {rollouts}; expected a multiple of the {models} models of {name}'
        )
    size = {'rollouts': rollouts // models, 'threads': threads}
    return changed(text, {'planner': size, **({'duration_s': QUICK_S} if quick else {})})


PEER_TASKS = {  # by their names in Judo: tasks of ours with model and reward of another package
    'cartpole': 'judo_cartpole.yaml',
    'cylinder_push': 'judo_cylinder_push.yaml',
    'dm_cartpole': 'dm_cartpole.yaml',
}


def peer_text(name: str) -> str:
    """Return the YAML of a task of other people."""
    return task_text(str(paths.share() / 'config' / 'peers' / PEER_TASKS[name]))


class PeerWorld(NamedTuple):
    """True parameters (P,) of a task for a seed; all planners start from the model's own."""

    description: str
    truth: Callable[[Task, int], Array]


def _nominal(task: Task, _seed: int) -> Array:
    return nominal_values(task.parameters, task.model)


def _wrong(task: Task, _seed: int) -> Array:
    wrong = task.simulation.wrong
    missing = [parameter.name for parameter in task.parameters if parameter.name not in wrong]
    if missing:
        raise ConfigError(f'{task.name}: simulation: wrong: no value of {", ".join(missing)}')
    return np.array([wrong[parameter.name] for parameter in task.parameters])


def _drawn(task: Task, seed: int) -> Array:
    return draw_truth(task, seed).initial


WORLDS = {
    'true': PeerWorld('the parameters in the model file', _nominal),
    'wrong': PeerWorld('fixed other parameters (`simulation: wrong`)', _wrong),
    'unknown': PeerWorld('parameters drawn for each seed (`simulation: truth`)', _drawn),
}
