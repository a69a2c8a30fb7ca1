"""
YAML texts to plain mappings that know their lines.

Only what a safe loader knows is read, within a size, and nothing twice: no aliases, no
duplicate keys. An error names the file and the line.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
import re
from typing import Any

import yaml

from emppi_ros.core.errors import ConfigError, EmppiError

MAX_DEPTH = 32  # levels; a task has five
MAX_BYTES = 1 << 15  # characters, read in half a second


class Document(dict[str, Any]):
    """The mapping in a YAML text, which knows on what line each of its keys stands."""

    lines: Mapping[str, int]  # by the path of the key, such as `limits: velocity`


class _Loader(yaml.SafeLoader):
    """Safe loader that refuses duplicate keys and aliases, and reads 1e-4 as a number."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise ConfigError(f'line {mark.line + 1}: YAML aliases (*name) are not allowed')
        if self.depth == MAX_DEPTH:
            line = self.peek_event().start_mark.line + 1
            raise ConfigError(f'line {line}: nested more than {MAX_DEPTH} levels deep')
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConfigError(f'line {key_node.start_mark.line + 1}: key {key!r} is no string')
            if key in seen:
                raise ConfigError(f'line {key_node.start_mark.line + 1}: key {key!r} given twice')
            seen.add(key)
        return super().construct_mapping(node, deep)


# PyYAML follows YAML 1.1, where 1e-4 (no dot) and 1.5e3 (no sign) are strings
_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float',
    re.compile(r'^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$'),
    list('-+.0123456789'),
)
# what PyYAML raises for an explicit tag whose value does not fit, such as `!!int ""`
_MISFITS = (ValueError, LookupError, AttributeError, TypeError, RecursionError)


def parse(text: str, where: str, most: int = MAX_BYTES) -> dict[str, Any]:
    """Return the mapping in a YAML text; `where` names its source in errors."""
    if len(text) > most:
        raise ConfigError(f'{where}: more than {most} characters; a task file has a few thousand')
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines = dict(_lines(node, ''))
        data = loader.construct_document(node) if node else None
    except ConfigError as error:
        raise ConfigError(f'{where}: {error}') from None
    except (yaml.YAMLError, *_MISFITS) as error:
        raise ConfigError(f'{where}: not valid YAML: {error}') from None
    if not isinstance(data, dict):
        raise ConfigError(f'{where}: expected a mapping of keys, found {type(data).__name__}')
    document = Document(data)
    document.lines = lines
    return document


def _lines(node: yaml.Node | None, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield the path and the line of every key below a node; lists have but one path."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield prefix + str(name.value), name.start_mark.line + 1
            yield from _lines(value, f'{prefix}{name.value}: ')


def located(error: EmppiError, where: str, data: object) -> EmppiError:
    """
    Return an error about a document with the document's name, and the line of its key.

    An error speaks of a key by beginning with its path, as all of them do.
    """
    text = str(error).removeprefix(f'{where}: ')
    if where in text or text.startswith('line '):
        return error
    spoken = re.sub(r" \([a-z_]+\)(?=:)|unknown key '(?=\S*')", '', text)  # the path alone
    paths = [
        path
        for path in getattr(data, 'lines', {})
        if spoken.startswith(path) and spoken[len(path) : len(path) + 1] in (*": ['", '')
    ]
    line = f'line {data.lines[max(paths, key=len)]}: ' if paths else ''
    return type(error)(f'{where}: {line}{text}')


def load(path: Path, most: int = MAX_BYTES) -> dict[str, Any]:
    """Return the mapping in a YAML file."""
    try:
        with path.open(encoding='utf-8') as file:
            text = file.read(most + 1)  # and no more, whatever it is
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'{path}: cannot be read: {error}') from None
    return parse(text, str(path), most)
