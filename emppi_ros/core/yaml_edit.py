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
    wanted, edited = merged(yaml_loader.parse(text, where), changes), text
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # as `parse` requires
    # from the end, so that places stay valid; of edits at one place the first comes first
    edits = sorted([*_edits(text, root, changes)][::-1], key=lambda edit: edit[0], reverse=True)
    for start, end, new in edits:
        edited = f'{edited[:start]}{new}{edited[end:]}'
    try:
        agrees = yaml_loader.parse(edited, where) == wanted
    except ConfigError:
        agrees = False
    if not agrees:
        names = ', '.join(_names(changes))
        raise ConfigError(f'{where}: {names}: cannot be set without rewriting the file by hand')
    return edited


def _names(changes: Mapping[str, Any], prefix: str = '') -> Iterator[str]:
    """Yield the path of everything in nested mappings that is not a mapping."""
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from _names(value, f'{prefix}{name}: ')
        else:
            yield prefix + name


def _edits(
    text: str, node: yaml.MappingNode, changes: Mapping[str, Any]
) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and replacement of all parts of the text that change."""
    children = {key.value: child for key, child in node.value}
    for name, value in changes.items():
        child = children.get(name)
        if isinstance(value, Mapping) and isinstance(child, yaml.MappingNode):
            yield from _edits(text, child, value)
        elif child is not None:
            mapping = isinstance(child, yaml.MappingNode)
            start, end = (
                child.start_mark.index,
                (_last(child) if mapping else child).end_mark.index,
            )
            yield start, end, ('' if start < end else ' ') + flow(value)  # ' ': without a value
    added = [f'{name}: {flow(v)}' for name, v in changes.items() if name not in children]
    if added and node.flow_style:
        brace = node.end_mark.index - 1
        comma = ', ' if node.value else ''
        yield len(text[:brace].rstrip()), brace, comma + ', '.join(added)
    elif added:
        end = text.find('\n', _last(node).end_mark.index)
        end = len(text) if end < 0 else end
        indent = '\n' + ' ' * node.start_mark.column
        yield end, end, ''.join(indent + entry for entry in added)


def _last(node: yaml.Node) -> yaml.Node:
    """Return the last value of lines, as their mapping ends where the next starts."""
    while isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        node = node.value[-1][1] if isinstance(node, yaml.MappingNode) else node.value[-1]
    return node


def flow(value: Any) -> str:
    """Return a value as YAML in one line."""
    line = yaml.safe_dump({'x': value}, default_flow_style=True, width=math.inf)
    return line.strip().removeprefix('{x: ').removesuffix('}')
