"""
The tasks of other people, and the worlds that they are simulated in.

To add a task, add a line to PEER_TASKS; `emppi bench peers --tasks NAME` then offers it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from emppi_ros.core import paths
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.parameters import nominal_values
from emppi_ros.sim.true_parameters import draw_truth
from emppi_ros.tasks.task import Task, task_text


class PeerTask(NamedTuple):
    """A task of ours with the model and the reward of another package."""

    file: str  # in config/peers
    judo: str  # its name in Judo

    @property
    def text(self) -> str:
        """The task's YAML."""
        return task_text(str(paths.share() / 'config' / 'peers' / self.file))


PEER_TASKS = {
    'cartpole': PeerTask('judo_cartpole.yaml', 'cartpole'),
    'cylinder_push': PeerTask('judo_cylinder_push.yaml', 'cylinder_push'),
    'dm_cartpole': PeerTask('dm_cartpole.yaml', 'dm_cartpole'),
}


class PeerWorld(NamedTuple):
    """True parameters (P,) of a task for a seed; all planners start from the model's own."""

    description: str
    truth: Callable[[Task, int], Array]


def _nominal(task: Task, _seed: int) -> Array:
    return nominal_values(task.parameters, task.model)


def _wrong(task: Task, _seed: int) -> Array:
    wrong = task.simulation.wrong
    missing = [one.name for one in task.parameters if one.name not in wrong]
    if missing:
        raise ConfigError(f'{task.name}: simulation: wrong: no value of {", ".join(missing)}')
    return np.array([wrong[one.name] for one in task.parameters])


def _drawn(task: Task, seed: int) -> Array:
    return draw_truth(task, seed).initial


WORLDS = {
    'true': PeerWorld('the parameters in the model file', _nominal),
    'wrong': PeerWorld('fixed other parameters (`simulation: wrong`)', _wrong),
    'unknown': PeerWorld('parameters drawn for each seed (`simulation: truth`)', _drawn),
}
