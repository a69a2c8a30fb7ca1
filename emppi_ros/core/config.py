"""
YAML to frozen, validated dataclasses.

`load(path)` reads a mapping; `build(cls, mapping, where)` turns it into a frozen dataclass
and validates every value against its type annotation and its `check`. A list in place of a mapping
is its first element, with the others in its key `also`, if it has that key. A `ConfigError` states
the file, line and key, the value found and the values allowed.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import dataclasses
from functools import partial
import math
import re
import sys
import types
import typing
from typing import Any, TypeVar

from emppi_ros.core.errors import ConfigError, unknown
from emppi_ros.core.yaml_loader import load, located, parse

__all__ = [
    'between', 'build', 'describe_type', 'finite', 'fraction', 'key', 'load', 'located',
    'non_negative', 'one_of', 'parse', 'position', 'positive', 'quaternion', 'registered',
]  # fmt: skip
T = TypeVar('T')

UNBOUNDED = 1e6  # instead of infinity, which no text format and no solver likes
MAX_INT = 1_000_000_000  # larger integers are rejected
_ANGLE = re.compile(r'pi\b|\b(deg|rad)')  # as rosparam and xacro read them
LENGTH_TOLERANCE = 0.01  # of quaternions, which were rounded when printed


class Choices:
    """Text that lists the allowed names; it follows changes of the collection."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def __str__(self) -> str:
        return 'one of ' + ', '.join(self.names)


def key(
    default: Any = dataclasses.MISSING,
    doc: str = '',
    *,
    check: Callable[[Any], bool] | None = None,
    allowed: str | Choices = '',
    bounded: bool = True,
) -> Any:
    """
    Return a dataclass field with a check, a text for the allowed values, and a description.

    In a list that is not `bounded`, `.inf` reads as UNBOUNDED.
    """
    metadata = {'check': check, 'allowed': allowed, 'doc': doc, 'bounded': bounded}
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=lambda: default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


# fields for numbers, called with a default and a `doc`
positive = partial(key, check=lambda value: 0 < value < math.inf, allowed='a number above 0')
non_negative = partial(key, check=lambda value: value >= 0, allowed='a non-negative number')
fraction = partial(key, check=lambda value: 0 < value <= 1, allowed='in (0, 1]')
# optional fields for a pose, called with a `doc`
position = partial(key, None, check=lambda value: len(value) == 3, allowed='3 numbers')
quaternion = partial(
    key,
    None,
    check=lambda value: len(value) == 4 and abs(math.hypot(*value) - 1.0) < LENGTH_TOLERANCE,
    allowed='a unit quaternion w, x, y, z',
)


def one_of(*names: str, default: Any = dataclasses.MISSING, doc: str = '') -> Any:
    """Return a field for one of a fixed set of names."""
    return registered(names, default=default, doc=doc)


def registered(
    names: Collection[str], *, default: Any = dataclasses.MISSING, doc: str = ''
) -> Any:
    """Return a field for a name in a registry, as the registry is when the value is checked."""
    return key(default, check=lambda value: value in names, allowed=Choices(names), doc=doc)


def between(low: float, high: float, default: Any = dataclasses.MISSING, doc: str = '') -> Any:
    """Return a field for a number between two bounds, both included."""
    allowed = f'from {low:g} to {high:g}'
    return key(default, check=lambda value: low <= value <= high, allowed=allowed, doc=doc)


def finite(text: str) -> float:
    """Return a finite number; ValueError if the text is not one."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f'{text!r} is not finite')
    return value


def parse_assignments(
    texts: Iterable[str], where: str, example: str, parse: Callable[[str], Any] = finite
) -> dict[str, Any]:
    """
    Return {name: value} of texts such as `block_mass=0.3`; ConfigError with an example.

    `parse` turns the text after the first `=` into a value, or raises ValueError.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, _, number = (part.strip() for part in text.partition('='))
        try:
            value = parse(number)
        except ValueError:
            name = ''
        if not name:
            raise ConfigError(f'{where}: found {text!r}, expected name=value, such as {example}')
        if name in values:
            raise ConfigError(f'{where}: {name} is given twice')
        values[name] = value
    return values


