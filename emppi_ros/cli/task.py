"""`emppi task`: switch the task of a running graph."""

import argparse
import time
from typing import Any

from emppi_ros.cli import extras, output
from emppi_ros.core.errors import SwapError
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.task import load_task, task_text
from emppi_ros.tasks.validation import validate

UNFINISHED = 3  # exit status


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'task',
        help='switch the task of the running graph',
        description='Validate a task and switch the running ROS 2 graph to it: the arm comes to '
        'rest, all nodes switch together, and an armed robot continues with the new task. Exit '
        'status 2 if the task is invalid or refused, and nothing has changed; 3 if the switch '
        'did not complete, and the arm stays at rest.',
    )
    parser.add_argument('task', metavar='TASK', help='name of a task, or a YAML file')
    parser.add_argument('--namespace', default='', help='namespace of the nodes')
    parser.add_argument(
        '--timeout',
        metavar='S',
        type=output.duration,
        default=20.0,
        help='time to wait for an answer (20)',
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=give)


def give(options: argparse.Namespace) -> int:
    """Validate the task, request the switch and print the answer."""
    validate(load_task(options.task))
    text = task_text(options.task)
    client = extras.load_node_module('switching.client')
    start = time.monotonic()
    answer = client.request_switch(text, options.namespace, options.timeout)
    if answer.said == switch_protocol.REFUSED:
        raise SwapError(f'refused: {answer.reason}')
    figures = {'said': answer.said, 'reason': answer.reason, **answer.figures}
    output.show({**figures, 'seconds': time.monotonic() - start}, options.json)
    return 0 if answer.said == switch_protocol.DONE else UNFINISHED
