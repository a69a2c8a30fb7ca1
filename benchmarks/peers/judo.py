"""
Tasks and optimizers of Judo (PyPI `judo-rai`): the only module that imports it.

Judo's own settings of each task are used, except for the number of rollouts and of threads. What
it computes for display, the traces of the best rollouts, is left out of its plans.

Tasks of dm_control's suite (PyPI `dm-control`) are tasks of Judo, too, so that its optimizers plan
them: with dm_control's model and reward function, but neither its simulation nor its loop.
"""

import importlib
import importlib.metadata
from typing import Any

import numpy as np

from benchmarks.peers.planners import PlannerSettings, load
from emppi_ros.calibration.planner_overhead import Rollouts
from emppi_ros.core import paths
from emppi_ros.core.arrays import Array
from emppi_ros.model.ensemble import State
from emppi_ros.tasks.task import Task

CARTPOLE = 'dm_cartpole'  # its name in Judo
SETTINGS_OF = {CARTPOLE: 'cartpole'}  # the task whose settings Judo's optimizers have there


def version() -> str:
    """Return name and version of the package; BenchError if it is not installed."""
    load('judo')
    return f'judo-rai {importlib.metadata.version("judo-rai")}'


class JudoTask:
    """A task of Judo: its start states and its reward."""

    def __init__(self, name: str, seed: int = 0) -> None:
        """Create the task by its name in Judo, and draw its start state."""
        # in place of Judo's download: the tasks of this benchmark have no meshes
        vars(load('judo.tasks.base')).update(download_and_extract_meshes=lambda *_, **__: None)
        if name in SETTINGS_OF:
            _register()
        tasks = load('judo.tasks').get_registered_tasks()
        np.random.seed(seed)  # noqa: NPY002  # Judo's only source of randomness
        self.task = tasks[name][0]()

    @property
    def start(self) -> State:
        """The start state that was drawn."""
        return State(self.task.data.qpos.copy(), self.task.data.qvel.copy())

    def rewards(self, states: Array, controls: Array) -> Array:
        """Return the reward (n,) of states (n, nq + nv) with controls (n, nu)."""
        sensors = np.zeros((len(states), 1, self.task.model.nsensordata))
        return np.asarray(self.task.reward(states[:, None], sensors, controls[:, None]))


class _FewThreads:
    """Judo takes a thread, and data, for each rollout; this takes the given threads."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def rollout(self, models: Any, datas: Any, states: Array, controls: Array) -> Any:
        return self._pool.rollout(models, datas[: self._pool.nthread], states, controls)


class JudoPlanner:
    """One of Judo's optimizers under its controller."""

    def __init__(
        self,
        _task: Task,
        judo_task: str,
        settings: PlannerSettings,
        optimizer: str,
        **changes: float,
    ) -> None:
        """Create the controller with Judo's settings of the task, and `changes` of them."""
        controllers, optimizers = load('judo.controller.controller'), load('judo.optimizers')
        rollout = importlib.import_module('mujoco.rollout')
        task = JudoTask(judo_task, settings.seed).task
        kind, config_kind = optimizers.get_registered_optimizers()[optimizer]
        config = config_kind()
        settings_of = SETTINGS_OF.get(judo_task, judo_task)
        config.set_override(settings_of)
        config.num_rollouts = settings.rollouts
        for name, value in changes.items():
            setattr(config, name, value)
        controller_config = controllers.ControllerConfig()
        controller_config.set_override(settings_of)
        self._controller = controllers.Controller(controller_config, task, kind(config, task.nu))
        self._controller.update_traces = lambda: None
        backend = self._controller.rollout_backend
        backend._rollout_obj.close()
        backend._rollout_obj = _FewThreads(rollout.Rollout(nthread=settings.threads))

    def observe(self, time: float, state: State) -> None:
        """Do nothing: Judo does not learn."""

    def plan(self, time: float, state: State) -> None:
        """Plan once from a state."""
        self._controller.time = time
        self._controller.current_state = np.concatenate(state)
        self._controller.update_action()

    def control(self, time: float) -> Array:
        """Return the control (nu,) of the physics step that starts at a time [s]."""
        return np.asarray(self._controller.action(time))

    @property
    def rollouts(self) -> Rollouts:
        """The rollouts of the last plan."""
        state, nq = self._controller.current_state, self._controller.model.nq
        controls = self._controller.rollout_controls[None]
        return Rollouts(State(state[:nq], state[nq:]), controls)


def _register() -> None:
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
