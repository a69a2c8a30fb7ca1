"""Options of identification methods, from the fields of their option classes."""

import argparse
from collections.abc import Mapping
import dataclasses
import typing
from typing import Any

from emppi_ros.cli.command import Subcommand
from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError


def add_method(command: Subcommand, offered: Mapping[str, Any], default: str) -> None:
    """Add --method, one of several objects with a `description` and `options`, and its options."""
    described = '; '.join(f'{name}: {item.description}' for name, item in offered.items())
    command.option('--method', described, choices=tuple(offered), default=default)
    groups: dict[tuple[str, ...], Any] = {}
    for name, (field, takers) in _takers(offered).items():
        if takers not in groups:
            title = f'--method {", ".join(takers)}'
            groups[takers] = command.parser.add_argument_group(title)
        kind = typing.get_type_hints(offered[takers[0]].options)[name]
        how: dict[str, Any] = {'type': kind}
        if typing.get_origin(kind) is Mapping:
            how = {'nargs': '+', 'metavar': 'NAME=NUMBER'}
        elif typing.get_origin(kind) is typing.Literal:
            how = {'choices': typing.get_args(kind)}
        defaults = {taker: getattr(offered[taker].options(), name) for taker in takers}
        shown = [f'{taker}: {value}' for taker, value in defaults.items()]
        if len(set(map(str, defaults.values()))) == 1:
            shown = [str(value) for value in defaults.values()][:1]
        text = field.metadata['doc']
        if {} not in defaults.values():
            text += f' ({", ".join(shown)})'
        groups[takers].add_argument(
            _flag(name), default=argparse.SUPPRESS, help=text.replace('%', '%%'), **how
        )


def read_options(offered: Mapping[str, Any], options: argparse.Namespace) -> Any:
    """Return the options of the method; ConfigError for one of another method, or out of range."""
    cls = offered[options.method].options
    given = {}
    for name, (field, takers) in _takers(offered).items():
        if not hasattr(options, name):
            continue
        value, flag = getattr(options, name), _flag(name)
        if options.method not in takers:
            raise ConfigError(
                f'{flag}: --method {options.method} does not take it: leave it out, or use '
                f'--method {" or ".join(takers)}'
            )
        if typing.get_origin(typing.get_type_hints(cls)[name]) is Mapping:
            value = config.parse_assignments(value, flag, 'position/hinge=0.001')
        check = field.metadata['check']
        if check is not None and not check(value):
            shown = f'{value:g}' if isinstance(value, float) else value
            raise ConfigError(f'{flag}: found {shown}, expected {field.metadata["allowed"]}')
        given[name] = value
    return cls(**given)


def _takers(offered: Mapping[str, Any]) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """Return each option with the names of the methods that take it."""
    fields: dict[str, tuple[Any, tuple[str, ...]]] = {}
    for name, method in offered.items():
        for field in dataclasses.fields(method.options):
            fields[field.name] = field, (*fields.get(field.name, (None, ()))[1], name)
    return fields


def _flag(name: str) -> str:
    return f'--{name.replace("_", "-")}'
