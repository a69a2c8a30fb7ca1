"""Set values in a YAML text; comments, order and all other lines stay as they are."""

from collections.abc import Iterator, Mapping
import math
from typing import Any

import yaml

from emppi_ros.core import yaml_loader
from emppi_ros.core.errors import ConfigError


def merged(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with changes merged in, at every depth."""
    result = dict(data)
    for name, value in changes.items():
        nested = isinstance(value, Mapping) and isinstance(data.get(name), Mapping)
        result[name] = merged(data[name], value) if nested else value
    return result


def set_values(text: str, changes: Mapping[str, Any], where: str) -> str:
    """Return a YAML text with changes merged in; ConfigError if that needs rewriting the file."""
    wanted = merged(yaml_loader.parse(text, where), changes)
    edited = text
    try:
        for path, value in _leaves(changes):
            edited = _set(edited, path, value)
        agrees = yaml_loader.parse(edited, where) == wanted
    except (ConfigError, yaml.YAMLError):
        agrees = False
    if not agrees:
        names = ', '.join(': '.join(path) for path, _ in _leaves(changes))
        raise ConfigError(f'{where}: {names}: cannot be set without rewriting the file by hand')
    return edited


def _leaves(
    changes: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield path and value of everything in nested mappings that is not a mapping."""
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, name))
        else:
            yield (*path, name), value


def _set(text: str, path: tuple[str, ...], value: Any) -> str:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    assert node is not None  # `set_values` has read a mapping
    for i, name in enumerate(path):
        rest = _nested(path[i + 1 :], value)
        if not isinstance(node, yaml.MappingNode):
            return _replace(text, node, _nested(path[i:], value))
        children = [child for key, child in node.value if key.value == name]
        if not children:
            return _add(text, node, name, rest)
        node = children[0]
    return _replace(text, node, value)


def _nested(path: tuple[str, ...], value: Any) -> Any:
    """Return a value inside of one mapping for each name of a path."""
    for name in reversed(path):
        value = {name: value}
    return value


def _replace(text: str, node: yaml.Node, value: Any) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    space = ' ' if start == end else ''  # a key without a value
    return f'{text[:start]}{space}{flow(value)}{text[end:]}'


def _add(text: str, node: yaml.MappingNode, name: str, value: Any) -> str:
    """Return the text with another key at the end of a mapping."""
    entry = f'{name}: {flow(value)}'
    if node.flow_style:
        end = node.end_mark.index - 1  # before the brace
        kept = text[:end].rstrip()
        comma = ', ' if node.value else ''
        return f'{kept}{comma}{entry}{text[end:]}'
    last: yaml.Node = node  # a mapping of lines ends where the next one starts, after comments
    while isinstance(last, yaml.CollectionNode) and last.value and not last.flow_style:
        last = last.value[-1][1] if isinstance(last, yaml.MappingNode) else last.value[-1]
    end = text.find('\n', last.end_mark.index)
    end = len(text) if end < 0 else end
    indent = ' ' * node.start_mark.column
    return f'{text[:end]}\n{indent}{entry}{text[end:]}'


def flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    line = yaml.safe_dump({'x': value}, default_flow_style=True, width=math.inf)
    return line.strip().removeprefix('{x: ').removesuffix('}')
