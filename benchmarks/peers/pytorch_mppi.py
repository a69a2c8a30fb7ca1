"""
The planner of `pytorch-mppi` (PyPI): the only module that imports it, and PyTorch.

Its dynamics are the same physics batch as that of all others, and its cost is minus the reward of
the task. It asks for one step of all rollouts at a time; a step is the period of planning, since
it shifts its plan by one step per plan. Its noise is white over these steps, and differs in size
from that of planners with longer steps or splines.
"""

from typing import Any

import numpy as np

from benchmarks.peers.judo import JudoTask
from benchmarks.peers.planners import PlannerSettings, load
from emppi_ros.calibration.planner_overhead import Rollouts
from emppi_ros.core.arrays import Array
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.tasks.task import Task

# standard deviation of the noise, and temperature, by name in Judo: the best on seeds 0 to 3
SETTINGS = {'cartpole': (3.0, 1.0), 'cylinder_push': (1.0, 0.1), 'dm_cartpole': (1.0, 0.3)}


class TorchPlanner:
    """`pytorch_mppi.MPPI` with the model in the scene."""

    def __init__(self, task: Task, judo_task: str, settings: PlannerSettings) -> None:
        """Create the planner."""
        noise_sd, temperature = SETTINGS[judo_task]
        self._torch = torch = load('torch')
        kind = load('pytorch_mppi').MPPI
        torch.manual_seed(settings.seed)
        torch.set_num_threads(settings.threads)
        model, config = task.model, task.planner
        self._ensemble = Ensemble(model, (), 1, settings.rollouts, settings.threads)
        self._reference = JudoTask(judo_task, settings.seed)
        steps = max(1, round(1.0 / config.rate_hz / model.opt.timestep))
        self._substeps = steps
        self._horizon = round((config.horizon * config.substeps + 1) / steps)
        self._controls = np.zeros((settings.rollouts, self._horizon, model.nu))
        self._start: State | None = None
        low, high = (torch.tensor(bound) for bound in model.actuator_ctrlrange.T)
        self._planner = kind(
            self._step, self._cost, model.nq + model.nv,
            torch.eye(model.nu, dtype=torch.double) * noise_sd**2,
            num_samples=settings.rollouts, horizon=self._horizon, u_min=low, u_max=high,
            lambda_=temperature, step_dependent_dynamics=True,
            U_init=torch.zeros((self._horizon, model.nu), dtype=torch.double),
        )  # fmt: skip
        self._action = np.zeros(model.nu)

    def _step(self, _states: Any, controls: Any, step: int) -> Any:
        """Return the states (K, nq + nv) after a step; the batch keeps them from step to step."""
        batch = self._ensemble.batch
        if step == 0:
            assert self._start is not None
            self._ensemble.set_state(self._start)
        self._controls[:, step] = controls.numpy()
        held = np.repeat(self._controls[:, step : step + 1], self._substeps, axis=1)
        fields = batch.rollout(self._substeps, held, record=('qpos', 'qvel'))
        states = np.concatenate([fields['qpos'], fields['qvel']], axis=-1)
        rewards = self._reference.rewards(
            states.reshape(-1, states.shape[-1]), held.reshape(-1, held.shape[-1])
        )
        self._costs = -rewards.reshape(len(states), -1).sum(axis=-1)
        return self._torch.from_numpy(states[:, -1].copy())

    def _cost(self, _states: Any, _controls: Any, _step: int) -> Any:
        """Return the cost (K,) of the step just simulated: the sum over its physics steps."""
        return self._torch.from_numpy(self._costs)

    def observe(self, time: float, state: State) -> None:
        """Do nothing: this planner does not learn."""

    def plan(self, time: float, state: State) -> None:
        """Plan once from a state."""
        self._start = state
        self._action = self._planner.command(np.concatenate(state)).numpy()

    def control(self, time: float) -> Array:
        """Return the control (nu,), which is constant until the next plan."""
        return self._action

    @property
    def rollouts(self) -> Rollouts:
        """The rollouts of the last plan."""
        assert self._start is not None
        return Rollouts(self._start, np.repeat(self._controls, self._substeps, axis=1)[None])
