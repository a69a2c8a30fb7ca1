"""
The command `emppi`, and its commands, from `emppi tasks` to `emppi bench`.

Exit status: 0 when a command ran to its end (whether a task succeeded is in its output), 1 when a
replay parts from what was recorded, 2 when something given to it is wrong, 3 when `emppi task`
began a swap that did not end, 130 after Ctrl-C.
"""

import argparse
from collections.abc import Sequence
import importlib
import os
import sys

from emppi_ros import __version__
from emppi_ros.core.errors import EmppiError

WRONG, INTERRUPTED = 2, 130
# each module with its commands. Only that of the command which is given is loaded: an operator who
# gives another task does not wait for what benchmarks need
MODULES = {
    'tasks': ('tasks', 'check'),
    'run': ('run',),
    'view': ('view',),
    'demo': ('demo',),
    'task': ('task',),
    'record': ('record',),
    'replay': ('replay', 'report'),
    'markers': ('markers',),
    'excite': ('excite',),
    'identify': ('identify',),
    'bench_planner': ('bench',),
}


def make_parser(command: str = '') -> argparse.ArgumentParser:
    """Return the parser of a command, or else of all."""
    parser = argparse.ArgumentParser(
        prog='emppi',
        description='Ensemble model predictive path integral control with an online belief.',
        epilog='`emppi COMMAND --help` tells more about a command.',
    )
    parser.add_argument('--version', action='version', version=f'emppi {__version__}')
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    named = [module for module, names in MODULES.items() if command in names]
    for module in named or MODULES:
        importlib.import_module(f'emppi_ros.cli.{module}').add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; errors are a line on stderr."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = make_parser(words[0] if words else '').parse_args(words)
    options.words = words  # as they were given, for reports
    try:
        status = options.execute(options) or 0
        sys.stdout.flush()
    except EmppiError as error:
        print(f'error: {error}', file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print('interrupted', file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status
