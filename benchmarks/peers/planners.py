"""
The planners that are compared, behind one interface.

To add one, add a line to PEERS; `emppi bench peers --planners NAME` then offers it.
"""

from collections.abc import Callable
import functools
import importlib
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.calibration.planner_overhead import RecordedPlanner, Rollouts
from emppi_ros.core.arrays import Array
from emppi_ros.model.ensemble import State
from emppi_ros.model.parameters import nominal_values
from emppi_ros.priors import particles
from emppi_ros.robots.plan import Plan
from emppi_ros.tasks.task import Task

_AT_REST_S = -1.0  # before a run no command acts


class PlannerSettings(NamedTuple):
    """What all planners have in common."""

    rollouts: int
    threads: int
    seed: int


class ComparedPlanner(Protocol):
    """A planner in a closed loop: observe, plan, then control until the next plan."""

    def observe(self, time: float, state: State) -> None:
        """Learn from the state at a time [s]."""

    def plan(self, time: float, state: State) -> None:
        """Plan once from a state at a time [s]; this is what is timed."""

    def control(self, time: float) -> Array:
        """Return the control (nu,) of the physics step that starts at a time [s]."""
        ...

    @property
    def rollouts(self) -> Rollouts:
        """The rollouts of the last plan."""
        ...


@runtime_checkable
class SteppingPlanner(Protocol):
    """A planner with a physics engine of its own."""

    def stepping_s(self, clock: Callable[[], float]) -> float:
        """Return the time of only stepping the rollouts of the last plan in it [s]."""
        ...


class EnsemblePlanner:
    """The planner of this package: with the model in the scene, or with a belief that learns."""

    def __init__(self, learns: bool, task: Task, settings: PlannerSettings) -> None:
        """Create planner and belief; `settings` were set in the task."""
        self.task, models = task, None if learns else 1
        self.planner = RecordedPlanner(task, settings.seed, models)
        self.belief = BeliefSession(task, settings.seed) if learns else None
        nominal = nominal_values(task.parameters, task.model)[None]
        first = self.belief.filter.belief if self.belief else particles.uniform(nominal)
        self.planner.set_belief(first)
        self.planner.add_command(_AT_REST_S, np.zeros(len(task.robot.commanded)))
        self._plan: Plan | None = None

    def observe(self, time: float, state: State) -> None:
        """Update the belief, if there is one, with the state of the last call."""
        if self.belief is None:
            return
        joints = self.task.map
        self.belief.add_joints(time, state.qpos[joints.qpos], state.qvel[joints.qvel])
        if updates := self.belief.update():
            self.planner.set_belief(updates[-1].belief)

    def plan(self, time: float, state: State) -> None:
        """Plan from a state; the plan starts at once."""
        self._plan, _ = self.planner.plan_from(state, time, time, self.planner.applied)

    def control(self, time: float) -> Array:
        """Return the control in the middle of the physics step."""
        assert self._plan is not None
        command = self._plan.at(time + 0.5 * self.task.simulation.timestep_s)
        self.planner.add_command(time, command)
        if self.belief is not None:
            self.belief.add_command(time, command)
        control = np.zeros(self.task.model.nu)
        control[self.task.map.ctrl] = command
        return control

    @property
    def rollouts(self) -> Rollouts:
        """The rollouts of the last plan."""
        return self.planner.last_rollouts


def _judo(
    optimizer: str, _task: Task, judo_task: str, settings: PlannerSettings, **changes: float
) -> ComparedPlanner:
    module = importlib.import_module('benchmarks.peers.judo')
    return module.JudoPlanner(optimizer, judo_task, settings, changes)


def _torch(task: Task, judo_task: str, settings: PlannerSettings) -> ComparedPlanner:
    module = importlib.import_module('benchmarks.peers.pytorch_mppi')
    return module.TorchPlanner(task, judo_task, settings)


def _hydrax(models: int, task: Task, judo_task: str, settings: PlannerSettings) -> ComparedPlanner:
    module = importlib.import_module('benchmarks.peers.hydrax')
    return module.HydraxPlanner(task, judo_task, settings, models)


def _ours(learns: bool, task: Task, _judo_task: str, settings: PlannerSettings) -> ComparedPlanner:
    return EnsemblePlanner(learns, task, settings)


# task, name of the task in Judo, settings -> planner
Factory = Callable[[Task, str, PlannerSettings], ComparedPlanner]


class PeerPlanner(NamedTuple):
    """
    How to create a planner.

    Attributes
    ----------
    make : callable
        Creates it.
    has_own_settings : bool
        Whether it does not read planner, cost and belief of the task file.
    tasks : tuple of str
        Tasks that it can plan; empty: all.

    """

    make: Factory
    has_own_settings: bool = False
    tasks: tuple[str, ...] = ()


LEARNER, FIXED = 'emppi', 'mppi'
PEERS: dict[str, PeerPlanner] = {
    LEARNER: PeerPlanner(functools.partial(_ours, True)),
    FIXED: PeerPlanner(functools.partial(_ours, False)),
    'judo-mppi': PeerPlanner(functools.partial(_judo, 'mppi'), has_own_settings=True),
    'judo-ps': PeerPlanner(functools.partial(_judo, 'ps'), has_own_settings=True),
    'judo-cem': PeerPlanner(functools.partial(_judo, 'cem'), has_own_settings=True),
    'judo-mppi-wide': PeerPlanner(  # in place of 0.1
        functools.partial(_judo, 'mppi', sigma=1.0), has_own_settings=True
    ),
    'pytorch-mppi': PeerPlanner(_torch),
    'hydrax': PeerPlanner(functools.partial(_hydrax, 1), tasks=('cartpole',)),
    'hydrax-random': PeerPlanner(functools.partial(_hydrax, 8), tasks=('cartpole',)),
}
