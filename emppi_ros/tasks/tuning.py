"""
Parameters of a task that can change at runtime: costs, goals, temperature, noise, likelihood.

Each is a number in the task's YAML, named by its path, such as `cost.reach.weight`. A tuned task
is the same YAML with other numbers, so it is published, recorded and loaded like any task.
"""

from collections.abc import Iterator, Mapping, Sequence
import copy
import dataclasses
from typing import Any, NamedTuple

import yaml

from emppi_ros.core.errors import ConfigError, unknown
from emppi_ros.tasks.planner_config import PlannerConfig
from emppi_ros.tasks.schema import LikelihoodConfig

Value = float | tuple[float, ...]
Data = Mapping[str, Any]
_WEIGHTS = {'weight': 'in the running cost', 'terminal_weight': "at the plan's last state"}
_MIN_POSITIVE, _MAX = 1e-9, 1e6
# raised for YAML that is not a task, such as from an arbitrary publisher
_INVALID_TASK = ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError


class TunableParameter(NamedTuple):
    """A parameter that can change at runtime: a number, or one per control."""

    path: tuple[str, ...]
    value: Value
    low: float
    high: float
    doc: str

    @property
    def name(self) -> str:
        """The path, joined by dots."""
        return '.'.join(self.path)


def tunable_parameters(data: Data) -> dict[str, TunableParameter]:
    """Return the tunable parameters of a valid task's YAML, by name."""
    parameters = {}
    for path, value, least, doc in _entries(data):
        numbers = tuple(map(float, value if isinstance(value, list) else [value]))
        low, high = min(least, *numbers), max(_MAX, *numbers)  # includes the current value
        now = numbers if isinstance(value, list) else numbers[0]
        parameters['.'.join(path)] = TunableParameter(path, now, low, high, doc)
    return parameters


def tune(data: Data, values: Mapping[str, Value]) -> dict[str, Any]:
    """Return a task's YAML with other values; ConfigError if a name or value is invalid."""
    changed, known = copy.deepcopy(dict(data)), tunable_parameters(data)
    for name, value in values.items():
        if name not in known:
            raise ConfigError(unknown('tunable parameter', name, known))
        parameter = known[name]
        for number in value if isinstance(value, Sequence) else (value,):
            if not parameter.low <= number <= parameter.high:  # NaN is not, either
                allowed = f'from {parameter.low:g} to {parameter.high:g}'
                raise ConfigError(f'{name}: found {number:g}, expected {allowed}')
        place = _walk(changed, parameter.path[:-1])
        place[parameter.path[-1]] = list(value) if isinstance(value, Sequence) else float(value)
    return changed


def number(name: str, value: Any) -> Value:
    """Return a value as numbers; ConfigError if it is neither a number nor a list of them."""
    several = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    numbers = tuple(value) if several else (value,)
    if not all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers):
        raise ConfigError(f'{name}: found {value!r}, expected a number or a list of numbers')
    return tuple(map(float, numbers)) if several else float(numbers[0])


def to_text(data: Data) -> str:
    """Return a task's YAML as text."""
    return yaml.safe_dump(copy.deepcopy(dict(data)), sort_keys=False, allow_unicode=True)


def is_tuned(data: Data, other: Data) -> bool:
    """Return whether two YAML mappings are the same task, up to tunable parameters."""
    try:
        same_names = tunable_parameters(data).keys() == tunable_parameters(other).keys()
        return same_names and _without_tunables(data) == _without_tunables(other)
    except _INVALID_TASK:
        return False


def _entries(data: Data) -> Iterator[tuple[tuple[str, ...], Any, float, str]]:
    """Yield path, value, least value and description of all tunable parameters."""
    docs = {f.name: f.metadata['doc'] for f in dataclasses.fields(PlannerConfig)}
    for key in ('temperature', 'noise_variance'):
        yield ('planner', key), data['planner'][key], _MIN_POSITIVE, docs[key]
    costs: list[tuple[tuple[str, ...], Data]] = [(('cost',), data.get('cost') or {})]
    costs += [(('stages', s['name'], 'cost'), s['cost']) for s in data.get('stages') or []]
    for path, terms in costs:
        for term, entry in terms.items():
            what, place = f'{term} ({entry["residual"]})', (*path, term)
            for key, words in _WEIGHTS.items():
                yield (*place, key), entry.get(key, 0.0), 0.0, f'weight of {what} {words}'
            if 'point' in entry:
                yield (*place, 'point'), entry['point'], -_MAX, f'goal of {what} [m]'
            if 'deadzone' in entry:
                doc = f'length up to which {what} costs nothing'
                yield (*place, 'deadzone'), entry['deadzone'], 0.0, doc
    success = data['success']
    if isinstance(success, Mapping) and 'point' in success['residual']:
        place, doc = ('success', 'residual', 'point'), 'where the task is solved [m]'
        yield place, success['residual']['point'], -_MAX, doc
    for field in dataclasses.fields(LikelihoodConfig):
        value = data['belief']['likelihood'].get(field.name)
        if value is not None:  # unused quantities stay unused
            words = f'sd of prediction minus measurement: {field.metadata["doc"]}'
            doc = field.metadata['doc'] if field.name == 'dof' else words
            yield ('belief', 'likelihood', field.name), value, _MIN_POSITIVE, doc


def _walk(data: Any, path: Sequence[str]) -> Any:
    """Return the mapping at a path; stages are looked up by name."""
    for key in path:
        data = next(s for s in data if s['name'] == key) if isinstance(data, list) else data[key]
    return data


def _without_tunables(data: Data) -> dict[str, Any]:
    """Return a task's YAML without its tunable parameters."""
    bare = copy.deepcopy(dict(data))
    for parameter in tunable_parameters(data).values():
        _walk(bare, parameter.path[:-1]).pop(parameter.path[-1], None)
    return bare
