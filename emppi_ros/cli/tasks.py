"""`emppi tasks` and `emppi check`: list the tasks, and validate a task file."""

import argparse
from typing import Any

from emppi_ros.cli import output
from emppi_ros.core import config, paths
from emppi_ros.model import ineffective
from emppi_ros.tasks.task import load_task
from emppi_ros.tasks.validation import diverged_share, initial_cost, validate


def add_commands(commands: Any) -> None:  # argparse has no public type for it
    """Add both commands to the parser."""
    listing = commands.add_parser(
        'tasks',
        help='list the tasks that come with the package',
        description='List the tasks that come with the package.',
    )
    listing.add_argument('--json', action='store_true', help='print one JSON object')
    listing.set_defaults(execute=list_tasks)
    checking = commands.add_parser(
        'check',
        help='validate a task file',
        description='Load a task with its scene and robot, check every name and value, and '
        'print a summary. For an invalid task, print the key, the reason and the allowed '
        'values; exit status 2. Parameters without an effect are warnings.',
    )
    checking.add_argument('task', metavar='FILE.yaml', help='YAML file, or name of a task')
    checking.add_argument('--json', action='store_true', help='print one JSON object')
    checking.set_defaults(execute=check_task)


def list_tasks(options: argparse.Namespace) -> None:
    """Print name and description of each task."""
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
    """Load a task, simulate its models with sampled parameters, and print a summary."""
    task = load_task(options.task)
    validate(task)
    terms = initial_cost(task)
    warnings = ineffective.explain(task.model, task.parameters)
    if share := diverged_share(task):
        warnings.append(f'{share:.0%} of the models with sampled parameters diverge at rest')
    planner = task.planner
    summary = {
        'task': task.name,
        'file': task.where,
        'robot': f'{task.robot.name}: {len(task.robot.commanded)} joints by {task.robot.command}',
        'scene': f'{task.file.scene}: nq {task.model.nq}, nv {task.model.nv}, nu {task.model.nu}',
        'parameters': {
            p.name: {'field': p.field, 'of': p.of, 'lower': p.lower, 'upper': p.upper}
            for p in task.parameters
        },
        'objects': {name: settings.body for name, settings in task.tracked.items()},
        'planner': {
            'models': planner.models,
            'rollouts': planner.rollouts,
            'horizon': planner.horizon,
            'horizon_s': planner.horizon * planner.step_s,
        },
        'particles': task.belief.particles,
        'cost_at_start': terms,
        **({'warnings': warnings} if warnings else {}),
    }
    output.warn(warnings)
    if options.json:
        print(output.to_json(summary))
        return
    summary.pop('warnings', None)
    output.show(summary, as_json=False)
    print('ok')
