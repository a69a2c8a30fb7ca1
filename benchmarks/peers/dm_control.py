"""
Tasks of dm_control's suite (PyPI `dm-control`) as tasks of Judo, so that its optimizers plan them.

Model and reward function are those of dm_control; it runs neither its simulation nor its loop.
"""

from typing import Any

import numpy as np

from benchmarks.peers.optional import load
from emppi_ros.core import paths
from emppi_ros.core.arrays import Array

CARTPOLE = 'dm_cartpole'  # its name in Judo
SETTINGS_OF = {CARTPOLE: 'cartpole'}  # the task whose settings Judo's optimizers have there


def register() -> None:
    """Register the tasks in Judo."""
    tasks = load('judo.tasks')
    if CARTPOLE in tasks.get_registered_tasks():
        return
    base = load('judo.tasks.base')
    path = str(paths.find_scene('package://dm_control/suite/cartpole.xml').path)

    class Swingup(base.Task):  # type: ignore[misc, name-defined]  # known at run time only
        name, config_t = CARTPOLE, base.TaskConfig

        def __init__(self) -> None:
            super().__init__(model_path=path)
            self.reset()

        def reward(
            self, states: Array, sensors: Array, controls: Array, metadata: Any = None
        ) -> Array:
            return np.asarray(swingup_reward(states, controls).sum(axis=-1))

        def reset(self) -> None:
            draw = np.random.standard_normal(4)  # noqa: NPY002  # Judo's source of randomness
            self.data.qpos[:] = np.array([0.0, np.pi]) + 0.01 * draw[:2]
            self.data.qvel[:] = 0.01 * draw[2:]

    tasks.register_task(CARTPOLE, Swingup, base.TaskConfig)


def swingup_reward(states: Array, controls: Array) -> Array:
    """Return the smooth reward of `cartpole.swingup` (...,) for states and controls (..., n)."""
    tolerance = load('dm_control.utils.rewards').tolerance
    upright = (np.cos(states[..., 1]) + 1.0) / 2.0
    centred = (1.0 + tolerance(states[..., 0], margin=2)) / 2.0
    effort = tolerance(controls[..., 0], margin=1, value_at_margin=0, sigmoid='quadratic')
    slow = (1.0 + tolerance(states[..., 3], margin=5)) / 2.0
    return np.asarray(upright * (4.0 + effort) / 5.0 * slow * centred)
