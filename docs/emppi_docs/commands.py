"""Reference of the command `emppi`, of the Makefile's targets, and of the errors."""

import argparse
from collections.abc import Iterator
import inspect
import re

from emppi_docs import keys
from emppi_docs.generated import table
from emppi_ros.cli import make_parser
from emppi_ros.core import errors as named
from emppi_ros.core import paths


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of all executable commands, including those of nested groups."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for group in groups:
        for inner in group.choices.values():
            yield from commands(inner)
    if parser.get_default('execute') is not None:
        yield parser


def all_of_them() -> str:
    """Return one section per command: description, usage and options."""
    parts = []
    for parser in commands(make_parser()):
        parser.formatter_class = _wide
        usage = parser.format_usage().removeprefix('usage: ')
        parts.append(f'## `{parser.prog}`\n\n{_escape(parser.description or "")}\n')
        parts.append(f'```text\n{usage}```\n\n{table(("argument", "description"), _rows(parser))}')
    return '\n'.join(parts)


def _wide(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=100)


def _rows(parser: argparse.ArgumentParser) -> list[tuple[str, ...]]:
    rows = []
    formatter = _wide(parser.prog)
    for action in parser._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        name = ', '.join(action.option_strings) or formatter._format_args(action, action.dest)
        value = ''
        if action.option_strings and action.nargs != 0:
            value = ' ' + formatter._format_args(action, action.dest.upper())
        rows.append((f'`{name}{value}`', _escape(formatter._expand_help(action))))
    return rows


def _escape(text: str) -> str:
    return re.sub(r'([*_<])', r'\\\1', text) if '`' not in text else text


def targets() -> str:
    """Return the table of Makefile targets, from the Makefile's help."""
    text = (paths.share() / 'Makefile').read_text()
    rows = re.findall(r'@echo "(make \S+(?: [A-Z]+=\S+)?) +(.+)"', text)
    return table(
        ('command', 'description'),
        [(f'`{n}`', words.replace('$(VENV)', '`.venv`')) for n, words in rows],
    )


def errors() -> str:
    """Return the table of error classes."""
    classes = [
        cls
        for _, cls in inspect.getmembers(named, inspect.isclass)
        if issubclass(cls, named.EmppiError)
    ]
    rows = [(f'`{cls.__name__}`', keys.first_sentence(cls)) for cls in classes]
    return table(('error', 'description'), rows)
