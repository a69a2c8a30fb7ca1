"""
The numbers of a task that may change while it runs: weights, temperature, noise, likelihood.

Each is a place in the task's YAML, and has its path as its name: `cost.reach.weight`. A tuned
task is that YAML with other numbers, and so is whatever else may be said of it: published,
recorded, and read again.
"""

from collections.abc import Iterator, Mapping, Sequence
import copy
import dataclasses
from typing import Any, NamedTuple

import yaml

from emppi_ros.belief.likelihood import LikelihoodConfig
from emppi_ros.control.mppi import PlannerConfig
from emppi_ros.core.errors import ConfigError, unknown

Value = float | tuple[float, ...]
Data = Mapping[str, Any]
MOST_WEIGHT = 1e6
_WEIGHTS = {'weight': 'in the running cost', 'terminal_weight': "at the plan's last state"}
_LEAST, _MOST = 1e-9, 1e6  # of what must be above 0
# whoever publishes may publish anything, and YAML that is no task's is so in many ways
_NO_TASK = ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError


class Knob(NamedTuple):
    """A number, or one per control, that may change."""

    path: tuple[str, ...]
    value: Value
    low: float
    high: float
    doc: str

    @property
    def name(self) -> str:
        """The path, as a parameter's name."""
        return '.'.join(self.path)


def knobs(data: Data) -> dict[str, Knob]:
    """Return by name what may be tuned in a task's YAML, as read from a valid file."""
    return {knob.name: knob for knob in _all(data)}


def tune(data: Data, values: Mapping[str, Value]) -> dict[str, Any]:
    """Return a task's YAML with other numbers; ConfigError if one of them may not be."""
    changed, known = copy.deepcopy(dict(data)), knobs(data)
    for name, value in values.items():
        if name not in known:
            raise ConfigError(unknown('tunable number', name, known))
        knob = known[name]
        for number in value if isinstance(value, Sequence) else (value,):
            if not knob.low <= number <= knob.high:  # NaN is not, either
                raise ConfigError(
                    f'{name}: found {number:g}, expected from {knob.low:g} to {knob.high:g}'
                )
        place = _walk(changed, knob.path[:-1])
        place[knob.path[-1]] = list(value) if isinstance(value, Sequence) else float(value)
    return changed


def to_text(data: Data) -> str:
    """Return a task's YAML as text."""
    return yaml.safe_dump(copy.deepcopy(dict(data)), sort_keys=False, allow_unicode=True)


def is_tuned(one: Data, other: Data) -> bool:
    """Return whether two tasks' YAML are the same, but for numbers; what is no task's is not."""
    try:
        return set(knobs(one)) == set(knobs(other)) and _bare(one) == _bare(other)
    except _NO_TASK:
        return False


def _all(data: Data) -> Iterator[Knob]:
    docs = {f.name: f.metadata['doc'] for f in dataclasses.fields(PlannerConfig)}
    planner = data['planner']
    yield _knob(('planner', 'temperature'), planner['temperature'], docs['temperature'])
    noise = planner['noise_variance']
    yield _knob(('planner', 'noise_variance'), noise, docs['noise_variance'])
    costs = [(('cost',), data.get('cost') or {})]
    costs += [(('stages', s['name'], 'cost'), s['cost']) for s in data.get('stages') or []]
    for path, terms in costs:
        for term, entry in terms.items():
            for key, words in _WEIGHTS.items():
                doc = f'weight of {term} ({entry["residual"]}) {words}'
                value = float(entry.get(key, 0.0))
                yield Knob((*path, term, key), value, 0.0, max(MOST_WEIGHT, value), doc)
    for field in dataclasses.fields(LikelihoodConfig):
        value = data['belief']['likelihood'].get(field.name)
        if value is not None:  # what does not count is not made to count
            words = f'sd of prediction minus measurement: {field.metadata["doc"]}'
            doc = field.metadata['doc'] if field.name == 'dof' else words
            yield _knob(('belief', 'likelihood', field.name), value, doc)


def _knob(path: tuple[str, ...], value: Any, doc: str) -> Knob:
    """Return one for what must be above 0."""
    numbers = tuple(map(float, value)) if isinstance(value, list) else (float(value),)
    low, high = min(_LEAST, *numbers), max(_MOST, *numbers)
    return Knob(path, numbers if isinstance(value, list) else numbers[0], low, high, doc)


def _walk(data: Any, path: Sequence[str]) -> Any:
    """Return the mapping at a path; stages go by their names."""
    for key in path:
        data = next(s for s in data if s['name'] == key) if isinstance(data, list) else data[key]
    return data


def _bare(data: Data) -> dict[str, Any]:
    """Return a task's YAML without what may be tuned."""
    bare = copy.deepcopy(dict(data))
    for knob in knobs(data).values():
        _walk(bare, knob.path[:-1]).pop(knob.path[-1], None)
    return bare
