"""Load YAML safely, with line numbers: limited size and depth, no aliases or duplicate keys."""

from collections.abc import Iterator, Mapping
import functools
from pathlib import Path
import re
from typing import Any

import yaml

from emppi_ros.core.errors import ConfigError, EmppiError

MAX_DEPTH = 32  # levels; a task file has five
MAX_CHARACTERS = 1 << 15  # characters; parsing takes up to 0.5 s


class Document(dict[str, Any]):
    """A mapping read from YAML, with the line number of each key."""

    lines: Mapping[str, int]  # by path of the key, such as `limits: velocity`


class _Loader(yaml.SafeLoader):
    """Safe loader that rejects duplicate keys and aliases, and reads 1e-4 as a number."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ConfigError(f'line {self._line()}: YAML aliases (*name) are not allowed')
        if self.depth == MAX_DEPTH:
            raise ConfigError(f'line {self._line()}: nested more than {MAX_DEPTH} levels deep')
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def _line(self) -> int:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]  # of PyYAML
        return event.start_mark.line + 1 if event.start_mark else 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            key, line = self.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise ConfigError(f'line {line}: key {key!r} is not a string')
            if key in keys:
                raise ConfigError(f'line {line}: key {key!r} given twice')
            keys.add(key)
        return super().construct_mapping(node, deep)


# PyYAML follows YAML 1.1, where 1e-4 (no dot) and 1.5e3 (no sign) are strings
_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float',
    re.compile(r'^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$'),
    list('-+.0123456789'),
)
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
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'{path}: cannot be read: {error}') from None
    return parse(text, str(path), max_characters)
