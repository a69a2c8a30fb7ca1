"""
Worlds: what is different in the simulation of a task, hidden from planner and estimator.

To add one, add a line to WORLDS; `emppi bench belief --worlds NAME` then offers it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
import importlib.util
from typing import Any

import yaml

from benchmarks.belief.estimators import EMPPI, FROZEN, PRIOR, TRUTH, UKF, WINDOW, WINDOW_LOOP
from emppi_ros.core import config

CONSTANT, OUTSIDE, JUMP, DROP, RAMP, DELAY, MISFIT, DRAKE = NAMES = (
    'constant', 'outside', 'jump', 'drop', 'ramp', 'delay', 'misfit', 'drake',
)  # fmt: skip
CHANGING = (JUMP, DROP, RAMP)
DESCRIPTIONS = {
    CONSTANT: 'true values as the task draws them',
    OUTSIDE: 'a true value where the prior has almost no probability',
    JUMP: 'a true value jumps up',
    DROP: 'a true value, outside of the prior at first, jumps down',
    RAMP: 'a true value grows steadily',
    DELAY: 'commands act 20 ms late',
    MISFIT: 'dry friction, a slope and another size, which no parameter explains',
    DRAKE: 'physics by Drake instead of MuJoCo',
}


@dataclass(frozen=True)
class World:
    """Changes of a task's simulation."""

    # true values at the start by parameter name; the others are drawn
    truth: Mapping[str, float] = field(default_factory=dict)
    # other keys of `simulation` in the task file
    simulation: Mapping[str, Any] = field(default_factory=dict)
    duration_s: float | None = None  # duration of a run [s], in place of the task's


def _changing(name: str, start: float, to: float, at_s: float, over_s: float = 0.0) -> World:
    change = {'parameter': name, 'at_s': at_s, 'to': to, 'over_s': over_s}
    return World({name: start}, {'changes': [change]}, duration_s=12.0)


_OF_ALL = {
    CONSTANT: World(),
    DELAY: World(simulation={'command_delay_s': 0.02}),
}
_DRAKE = World(simulation={'engine': 'drake'})

# task -> name -> world; those of _OF_ALL exist for each task
_FR3_FRICTION = {f'fr3_joint{i}': 1.0 for i in range(1, 8)}  # N m

WORLDS: dict[str, dict[str, World]] = {
    'fr3_follow': {
        OUTSIDE: World({'payload_mass': 1.2}),
        JUMP: _changing('payload_mass', 0.3, 1.2, at_s=5.0),
        DROP: _changing('payload_mass', 1.2, 0.3, at_s=5.0),
        RAMP: _changing('payload_mass', 0.3, 1.2, at_s=4.0, over_s=5.0),
        MISFIT: World(simulation={'joint_friction': _FR3_FRICTION, 'gravity_tilt_rad': 0.03}),
        DRAKE: _DRAKE,
    },
    'fr3_pickup': {  # its own load makes the jump
        CONSTANT: World(simulation={'changes_when': []}),
        JUMP: World(),
    },
    'cartpole_swingup': {
        OUTSIDE: World({'pole_mass': 0.8}),
        JUMP: _changing('pole_mass', 0.1, 0.3, at_s=6.0),
        DROP: _changing('pole_mass', 0.3, 0.1, at_s=6.0),
        RAMP: _changing('pole_mass', 0.1, 0.3, at_s=5.0, over_s=4.0),
        MISFIT: World(simulation={'joint_friction': {'slider': 0.3}, 'gravity_tilt_rad': 0.02}),
    },
    'panda_push': {
        OUTSIDE: World({'block_mass': 1.5, 'block_friction': 1.2}),
        MISFIT: World(simulation={'gravity_tilt_rad': 0.03, 'sizes': {'block': 1.15}}),
        DRAKE: _DRAKE,
    },
    'panda_reconfigure': {DRAKE: _DRAKE},
}


SEEDS = 10  # of other runs
_SAME, _CONTROL = dict.fromkeys((EMPPI, UKF, WINDOW), SEEDS), {EMPPI: SEEDS, TRUTH: SEEDS}
_CHANGED = {EMPPI: 20, FROZEN: 10, UKF: 20, WINDOW: 20}
_ESTIMATED = {
    **dict.fromkeys((CONSTANT, OUTSIDE), _SAME),
    **dict.fromkeys((JUMP, DROP), _CHANGED),
    **dict.fromkeys((RAMP, DELAY, MISFIT), _SAME),
}
# the runs of docs/results_belief.md: task -> world -> estimator -> number of seeds
CAMPAIGN: Mapping[str, Mapping[str, Mapping[str, int]]] = {
    'fr3_follow': {**_ESTIMATED, DRAKE: _CONTROL},
    'fr3_pickup': {JUMP: dict.fromkeys((EMPPI, FROZEN, WINDOW_LOOP, PRIOR, TRUTH), 20)},
    'cartpole_swingup': _ESTIMATED,
    'panda_push': {
        CONSTANT: {EMPPI: 20, TRUTH: 10},
        **dict.fromkeys((OUTSIDE, MISFIT, DRAKE), _CONTROL),
    },
    'panda_reconfigure': {CONSTANT: {EMPPI: 20, TRUTH: 10}, DRAKE: _CONTROL},
}


def worlds_of(task: str) -> Mapping[str, World]:
    """Return the worlds of a task by name, in the order of NAMES."""
    known = _OF_ALL | WORLDS.get(task, {})
    return {name: known[name] for name in NAMES if name in known}


def unavailable(name: str) -> str:
    """Return why a world cannot be simulated here; '' if it can."""
    if name == DRAKE and importlib.util.find_spec('pydrake') is None:
        return "Drake is not installed: pip install 'emppi_ros[drake]'"
    return ''


def in_world(text: str, world: World) -> str:
    """Return a task's YAML in a world."""
    data = config.parse(text, 'task')
    simulation = {**data['simulation'], **world.simulation}
    fixed = {
        name: {'distribution': 'fixed', 'value': value} for name, value in world.truth.items()
    }
    simulation['truth'] = {**simulation['truth'], **fixed}
    data = {**data, 'simulation': simulation}
    if world.duration_s is not None:
        data['duration_s'] = world.duration_s
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
