"""
Load YAML safely, with line numbers: limited size, depth and aliases, and no duplicate keys.

As in files of ROS, `!degrees 30` and `!radians pi/6` are angles in radians. What YAML 1.1 reads as
another number than most people do is refused: `1:30` (90) and `010` (8).
"""

from collections.abc import Iterator, Mapping
import functools
import math
from pathlib import Path
import re
from typing import Any, NoReturn

import yaml

from emppi_ros.core.errors import ConfigError, EmppiError

MAX_DEPTH = 32  # levels; a task file has five
MAX_CHARACTERS = 1 << 15  # characters; parsing takes up to 0.5 s
MAX_COPIED = 10_000  # values that aliases repeat
_TAG = 'tag:yaml.org,2002:'
_LONGEST = 20  # characters of numbers that are shown
_STRINGS = [_TAG + name for name in ('str', 'timestamp', 'value')]  # 2024-01-02 and = are, too
_ANGLES = {'!degrees': math.radians(1.0), '!radians': 1.0}
_ANGLE = re.compile(r'([-+]?[\d.]*(?:[eE][-+]?\d+)?) *\*? *(pi)?(?: */ *([\d.]+))?')
_OTHER_UNIT = re.compile(r'(?!.*_rad).*_(deg|s|m|hz|px)')  # names of keys


class Document(dict[str, Any]):
    """A mapping read from YAML, with the line number of each key."""

    lines: Mapping[str, int]  # by path of the key, such as `limits: velocity`


class _Loader(yaml.SafeLoader):
    """Safe loader with few aliases and no duplicate keys, which reads 1e-4 as a number."""

    depth = deepest = copied = 0

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.extents: dict[str, tuple[int, int]] = {}  # values and levels below each anchor

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: yaml.NodeEvent = self.peek_event()  # type: ignore[no-untyped-call]  # of PyYAML
        line, anchor, levels = _line(event), event.anchor, 1
        if isinstance(event, yaml.AliasEvent) and anchor in self.anchors:
            if anchor not in self.extents:
                raise ConfigError(f'line {line}: alias *{anchor} is within &{anchor} itself')
            values, levels = self.extents[anchor]
            self.copied += values
            if self.copied > MAX_COPIED:
                raise ConfigError(f'line {line}: aliases repeat more than {MAX_COPIED} values')
        if self.depth + levels > MAX_DEPTH:
            raise ConfigError(f'line {line}: nested more than {MAX_DEPTH} levels deep')
        outer, self.deepest = self.deepest, self.depth + levels
        self.depth += 1
        node: Any = super().compose_node(parent, index)
        self.depth -= 1
        if anchor and not isinstance(event, yaml.AliasEvent):
            self.extents[anchor] = _count(node), self.deepest - self.depth
        self.deepest = max(outer, self.deepest)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        merged: dict[Any, Any] = {}
        values: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == f'{_TAG}merge':
                parts = self.construct_object(value_node, deep=True)
                for part in parts if isinstance(parts, list) else [parts]:
                    if not isinstance(part, dict):
                        raise ConfigError(f'line {line}: <<: expected a mapping, such as *name')
                    merged = {**part, **merged}
                continue
            if key_node.tag not in _STRINGS:
                raise ConfigError(f'line {line}: key {_not_a_string(key_node, node)}')
            key = self.construct_object(key_node, deep=True)
            if key in values:
                raise ConfigError(f'line {line}: key {key!r} given twice')
            if value_node.tag in _ANGLES and _OTHER_UNIT.fullmatch(key):
                raise ConfigError(
                    f'line {line}: {key}: {value_node.tag} gives radians; expected the number '
                    'alone, in the unit of the key'
                )
            values[key] = self.construct_object(value_node, deep=True)
        return {**merged, **values}

    def construct_number(self, node: yaml.ScalarNode) -> float:
        """Return an integer or float; ConfigError if YAML 1.1 reads it in base 60 or 8."""
        text, line = str(node.value), node.start_mark.line + 1
        integer = node.tag == f'{_TAG}int'
        if len(text) > _LONGEST and ':' in text:
            raise ConfigError(
                f'line {line}: {text[:_LONGEST]}... is in base 60 in YAML 1.1: quote it'
            )
        value = self.construct_yaml_int(node) if integer else self.construct_yaml_float(node)
        if ':' in text:
            raise ConfigError(
                f'line {line}: {text} is {value:g} in YAML 1.1, in base 60: write that number, or '
                f"'{text}' for a string"
            )
        if integer and re.fullmatch('[-+]?0[0-7_]+', text) and value:
            raise ConfigError(
                f'line {line}: {text} is {value} in YAML 1.1, in base 8: write it without '
                f"the zero, or '{text}' for a string"
            )
        return value

    def construct_angle(self, node: yaml.Node) -> float:
        """Return the angle of `!degrees 30` or `!radians pi/6` in radians."""
        text = str(node.value) if isinstance(node, yaml.ScalarNode) else 'a list or mapping'
        match = _ANGLE.fullmatch(text.strip())
        try:
            number, pi, divisor = match.groups() if match else ('', None, None)
            times = float(number + '1' if pi and number in ('', '-', '+') else number)
            return times * (math.pi if pi else 1.0) / float(divisor or 1) * _ANGLES[node.tag]
        except (ValueError, ZeroDivisionError):
            raise ConfigError(
                f'line {node.start_mark.line + 1}: {node.tag}: found {text[:60]!r}, expected a '
                'number, such as 30 or pi/6; tag each number of a list'
            ) from None

    def construct_undefined(self, node: yaml.Node) -> NoReturn:
        """Raise ConfigError: the tag is unknown."""
        tag = str(node.tag).replace(_TAG, '!!')
        raise ConfigError(
            f'line {node.start_mark.line + 1}: unknown tag {tag!r}; available: '
            + ', '.join(_ANGLES)
        )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _count(node: yaml.Node) -> int:
    """Return the number of values in a node; those of aliases were counted when composed."""
    if isinstance(node, yaml.MappingNode):
        return 1 + sum(_count(value) for _, value in node.value)
    if isinstance(node, yaml.SequenceNode):
        return 1 + sum(map(_count, node.value))
    return 1


