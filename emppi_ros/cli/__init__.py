"""
The command `emppi` and its subcommands.

Exit status: 0 if a command completed (its output says whether a task succeeded), 1 if a replay
differs from the recording, 2 for invalid input, 3 if `emppi task` started a task switch that did
not complete, 130 after Ctrl-C.
"""

import argparse
from collections.abc import Sequence
import importlib
import os
import sys

from emppi_ros import __version__
from emppi_ros.core.errors import EmppiError

INVALID, INTERRUPTED = 2, 130
# each module with its commands; only the module of the given command is imported, so that
# switching the task, for example, does not wait for the imports of benchmarks
MODULES = {
    'tasks': ('tasks', 'check', 'task'),
    'robot': ('robot',),
    'run': ('run',),
    'calibrate': ('calibrate',),
    'view': ('view',),
    'demo': ('demo',),
    'record': ('record',),
    'replay': ('replay', 'report'),
    'markers': ('markers',),
    'track': ('track',),
    'excite': ('excite',),
    'articulate': ('articulate',),
    'identify': ('identify',),
    'bench': ('bench',),
}


def make_parser(command: str = '') -> argparse.ArgumentParser:
    """Return the parser of one command, or of all."""
    parser = argparse.ArgumentParser(
        prog='emppi',
        description='Ensemble model predictive path integral (EMPPI) control, which learns '
        'unknown physical parameters while it runs.',
        epilog='`emppi COMMAND --help` describes a command.',
    )
    parser.add_argument('--version', action='version', version=f'emppi {__version__}')
    commands = parser.add_subparsers(title='commands', metavar='COMMAND', required=True)
    named = [module for module, names in MODULES.items() if command in names]
    for module in named or MODULES:
        importlib.import_module(f'emppi_ros.cli.{module}').add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; an error is one line on stderr."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = make_parser(words[0] if words else '').parse_args(words)
    options.words = words  # for reports
    try:
        status = options.execute(options) or 0
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except EmppiError as error:
        print(f'error: {error}', file=sys.stderr)
        return INVALID
    except Exception as error:
        if not type(error).__module__.startswith('mujoco'):  # which may not be imported
            raise
        print(f'error: MuJoCo: {error}', file=sys.stderr)
        return INVALID
    except KeyboardInterrupt:
        print('interrupted', file=sys.stderr)
        return INTERRUPTED
    return status
