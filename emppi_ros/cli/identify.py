"""`emppi identify`: recorded motion to a prior that `emppi run --prior` starts from."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from emppi_ros.belief import prior_schema as prior_file
from emppi_ros.cli import (
    identify_checks,
    identify_csvgd,
    identify_filter,
    identify_rigid_body,
    identify_states,
    identify_sysid,
    output,
)
from emppi_ros.core.errors import ConfigError
from emppi_ros.identify import dataset, keeping, several
from emppi_ros.identify.states import binding
from emppi_ros.identify.states.plant import Plant
from emppi_ros.model import mjcf_export
from emppi_ros.tasks.task import load_task

METHODS = {
    'states': identify_states,
    'csvgd': identify_csvgd,
    'rigid-body': identify_rigid_body,
    'sysid': identify_sysid,
    'filter': identify_filter,
}


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'identify',
        help='learn parameters from recorded motion, and write them as a prior',
        description='Learn the parameters of a task, or of a model, from a recorded run, '
        'and write a prior for `emppi run --prior`. Columns of a recording: time_s, and '
        "such as 'position/hinge [rad]', 'velocity/hinge [rad/s]', 'torque/hinge [N m]', "
        "'command/motor [N m]' and 'pose/block.x [m]', or a bag (docs/identification.md).",
    )
    parser.add_argument(
        '--method',
        choices=tuple(METHODS),
        default='states',
        help='states: least squares over states and parameters; csvgd: particles of the '
        'posterior, by constrained Stein variational gradient descent; rigid-body: bodies of an '
        "arm, from its torques; sysid: one estimate by MuJoCo's least squares over windows, as a "
        "reference; filter: particles of the posterior by the belief's own predictions, which go "
        'through contact (states)',
    )
    parser.add_argument(
        '--data',
        metavar='FILE',
        type=Path,
        nargs='+',
        action='append',
        required=True,
        help='.csv, .parquet, or a bag: .mcap, or the folder that `emppi record` or `ros2 bag '
        'record` made; several files share one clock; again: another recording',
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument('--task', help='the name of a task, or a YAML file')
    what.add_argument(
        '--model', metavar='FILE', type=Path, help='a YAML file: a scene, and its parameters'
    )
    _add_outputs(parser)
    identify_states.add_options(
        parser.add_argument_group('states, and the spread of rigid-body and sysid')
    )
    identify_rigid_body.add_options(parser.add_argument_group('rigid-body'))
    identify_csvgd.add_options(parser.add_argument_group('csvgd, and windows of sysid'))
    usual = {name: parser.get_default(name) for name in identify_checks.TAKEN}
    parser.set_defaults(execute=run, usual=usual)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add what is common to all methods."""
    parser.add_argument('--out', metavar='FILE.yaml', type=Path, help='the prior, if wanted')
    parser.add_argument(
        '--mjcf',
        metavar='FILE.xml',
        type=Path,
        help='the scene with the values that were found (of particles their mean; of rigid-body '
        'whole bodies), if wanted',
    )
    parser.add_argument(
        '--overwrite', action='store_true', help='replace --out and --mjcf if they exist'
    )
    parser.add_argument(
        '--held-out',
        metavar='SHARE',
        type=float,
        help='of each recording, its end: not learned from, but forecast (csvgd, sysid: '
        f'{identify_csvgd.HELD_OUT:g}; states, rigid-body: '
        f'{identify_states.HELD_OUT:g}; filter: none)',
    )
    parser.add_argument(
        '--report',
        metavar='DIR',
        type=Path,
        help='a new folder for pictures: the posterior, convergence, and what is forecast of '
        'what was held out',
    )
    parser.add_argument(
        '--step', metavar='S', type=float, help="the model's time step (the scene's, or task's)"
    )
    parser.add_argument(
        '--lag',
        metavar='S',
        type=float,
        default=0.0,
        help='by how much commands, torques and efforts act later than was recorded (0)',
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='of what is drawn (0)')
    output.add_scheduler(parser, f' ({", ".join(identify_checks.LONG)})')
    parser.add_argument('--json', action='store_true', help='print one JSON object')


def run(options: argparse.Namespace) -> None:
    """Identify, print, write."""
    usual = METHODS[options.method].HELD_OUT  # None: it forecasts nothing
    if options.held_out and usual is None:
        raise ConfigError(f'--held-out: --method {options.method} forecasts nothing: leave it out')
    if options.held_out is None:
        options.held_out = usual or 0.0
    identify_checks.check(options)
    recordings = [dataset.late(dataset.read(paths), options.lag) for paths in options.data]
    several.check_different(recordings)
    plant = _plant(options)
    identify_checks.check_room(options, len(plant.unknowns))
    summary, prior = METHODS[options.method].identify(options, plant, recordings)
    text = _mjcf(plant, summary) if options.mjcf is not None else ''
    notes = [note for recording in recordings for note in recording.notes]
    if notes:
        summary['notes'] = '; '.join(filter(None, [*notes, summary.get('notes', '')]))
    if options.out is not None:
        found = prior()
        whole = replace(found, settings={**found.settings, 'lag_s': options.lag})
        prior_file.write(options.out, whole, options.overwrite)
        if options.method in identify_checks.LONG:
            keeping.forget(options.out, len(recordings))  # the prior is there
        summary['out'] = str(options.out)
    if options.mjcf is not None:
        mjcf_export.write(options.mjcf, text, options.overwrite)
        summary['mjcf'] = str(options.mjcf)
    output.show(summary, options.json)


def _mjcf(plant: Plant, summary: dict[str, Any]) -> str:
    """Return the scene with what was found; what was not excited stays as it is there."""
    if 'bodies' in summary:
        return identify_rigid_body.to_mjcf(plant, summary)
    rows = summary['parameters']
    known = [p for p in plant.parameters if rows[p.name]['knowledge'] != 'unexcited']
    theta = np.array([rows[p.name]['value'] for p in known])
    return mjcf_export.to_text(plant.scene, known, theta, float(plant.model.opt.timestep))


def _plant(options: argparse.Namespace) -> Plant:
    """Return what is to be identified, with the time step of whatever identifies it."""
    step = options.step
    if options.task:
        task = load_task(options.task)
        plant = binding.of_task(task)
        if options.method == 'filter':
            step = step or task.belief.substep_s
    else:
        plant = binding.load_model(options.model)
    if step is not None:
        plant.model.opt.timestep = step
    return plant
