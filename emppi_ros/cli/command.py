"""A command of `emppi`: its help is the docstring of the function that it calls."""

import argparse
from collections.abc import Callable
import inspect
from typing import Any

from emppi_ros.cli import output


class Subcommand:
    """A command, to which options are added."""

    def __init__(
        self, commands: Any, name: str, execute: Callable[[argparse.Namespace], int | None]
    ) -> None:
        """Add a command that calls a function, whose docstring describes it to users."""
        text = inspect.getdoc(execute) or ''
        title = text.partition('\n')[0]
        self.parser: argparse.ArgumentParser = commands.add_parser(
            name,
            help=title[:1].lower() + title[1:].rstrip('.'),
            description=text,
            formatter_class=_ParagraphFormatter,
        )
        self.parser.set_defaults(execute=execute)

    def option(
        self,
        name: str,
        text: str,
        type: Callable[[str], Any] | None = None,
        metavar: str | tuple[str, ...] | None = None,
        default: Any = None,
        group: Any = None,
        **settings: Any,
    ) -> None:
        """
        Add an option; its help is the text, and the default in parentheses.

        It is a flag unless a type or other `settings` of argparse's `add_argument` are given.
        """
        if type is None and not settings:
            settings['action'] = 'store_true'
        else:
            settings |= {'type': type, 'metavar': metavar, 'default': default}
            if default not in (None, '', []):
                text += f' ({default:g})' if isinstance(default, float) else f' ({default})'
        (group or self.parser).add_argument(name, help=text, **settings)

    def add_seeds(self, text: str) -> None:
        """Add --seed, or --seeds for several runs."""
        group = self.parser.add_mutually_exclusive_group()
        self.option('--seed', 'random seed', output.whole, default=0, group=group)
        self.option('--seeds', text, output.seeds, 'A-B', group=group)

    def add_truth(self) -> None:
        """Add --truth, values of a simulated robot's parameters."""
        text = (
            'true value of a parameter, hidden from the planner (drawn from the seed); '
            'NAME=0.3,1.2@5 changes it to 1.2 at 5 s; repeatable'
        )
        self.option('--truth', text, str, 'NAME=VALUE', [], action='append')

    def add_prior(self) -> None:
        """Add --prior, where a belief starts."""
        text = "prior of the belief instead of the task's own: a name in config/priors, or a YAML "
        self.option('--prior', text + 'file', str, 'FILE', '')


class _ParagraphFormatter(argparse.HelpFormatter):
    """Wraps each paragraph of a description."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return '\n\n'.join(fill(part, width, indent) for part in text.split('\n\n'))
