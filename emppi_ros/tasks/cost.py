"""
The cost of a task (eq. 2): sum over terms of weight * norm(residual beyond the dead zone).

A task with stages has a cost in each of them.
"""

from collections.abc import Mapping, Sequence
import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core import config
from emppi_ros.core.arrays import Array
from emppi_ros.core.config import non_negative, registered
from emppi_ros.core.errors import ConfigError, closest, prefix_errors, unknown
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Records, State
from emppi_ros.tasks.norms import NORMS, l2, shorten, soften
from emppi_ros.tasks.residuals import RESIDUALS, Fields, Residual
from emppi_ros.tasks.schema import Condition, StageConfig, TaskFile


class Costs(NamedTuple):
    """Costs of rollouts: `running` (M, K, H), `terminal` (M, K); +inf for those that diverged."""

    running: Array  # of each step, l(x_t)
    terminal: Array  # of the final state, m(x_H)


def bind_residual(model: mujoco.MjModel, data: Mapping[str, object], where: str) -> Residual:
    """Return the residual that a YAML mapping of its keys describes, bound to a model."""
    if 'residual' not in data:
        if (key := closest('residual', map(str, data))) is not None:
            raise ConfigError(f"{where}: unknown key {key!r} (did you mean 'residual'?)")
        raise ConfigError(f"{where}: missing key 'residual' (one of {', '.join(RESIDUALS)})")
    name = data['residual']
    if not isinstance(name, str) or name not in RESIDUALS:
        raise ConfigError(f'{where}: residual: {unknown("residual", name, RESIDUALS)}')
    arguments = {k: v for k, v in data.items() if k != 'residual'}
    residual = config.build(RESIDUALS[name], arguments, f'{where} ({name})')
    return prefix_errors(where, residual.bind, model)


@dataclass(frozen=True)
class TermConfig:
    """Keys of a cost term, besides those of its residual."""

    norm: str = registered(NORMS, default='l2', doc='maps the residual to a scalar')
    deadzone: float = non_negative(
        0.0,
        doc='length up to which the residual costs nothing, in its unit: it is shortened by this '
        'before `norm`',
    )
    smoothing: float = non_negative(
        0.0,
        doc='length p up to which the norm is rounded, in the unit of the residual: a length r '
        'counts as sqrt(r^2 + p^2) - p; after `deadzone`',
    )
    weight: float = non_negative(0.0, doc='in the running cost l(x_t)')
    terminal_weight: float = non_negative(0.0, doc='in the terminal cost m(x_H)')

    def __post_init__(self) -> None:
        """Reject a term without effect."""
        if self.weight == self.terminal_weight == 0.0:
            raise ConfigError('weight and terminal_weight are both 0: the term has no effect')


_TERM_KEYS = tuple(field.name for field in dataclasses.fields(TermConfig))


@dataclass(frozen=True, kw_only=True)
class Term(TermConfig):
    """A weighted residual, bound to a model."""

    name: str
    residual: Residual

    def value(self, fields: Mapping[str, Array]) -> Array:
        """Return the norm of the residual beyond the dead zone, smoothed, unweighted."""
        residual = self.residual.evaluate(fields)
        if self.deadzone > 0.0:
            residual = shorten(residual, self.deadzone)
        if self.smoothing > 0.0:
            residual = soften(residual, self.smoothing)
        return NORMS[self.norm](residual)


class Cost:
    """The cost of a task or stage: its terms, bound to a model."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms
        self.record = tuple(sorted({f for term in terms for f in term.residual.fields}))
        self._weights = np.array([term.weight for term in terms])[:, None, None]
        self._terminal_weights = np.array([term.terminal_weight for term in terms])[:, None, None]

    @classmethod
    def bind(cls, model: mujoco.MjModel, terms: Mapping[str, object], where: str) -> 'Cost':
        """Return the cost in a YAML mapping name -> term; `where` names it in errors."""
        bound = []
        for name, data in terms.items():
            here = f'{where}: {name}'
            if not isinstance(data, Mapping):
                raise ConfigError(f'{here}: expected a mapping of keys, found {data!r}')
            _check_keys(data, here)
            rest = dict(data)
            keys = {key: rest.pop(key) for key in _TERM_KEYS if key in data}
            term = config.build(TermConfig, keys, here)
            residual = bind_residual(model, rest, here)
            bound.append(Term(name=name, residual=residual, **vars(term)))
        if not bound:
            raise ConfigError(f'{where}: needs at least one term')
        return cls(bound)

    def values(self, fields: Mapping[str, Array]) -> dict[str, Array]:
        """Return each term's value, unweighted, with the leading axes of `fields`."""
        return {term.name: term.value(fields) for term in self.terms}

    def evaluate(self, records: Records, start: State, substeps: int) -> Costs:
        """Return the costs of rollouts recorded over H * substeps + 1 steps; +inf if diverged."""
        by_term = self.values(at_plan_steps(records, start, substeps))
        values = np.array([by_term[term.name] for term in self.terms])  # (terms, M, K, H + 1)
        running = (self._weights[..., None] * values[..., :-1]).sum(axis=0)
        terminal = (self._terminal_weights * values[..., -1]).sum(axis=0)
        bad = records.diverged | ~np.isfinite(running).all(axis=-1) | ~np.isfinite(terminal)
        running[bad] = np.inf
        return Costs(running, np.where(bad, np.inf, terminal))

    def per_term(self, records: Records, start: State, substeps: int) -> dict[str, Array]:
        """Return the share of each term in the cost of rollouts, (M, K); +inf if diverged."""
        values, totals = self.values(at_plan_steps(records, start, substeps)), {}
        for term in self.terms:
            value = values[term.name]
            total = term.weight * value[..., :-1].sum(axis=-1)
            total = total + term.terminal_weight * value[..., -1]
            totals[term.name] = np.where(records.diverged | ~np.isfinite(total), np.inf, total)
        return totals