def _not_a_string(key: yaml.Node, mapping: yaml.MappingNode) -> str:
    """Say that a key is no string, and what may be meant."""
    if not isinstance(key, yaml.ScalarNode):
        return 'is not a string, but a list or mapping'
    text = str(key.value)[:60]
    if mapping.flow_style and text.isdigit():
        return f'{text} is not a string: write decimals with a point, such as 0.02'
    return f"{text} is not a string: quote it: '{text}'"


# PyYAML follows YAML 1.1, where 1e-4 (no dot) and 1.5e3 (no sign) are strings
_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float',
    re.compile(r'^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$'),
    list('-+.0123456789'),
)
_CONSTRUCTORS: dict[Any, Any] = {
    **dict.fromkeys([f'{_TAG}int', f'{_TAG}float'], _Loader.construct_number),
    **dict.fromkeys(_STRINGS, _Loader.construct_yaml_str),
    **dict.fromkeys(_ANGLES, _Loader.construct_angle),
    None: _Loader.construct_undefined,
}
for _tag, _constructor in _CONSTRUCTORS.items():
    _Loader.add_constructor(_tag, _constructor)
# raised by PyYAML for an explicit tag with an invalid value, such as `!!int ""`
_TAG_ERRORS = (ValueError, LookupError, AttributeError, TypeError, RecursionError)


def parse(text: str, where: str, max_characters: int = MAX_CHARACTERS) -> dict[str, Any]:
    """Return the mapping in a YAML text of at most `max_characters`; `where` names its source."""
    if len(text) > max_characters:
        raise ConfigError(f'{where}: more than {max_characters} characters')
    try:
        node = _compose(text)
        lines = dict(_lines(node, ''))
        data = _Loader('').construct_document(node) if node else None
    except ConfigError as error:
        raise ConfigError(f'{where}: {error}') from None
    except yaml.MarkedYAMLError as error:
        line = f'line {error.problem_mark.line + 1}: ' if error.problem_mark else ''
        reason = ', '.join(part for part in (error.context, error.problem) if part)
        tab = '; indent with spaces' if "'\\t'" in reason else ''
        raise ConfigError(f'{where}: {line}not valid YAML: {reason}{tab}') from None
    except (yaml.YAMLError, *_TAG_ERRORS) as error:
        raise ConfigError(f'{where}: not valid YAML: {error}') from None
    if not isinstance(data, dict):
        raise ConfigError(f'{where}: expected a mapping of keys, found {type(data).__name__}')
    document = Document(data)
    document.lines = lines
    return document


@functools.lru_cache(maxsize=32)  # the same files are read again for each run of a benchmark
def _compose(text: str) -> yaml.Node | None:
    """Return the root of a YAML text, None if it is empty."""
    root: yaml.Node | None = _Loader(text).get_single_node()
    return root


def _lines(node: yaml.Node | None, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield path and line of every key below a node; items of a list have no path of their own."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.tag == f'{_TAG}merge':
                parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
                for part in parts[::-1]:
                    yield from _lines(part, prefix)
        for name, value in node.value:
            if name.tag != f'{_TAG}merge':
                yield prefix + str(name.value), name.start_mark.line + 1
                yield from _lines(value, f'{prefix}{name.value}: ')


def located(error: EmppiError, where: str, data: object) -> EmppiError:
    """Return an error prefixed with document and line of the key with which its text begins."""
    text = str(error).removeprefix(f'{where}: ')
    if where in text or text.startswith('line '):
        return error
    named = re.sub(r" \([a-z_]+\)(?=:)|unknown key '(?=\S*')", '', text)  # keep only the path
    lines: Mapping[str, int] = getattr(data, 'lines', {})
    paths = [
        path
        for path in lines
        if named.startswith(path) and named[len(path) : len(path) + 1] in (*": ['", '')
    ]
    line = f'line {lines[max(paths, key=len)]}: ' if paths else ''
    return type(error)(f'{where}: {line}{text}')


def load(path: Path, max_characters: int = MAX_CHARACTERS) -> dict[str, Any]:
    """Return the mapping in a YAML file of at most `max_characters`."""
    try:
        with path.open(encoding='utf-8') as file:
            text = file.read(max_characters + 1)  # bounded: the file may be huge
    except UnicodeDecodeError as error:
        raise ConfigError(f'{path}: cannot be read: {error}; save it as UTF-8') from None
    except OSError as error:
        raise ConfigError(f'{path}: cannot be read: {error}') from None
    return parse(text, str(path), max_characters)
