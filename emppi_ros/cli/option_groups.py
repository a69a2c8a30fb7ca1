"""Flags from the fields of option classes: each method or study that is offered has one."""

import argparse
from collections.abc import Mapping
import dataclasses
import typing
from typing import Any

from emppi_ros.cli import output
from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError


def add_method(parser: Any, offered: Mapping[str, Any], default: str) -> None:
    """Add --method, one of several objects with a `description` and `options`, and its flags."""
    described = (f'{name}: {item.description}' for name, item in offered.items())
    parser.add_argument(
        '--method',
        choices=tuple(offered),
        default=default,
        help=f'{"; ".join(described)} ({default})',
    )
    for names, fields in _grouped(offered).items():
        group = parser.add_argument_group(f'--method {", ".join(names)}')
        for field in fields:
            _add_flag(group, field, {name: offered[name] for name in names})


def read_options(offered: Mapping[str, Any], options: argparse.Namespace) -> Any:
    """Return the options of the method; ConfigError for one of another method, or out of range."""
    cls = offered[options.method].options
    fields = {field.name: field for field in dataclasses.fields(cls)}
    given = {}
    for names, group in _grouped(offered).items():
        for name in (field.name for field in group if hasattr(options, field.name)):
            value, flag = getattr(options, name), _flag(name)
            if name not in fields:
                raise ConfigError(
                    f'{flag}: --method {options.method} does not take it: leave it out, or use '
                    f'--method {" or ".join(names)}'
                )
            if typing.get_origin(typing.get_type_hints(cls)[name]) is Mapping:
                value = config.parse_assignments(value, flag, 'position/hinge=0.001')
            check = fields[name].metadata['check']
            if check is not None and not check(value):
                allowed = fields[name].metadata['allowed']
                shown = f'{value:g}' if isinstance(value, float) else value
                raise ConfigError(f'{flag}: found {shown}, expected {allowed}')
            given[name] = value
    return cls(**given)


def _grouped(offered: Mapping[str, Any]) -> dict[tuple[str, ...], list[Any]]:
    """Return the options of the methods, by the names of the methods that take them."""
    takers: dict[str, list[str]] = {}
    fields = {}
    for name, method in offered.items():
        for field in dataclasses.fields(method.options):
            takers.setdefault(field.name, []).append(name)
            fields[field.name] = field
    groups: dict[tuple[str, ...], list[Any]] = {}
    for option, names in takers.items():
        groups.setdefault(tuple(names), []).append(fields[option])
    return groups


def _add_flag(group: Any, field: Any, takers: Mapping[str, Any]) -> None:
    """Add a field of the methods' option classes as a flag, which is absent unless it is given."""
    kind = typing.get_type_hints(next(iter(takers.values())).options)[field.name]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    how: dict[str, Any] = {'type': output.seeds if kind is range else kind}
    if origin is Mapping:
        how = {'nargs': '+', 'metavar': 'NAME=NUMBER'}
    elif origin is list:
        how = {'nargs': '+', 'type': arguments[0]}
    elif origin is typing.Literal:
        how = {'choices': arguments}
    elif kind is bool:
        how = {'action': 'store_true'}
    defaults = {name: getattr(method.options(), field.name) for name, method in takers.items()}
    shown = {name: _show(value) for name, value in defaults.items()}
    alike = len(set(shown.values())) == 1
    values = set(shown.values()) if alike else [f'{name}: {text}' for name, text in shown.items()]
    text = field.metadata['doc'] + (f' ({", ".join(values)})' if all(shown.values()) else '')
    help_text = text.replace('%', '%%')
    group.add_argument(_flag(field.name), default=argparse.SUPPRESS, help=help_text, **how)


def _show(value: object) -> str:
    """Return a default for the help text; '' if it needs no mention."""
    if isinstance(value, range):
        return str(len(value))
    if isinstance(value, list):
        return ' '.join(map(str, value))
    return '' if value is False or value == {} else str(value)


def _flag(name: str) -> str:
    return f'--{name.replace("_", "-")}'
