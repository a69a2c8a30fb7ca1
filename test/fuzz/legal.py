"""
What a legal robot and task are, said a second time and otherwise than in the package.

Each function returns what is wrong in words, '' if nothing is.
"""

import dataclasses
import math

import numpy as np

from emppi_ros.core.errors import ConfigError
from emppi_ros.model import parameters
from emppi_ros.priors.distributions import Prior
from emppi_ros.robots import franka_limits
from emppi_ros.robots.robot import Robot
from emppi_ros.tasks.task import Task

NAMES = {
    'velocity': 'velocity',
    'acceleration': 'acceleration',
    'jerk': 'jerk',
    'effort': 'effort',
}


def numbers(value: object) -> list[float]:
    """Return all numbers in a nested object."""
    if isinstance(value, (bool, str, type(None))):
        return []
    if isinstance(value, (int, float)):
        return [value]
    if dataclasses.is_dataclass(value):
        return [x for f in dataclasses.fields(value) for x in numbers(getattr(value, f.name))]
    if isinstance(value, dict):
        return [x for item in value.values() for x in numbers(item)]
    return [x for item in value for x in numbers(item)]  # type: ignore[union-attr]


def robot(it: Robot) -> str:
    """A robot: finite, of equal lengths, limits in order and none looser than published."""
    return next(iter([*_shape(it), *_limits(it), *_looser(it)]), '')


def _shape(it: Robot) -> list[str]:
    n, limits = len(it.commanded), it.limits
    rows = [limits.position.lower, limits.position.upper, limits.velocity, limits.acceleration]
    rows += [row for row in (limits.jerk, limits.effort) if row]
    wrong = {
        'a number that is not finite': not all(math.isfinite(x) for x in numbers(it)),
        'commanded joints that are not measured': not {*it.commanded} <= {*it.joints},
        'no joints, or one twice': not 0 < len({*it.joints}) == len(it.joints),
        'home': len(it.home) != len(it.joints),
        'rows of another length': any(len(row) != n for row in rows) or n == 0,
        'a limit of 0 or less': any(x <= 0 for row in rows[2:] for x in row),
        'effort without limits': it.command == 'effort' and not limits.effort,
        'factor or command': not 0 < it.dynamics_factor <= 1
        or it.command not in ('velocity', 'position', 'effort'),
    }
    return [words for words, is_so in wrong.items() if is_so]


def _limits(it: Robot) -> list[str]:
    home = dict(zip(it.joints, it.home, strict=False))
    rows = zip(it.commanded, it.limits.position.lower, it.limits.position.upper, strict=False)
    return [f'home of {name} beyond its limits' for name, a, b in rows if not a <= home[name] <= b]


def _looser(it: Robot) -> list[str]:
    if it.published == 'none' or it.accept_custom_limits:
        return []
    table, wrong = franka_limits.TABLES[it.published], []
    for i, name in enumerate(it.commanded):
        j = int(name[-1]) - 1
        position = it.limits.position
        low, high = position.lower[i], position.upper[i]
        if not it.limits.jerk or low < table.lower[j] - 1e-6 or high > table.upper[j] + 1e-6:
            wrong.append(f'no jerk limit, or a loose position of {name}')
        for key in ('velocity', 'acceleration', 'jerk', 'effort'):
            row = getattr(it.limits, key)
            if row and row[i] > getattr(table, key)[j] * (1 + 1e-6):
                wrong.append(f'{key} of {name} is loose')
    return wrong


def task(it: Task) -> str:
    """A task: finite, of a size that a computer can plan, and its draws are physical."""
    if wrong := robot(it.robot):
        return f'robot: {wrong}'
    parts = (it.planner, it.belief, it.simulation, it.file.duration_s, it.file.success)
    if not all(math.isfinite(x) for x in numbers(parts)):
        return 'a number that is not finite'
    plan = it.planner
    if not 0 < plan.models * plan.rollouts * plan.horizon * plan.substeps <= 10**7:
        return 'more physics than fits'
    if not 1e-5 < it.model.opt.timestep * plan.substeps <= 10 or plan.rate_hz > 1000:
        return 'times'
    if len(plan.noise_variance) not in (1, it.model.nu) or min(plan.noise_variance) <= 0:
        return 'noise'
    terms = [term for stage in it.stages for term in stage.cost.terms]
    if any(term.weight + term.terminal_weight <= 0 for term in terms):
        return 'a term without weight'
    if any(not x.lower < x.upper for x in it.parameters) or not terms:
        return 'bounds'
    return draws(it, it.priors) or draws(it, it.truth)


def draws(it: Task, priors: tuple[Prior, ...]) -> str:
    """Three draws of every prior lie within the bounds and give a model of finite numbers."""
    rng = np.random.default_rng(1)
    try:
        columns = [p.sample(x, 3, rng) for p, x in zip(priors, it.parameters, strict=True)]
    except ConfigError:  # no mass within the bounds: the node that draws says so
        return ''
    theta = np.array(columns).reshape(len(columns), 3).T
    for x, column in zip(it.parameters, theta.T, strict=True):
        if not np.all((column > x.lower) & (column < x.upper)):
            return f'{x.name} drawn outside of its bounds'
    for row in theta:
        model = parameters.with_parameters(it.model, it.parameters, row)
        for name in ('body_mass', 'body_inertia', 'geom_friction', 'actuator_gainprm'):
            if not np.isfinite(getattr(model, name)).all():
                return f'{name} not finite after a draw'
    return ''