def build(cls: type[T], data: object, where: str) -> T:
    """Return `cls` built from a mapping; ConfigError names the line and key of the first error."""
    try:
        return _build(cls, data, where)
    except ConfigError as error:
        raise located(error, where, data) from None


def _build(cls: type[T], data: object, where: str) -> T:
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    if 'also' in fields and isinstance(data, list) and data and isinstance(data[0], Mapping):
        data = {**data[0], 'also': data[1:]}
    if not isinstance(data, Mapping):
        raise ConfigError(f'{where}: expected a mapping of keys, found {_show(data)}')
    for name in data:
        if name not in fields:
            raise ConfigError(f'{where}: {unknown("key", name, fields)}')
    hints = typing.get_type_hints(cls)
    values = {}
    for name, field in fields.items():
        if name in data:
            given = data[name]
            if not field.metadata.get('bounded', True) and isinstance(given, list):
                given = [UNBOUNDED * math.copysign(1, v) if _is_infinite(v) else v for v in given]
            values[name] = _convert(given, hints[name], f'{where}: {name}')
            check = field.metadata.get('check')
            if check and values[name] is not None and not check(values[name]):
                allowed = field.metadata['allowed']
                raise ConfigError(
                    f'{where}: {name}: found {_show(data[name])}, expected {allowed}'
                )
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f'{where}: missing key {name!r} ({describe_type(hints[name])})')
    try:
        return cls(**values)
    except ConfigError as error:  # raised by __post_init__: contradicting keys
        raise ConfigError(f'{where}: {error}') from None


def _is_infinite(value: object) -> bool:
    return isinstance(value, float) and math.isinf(value)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Return `value` converted to the type `hint`, or raise ConfigError."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        (hint,) = (arg for arg in args if arg is not type(None))
        section = dataclasses.is_dataclass(hint)
        if value is None or (value == 'none' and section):
            return None
        if section and isinstance(value, str):
            raise ConfigError(f'{where}: found {_show(value)}, expected a mapping of keys or none')
        return _convert(value, hint, where)
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, where)  # type: ignore[arg-type]
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(v, args[0], f'{where}[{i}]') for i, v in enumerate(value))
    if origin in (dict, Mapping) and isinstance(value, dict):
        return {k: _convert(v, args[1], f'{where}: {k}') for k, v in value.items()}
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not abs(value) <= sys.float_info.max:  # NaN, infinity, or too large
            raise ConfigError(f'{where}: found {_show(value)}, expected a finite number')
        return float(value)
    if hint is int and type(value) is int and abs(value) > MAX_INT:
        raise ConfigError(f'{where}: found {_show(value)}, expected an integer up to {MAX_INT}')
    # type(), since True is an int
    if hint is Any or (hint in (int, str, bool, dict) and type(value) is hint):
        return value
    remedy = ''
    if hint is str and isinstance(value, (bool, int, float)):
        remedy = ': quote it' + (
            ' (no, off, yes and on are booleans)' if type(value) is bool else ''
        )
    elif hint is float and isinstance(value, str) and _ANGLE.search(value):
        remedy = '; write angles as `!degrees 30` or `!radians pi/6`'
    raise ConfigError(f'{where}: found {_show(value)}, expected {describe_type(hint)}{remedy}')


def describe_type(hint: Any) -> str:
    """Return a type annotation in the terms of YAML."""
    simple = {float: 'a number', int: 'an integer', str: 'a string', bool: 'true or false'}
    if hint in simple:
        return simple[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return f'a list, each {describe_type(args[0])}'
    if origin in (types.UnionType, typing.Union):
        return ' or '.join('null' if arg is type(None) else describe_type(arg) for arg in args)
    return 'a mapping of keys'


def _show(value: object) -> str:
    if type(value) is int and abs(value) > MAX_INT:
        return f'an integer of {value.bit_length()} bits'  # too long to print
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + '...'