def _check_keys(data: Mapping[str, object], where: str) -> None:
    """Raise if a term has a key that neither the term nor its residual has."""
    name = data.get('residual')
    if not isinstance(name, str) or name not in RESIDUALS:
        return  # another error
    residual = RESIDUALS[name]
    keys = {f.name for f in dataclasses.fields(residual)}  # type: ignore[arg-type]  # a dataclass
    known = {'residual', *_TERM_KEYS, *keys}
    for key in data:
        if key not in known:
            error = ConfigError(f'{where}: {unknown("key", key, known)}')
            raise config.located(error, where, data)


def at_plan_steps(records: Records, start: State, substeps: int) -> dict[str, Array]:
    """Return the recorded fields at x_0 .. x_H, (M, K, H + 1, ...); see `Ensemble.rollout`."""
    fields = {}
    for name, values in records.fields.items():
        if name not in State._fields:
            fields[name] = values[:, :, ::substeps]
            continue
        first, later = getattr(start, name), values[:, :, substeps - 1 : -1 : substeps]
        models, rollouts, steps, size = later.shape
        states = fields[name] = np.empty((models, rollouts, steps + 1, size))
        states[:, :, 0] = first[:, None] if first.ndim == 2 else first
        states[:, :, 1:] = later
    return fields


class Stage(NamedTuple):
    """A stage bound to the model of its task."""

    name: str
    cost: Cost
    until: Residual | None
    grasp: tuple[int, ...]  # ids of equality constraints
    settings: StageConfig


def bind_condition(model: mujoco.MjModel, condition: Condition, where: str) -> Residual:
    """
    Return a residual whose norm is below `condition.below` where all its conditions hold.

    With one condition it is that residual. With several it is the largest ratio of a norm to its
    threshold, times the threshold of the first.
    """
    first = bind_residual(model, condition.residual, f'{where}: residual')
    also = [
        (bind_residual(model, other.residual, f'{where}[{i}]: residual'), other.below)
        for i, other in enumerate(condition.also, 1)
    ]
    if not also:
        return first

    def evaluate(fields: Fields) -> Array:
        ratios = [l2(residual.evaluate(fields)) / below for residual, below in also]
        worst = np.maximum.reduce([l2(first.evaluate(fields)) / condition.below, *ratios])
        return condition.below * worst[..., None]

    names = {name for residual in (first, *(r for r, _ in also)) for name in residual.fields}
    return Residual(tuple(sorted(names)), evaluate)


def bind_stages(model: mujoco.MjModel, file: TaskFile) -> tuple[Stage, ...]:
    """Return all stages; a task without stages has a single, unnamed one."""
    bound = []
    for stage in file.stages or (StageConfig('', file.cost),):
        where = f'stages: {stage.name}: ' if file.stages else ''
        cost = Cost.bind(model, stage.cost, f'{where}cost')
        until = None
        if stage.until:
            until = bind_condition(model, stage.until, f'{where}until')
        grasp = tuple(
            prefix_errors(f'{where}grasp', scene.find, model, 'equality', name)
            for name in stage.grasp
        )
        bound.append(Stage(stage.name, cost, until, grasp, stage))
    return tuple(bound)


def bind_probe(model: mujoco.MjModel, file: TaskFile) -> Cost | None:
    """Return the cost of `probe`; None: that of the stage."""
    return Cost.bind(model, file.probe.cost, 'probe: cost') if file.probe.cost else None
