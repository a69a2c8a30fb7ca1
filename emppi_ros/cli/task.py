"""`emppi task`: gives another task to a graph that runs."""

import argparse
import time
from typing import Any

from emppi_ros.cli import output, ros
from emppi_ros.core.errors import SwapError
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.task import load_task, task_text, validate

UNFINISHED = 3  # exit status


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'task',
        help='give another task to the running graph',
        description='Validate a task and give it to the ROS 2 graph that runs: the arm comes to '
        'rest, all nodes go over together, and it goes on if it was following. Exit status 2, '
        'with the reason, if the task is wrong or was refused: then nothing has changed. 3 if the '
        'swap began and did not end: then the arm stays at rest.',
    )
    parser.add_argument('task', metavar='TASK', help='the name of a task, or a YAML file')
    parser.add_argument('--namespace', default='', help="the nodes' namespace")
    parser.add_argument(
        '--timeout', metavar='S', type=output.duration, default=20.0, help='for an answer (20)'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=give)


def give(options: argparse.Namespace) -> int:
    """Validate, ask, and print what came of it."""
    validate(load_task(options.task))
    text = task_text(options.task)
    asking = ros.module('switching.client')
    began = time.monotonic()
    answer = asking.ask(text, options.namespace, options.timeout)
    if answer.said == switch_protocol.REFUSED:
        raise SwapError(f'refused: {answer.reason}')
    figures = {'said': answer.said, 'reason': answer.reason, **answer.figures}
    output.show({**figures, 'seconds': time.monotonic() - began}, options.json)
    return 0 if answer.said == switch_protocol.DONE else UNFINISHED
