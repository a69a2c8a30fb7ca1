"""`emppi identify`: recorded motion to a prior that `emppi run --prior` starts from."""

import argparse
from pathlib import Path
from typing import Any

from emppi_ros.belief import file as prior_file
from emppi_ros.cli import output
from emppi_ros.errors import ConfigError
from emppi_ros.identify import dataset
from emppi_ros.identify.states import binding, recorded, report
from emppi_ros.identify.states.estimate import estimate
from emppi_ros.identify.states.plant import Plant
from emppi_ros.identify.states.solver import Iterate, Settings
from emppi_ros.tasks.task import load_task


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
        choices=('states',),
        default='states',
        help='states: least squares over states and parameters (states)',
    )
    parser.add_argument(
        '--data',
        metavar='FILE',
        type=Path,
        nargs='+',
        required=True,
        help='.csv, .parquet, or a bag: .mcap, or the folder that `emppi record` makes',
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument('--task', help='the name of a task, or a YAML file')
    what.add_argument(
        '--model', metavar='FILE', type=Path, help='a YAML file: a scene, and its parameters'
    )
    parser.add_argument('--out', metavar='FILE.yaml', type=Path, help='the prior, if wanted')
    parser.add_argument('--overwrite', action='store_true', help='replace --out if it exists')
    parser.add_argument(
        '--step', metavar='S', type=float, help="the model's time step (the scene's, or task's)"
    )
    parser.add_argument(
        '--state-weight',
        type=float,
        default=Settings().state_weight,
        help='of squared impulses that the motion lacks, against squared observations; too small '
        'fits noise, too large makes the search hard (%(default)g)',
    )
    parser.add_argument(
        '--spread',
        type=float,
        default=3.0,
        help='factor on linearised standard deviations in the prior, which are too small '
        '(%(default)g)',
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='of particles (0)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=run)


def run(options: argparse.Namespace) -> None:
    """Identify, print, write."""
    _check(options)
    settings = Settings(state_weight=options.state_weight)
    recording = dataset.read(options.data)
    plant = _plant(options)
    motion = recorded.resample(recording, plant.model, plant.bodies)
    most = 2 * settings.iterations
    with output.progress('states', most, 'iterations') as advance:

        def progress(iterate: Iterate) -> None:
            advance(iterate.iterations)

        result = estimate(plant, motion, settings, progress)
        advance(most)
    report.check(plant, motion, result)
    summary = report.summarize(plant, result)
    if recording.notes:
        summary['notes'] = '; '.join(recording.notes)
    if options.out is not None:
        prior = report.to_prior(
            plant, result, recording.sources, settings, options.spread, options.seed
        )
        prior_file.write(options.out, prior, options.overwrite)
        summary['out'] = str(options.out)
    output.show(summary, options.json)


def _check(options: argparse.Namespace) -> None:
    """Raise before any work is done if it would come to nothing."""
    for name in ('step', 'state_weight', 'spread'):
        value = getattr(options, name)
        if value is not None and not 0.0 < value < float('inf'):
            raise ConfigError(
                f'--{name.replace("_", "-")}: found {value:g}, expected a number above 0'
            )
    if options.out is None:
        return
    if options.out.suffix not in ('.yaml', '.yml'):
        raise ConfigError(f'--out: found {options.out}, expected a name that ends in .yaml')
    if not options.out.parent.is_dir():
        raise ConfigError(f'--out: no such folder: {options.out.parent}')
    if options.out.exists() and not options.overwrite:
        raise ConfigError(f'{options.out}: exists; give another name, or --overwrite')


def _plant(options: argparse.Namespace) -> Plant:
    if options.task:
        plant = binding.of_task(load_task(options.task))
    else:
        plant = binding.load_model(options.model)
    if options.step is not None:
        plant.model.opt.timestep = options.step
    return plant
