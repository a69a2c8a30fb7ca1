"""
The planners that are compared, behind one interface.

To add one, add a line to PEERS; `emppi bench peers --planners NAME` then offers it.
"""

from collections.abc import Callable
import importlib
from types import ModuleType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.calibration.planner_overhead import RecordedPlanner, Rollouts
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import BenchError, import_optional
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
        return self.planner.ensemble.last


# task, name of the task in Judo, settings -> planner
Factory = Callable[[Task, str, PlannerSettings], ComparedPlanner]


def load(module: str) -> ModuleType:
    """Import a package to compare with; BenchError if it, or what it needs, is not installed."""
    return import_optional(
        module,
        lambda error: (
            f'bench peers: Python package {error.name!r} is not installed; `make peers` makes an '
            'environment with all that is compared, and runs the benchmark there'
        ),
        BenchError,
    )


def _theirs(module: str, kind: str, *arguments: Any, **changes: float) -> Factory:
    """Return the factory of a class of a module beside this one, which is imported when used."""

    def make(task: Task, judo_task: str, settings: PlannerSettings) -> ComparedPlanner:
        planner = getattr(importlib.import_module(f'benchmarks.peers.{module}'), kind)
        made: ComparedPlanner = planner(task, judo_task, settings, *arguments, **changes)
        return made

    return make


def _ours(learns: bool) -> Factory:
    return lambda task, _judo_task, settings: EnsemblePlanner(learns, task, settings)


def _judo(optimizer: str, **changes: float) -> 'PeerPlanner':
    make = _theirs('judo', 'JudoPlanner', optimizer, **changes)
    return PeerPlanner(make, has_own_settings=True)


class PeerPlanner(NamedTuple):
    """How to create a planner."""

    make: Factory
    # whether it does not read planner, cost and belief of the task file
    has_own_settings: bool = False
    tasks: tuple[str, ...] = ()  # tasks that it can plan; empty: all


LEARNER, FIXED = 'emppi', 'mppi'
PEERS: dict[str, PeerPlanner] = {
    LEARNER: PeerPlanner(_ours(learns=True)),
    FIXED: PeerPlanner(_ours(learns=False)),
    'judo-mppi': _judo('mppi'),
    'judo-ps': _judo('ps'),
    'judo-cem': _judo('cem'),
    'judo-mppi-wide': _judo('mppi', sigma=1.0),  # in place of 0.1
    'pytorch-mppi': PeerPlanner(_theirs('pytorch_mppi', 'TorchPlanner')),
    'hydrax': PeerPlanner(_theirs('hydrax', 'HydraxPlanner', 1), tasks=('cartpole',)),
    'hydrax-random': PeerPlanner(_theirs('hydrax', 'HydraxPlanner', 8), tasks=('cartpole',)),
}
