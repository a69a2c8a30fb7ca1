"""True parameters of the simulated robot over time: initial values, and changes of them."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from dataclasses import dataclass
import math
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.core import config
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, ParameterError, unknown
from emppi_ros.model.parameters import check_values
from emppi_ros.priors import distributions
from emppi_ros.tasks.schema import Condition, ParameterChange, check_order
from emppi_ros.tasks.task import Task

# by parameter name: a constant, or times [s] and the values from then on
GivenTruth = Mapping[str, float | Sequence[tuple[float, float]]]
_RAMP_STEP_S = 0.01  # between two values of a ramp
_ROUNDING_S = 1e-9


class PendingChange(NamedTuple):
    """A change that waits for a condition."""

    parameter: str
    column: int
    when: Condition
    to: float  # the value that was drawn
    over_s: float  # duration of a linear ramp to it


@dataclass(frozen=True)
class TrueParameters:
    """Hidden true parameters over time."""

    initial: Array  # (P,) values at time 0
    # of a parameter by its column, in order of time
    changes: Mapping[int, Sequence[ParameterChange]] = dataclasses.field(default_factory=dict)
    pending: tuple[PendingChange, ...] = ()  # wait for a condition; only the first can begin

    @property
    def constant(self) -> bool:
        """Whether the values never change."""
        return not self.changes and not self.pending

    def begin(self, time: float) -> 'TrueParameters':
        """Return the truth whose first pending change begins at a simulated time [s]."""
        first, *later = self.pending
        change = ParameterChange(first.parameter, time, first.to, first.over_s)
        begun = {first.column: (*self.changes.get(first.column, ()), change)}
        return TrueParameters(self.initial, {**self.changes, **begun}, tuple(later))

    def at(self, time: float) -> Array:
        """Return the values (P,) at a simulated time [s]; ramps advance every 10 ms."""
        values = self.initial.copy()
        for column, changes in self.changes.items():
            for change in changes:
                done = _progress(change, time)
                values[column] = (1.0 - done) * values[column] + done * change.to
        return values


def _progress(change: ParameterChange, time: float) -> float:
    """Return the completed share of a change: 0 before it, 1 after it."""
    since = time - change.at_s + _ROUNDING_S
    if since < 0.0:
        return 0.0
    if since >= change.over_s:
        return 1.0
    return math.floor(since / _RAMP_STEP_S) * _RAMP_STEP_S / change.over_s


def draw_truth(task: Task, seed: int, given: GivenTruth | None = None) -> TrueParameters:
    """
    Return true parameters: given by name, or drawn from the task's `simulation: truth`.

    The changes of `simulation: changes` and `changes_when` apply to parameters that are not given.
    The first value of a given schedule that starts after time 0 follows a drawn one.
    ParameterError if a name is unknown, a value out of bounds, or a schedule not in order of time.
    """
    given, names = given or {}, [parameter.name for parameter in task.parameters]
    for name in given:
        if name not in names:
            raise ParameterError(unknown('parameter', name, names))
    rng = np.random.default_rng([seed, 0])
    initial = distributions.sample(task.parameters, task.truth, 1, rng)[0]
    changes: dict[int, tuple[ParameterChange, ...]] = {}
    for column, parameter in enumerate(task.parameters):
        name = parameter.name
        if name not in given:
            own = tuple(change for change in task.simulation.changes if change.parameter == name)
        else:
            own = _changes(name, given[name])
            check_values(parameter, np.array([change.to for change in own]))
            if own and own[0].at_s == 0.0:
                initial[column], own = own[0].to, own[1:]
        if own:
            changes[column] = own
    pending = []
    for waiting in task.simulation.changes_when:  # drawn also if not used: others stay the same
        column = names.index(waiting.parameter)
        to = float(waiting.to.sample(task.parameters[column], 1, rng)[0])
        if waiting.parameter not in given:
            pending.append(
                PendingChange(waiting.parameter, column, waiting.when, to, waiting.over_s)
            )
    return TrueParameters(initial, changes, tuple(pending))


def _changes(
    name: str, given: float | Sequence[tuple[float, float]]
) -> tuple[ParameterChange, ...]:
    """Return a constant or a schedule as steps, the first of them usually at time 0."""
    schedule: Any = given if np.ndim(given) else [(0.0, given)]
    changes = tuple(ParameterChange(name, float(at), float(value)) for at, value in schedule)
    for change in changes:
        if not 0.0 <= change.at_s < math.inf:
            raise ParameterError(
                f'{name}: found a change at {change.at_s:g} s, expected 0 or later'
            )
    try:
        check_order(changes)
    except ConfigError as error:
        raise ParameterError(f'{name}: {error}') from None
    return changes


def parse_truth(texts: Iterable[str], where: str) -> dict[str, Sequence[tuple[float, float]]]:
    """
    Return the schedules in texts such as `block_mass=0.3` or `block_mass=0.3,1.2@5`.

    The latter means 0.3 from the start, and 1.2 from 5 s on. `block_mass=1.2@5` leaves the first
    value to the seed. ConfigError with an example if a text has another form.
    """
    example = 'block_mass=0.3 or block_mass=0.3,1.2@5 (1.2 from 5 s on)'
    return config.parse_assignments(texts, where, example, _schedule)


def _schedule(text: str) -> Sequence[tuple[float, float]]:
    """Return times and values of a text such as `0.3,1.2@5`; ValueError if it is invalid."""
    schedule = []
    for i, entry in enumerate(text.split(',')):
        value, at, time = entry.partition('@')
        if i and not at:
            raise ValueError('a later value without its time')
        schedule.append((config.finite(time) if at else 0.0, config.finite(value)))
    return schedule
