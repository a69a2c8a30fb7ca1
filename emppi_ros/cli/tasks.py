"""`emppi tasks`, `check` and `task`: list, validate and switch tasks."""

import argparse
import time
from typing import Any

from emppi_ros.cli import extras, output
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import config, paths
from emppi_ros.core.errors import SwapError
from emppi_ros.model import ineffective
from emppi_ros.robots import scene_limits
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.task import load_task, task_text
from emppi_ros.tasks.validation import (
    coarse_step,
    diverged_share,
    initial_cost,
    short_noise,
    validate,
    without_effect,
)

UNFINISHED = 3  # exit status


def add_commands(commands: Any) -> None:  # argparse has no public type for it
    """Add the commands to the parser."""
    Subcommand(commands, 'tasks', list_tasks).option('--json', 'print one JSON object')
    add = Subcommand(commands, 'check', check_task).option
    add('task', 'YAML file, or name of a task', str, 'FILE.yaml')
    add('--json', 'print one JSON object')
    add = Subcommand(commands, 'task', switch).option
    add('task', 'name of a task, or a YAML file', str, 'TASK')
    add('--namespace', 'namespace of the nodes', str, default='')
    add('--timeout', 'time to wait for an answer', output.duration, 'S', 20.0)
    add('--json', 'print one JSON object')


def list_tasks(options: argparse.Namespace) -> None:
    """List the tasks that come with the package."""
    descriptions = {
        name: config.load(paths.find_config('tasks', name)).get('description', '')
        for name in paths.available('tasks')
    }
    if options.json:
        print(output.to_json({'tasks': descriptions}))
        return
    width = max(len(name) for name in descriptions)
    for name, description in descriptions.items():
        print(f'{name:<{width}}  {description}')


def check_task(options: argparse.Namespace) -> None:
    """
    Validate a task file.

    Load a task with its scene and robot, check every name and value, and print a summary. For an
    invalid task, print the key, the reason and the allowed values; exit status 2. Parameters
    without an effect, ranges that the robot may leave, and a physics step of the planner that is
    too coarse are warnings.
    """
    task = load_task(options.task)
    validate(task)
    terms = initial_cost(task)
    warnings = scene_limits.explain(task.robot, task.model)
    warnings += ineffective.explain(task.model, task.parameters) or without_effect(task)
    if share := diverged_share(task):
        warnings.append(f'{share:.0%} of the models with sampled parameters diverge at rest')
    warnings += filter(None, (coarse_step(task), short_noise(task)))
    planner = task.planner
    summary: dict[str, Any] = {
        'task': task.name,
        'file': task.where,
        'robot': f'{task.robot.name}: {len(task.robot.commanded)} joints by {task.robot.command}',
        'scene': f'{task.file.scene}: nq {task.model.nq}, nv {task.model.nv}, nu {task.model.nu}',
        'parameters': {
            p.name: {'field': p.field, 'of': p.of, 'lower': p.lower, 'upper': p.upper}
            for p in task.parameters
        },
        **({'held': task.held} if task.held else {}),
        'objects': {name: settings.body for name, settings in task.tracked.items()},
        'planner': {
            'models': planner.models,
            'rollouts': planner.rollouts,
            'horizon': planner.horizon,
            'horizon_s': planner.horizon * planner.step_s,
        },
        'particles': task.belief.particles,
        'cost_at_start': terms,
    }
    output.warn(warnings)
    if options.json and warnings:
        summary['warnings'] = warnings
    output.show(summary, options.json)
    if not options.json:
        print('ok')


def switch(options: argparse.Namespace) -> int:
    """
    Switch the task of the running graph.

    The arm comes to rest, all nodes switch together, and an armed robot continues with the new
    task. Exit status 2 if the task is invalid or refused, and nothing has changed; 3 if the switch
    did not complete, and the arm stays at rest.
    """
    validate(load_task(options.task))
    text = task_text(options.task)
    client = extras.load_node_module('planner.task_switch')
    start = time.monotonic()
    answer = client.request_switch(text, options.namespace, options.timeout)
    if answer.said == switch_protocol.REFUSED:
        raise SwapError(f'refused: {answer.reason}')
    figures = {'said': answer.said, 'reason': answer.reason, **answer.figures}
    output.show({**figures, 'seconds': time.monotonic() - start}, options.json)
    return 0 if answer.said == switch_protocol.DONE else UNFINISHED
