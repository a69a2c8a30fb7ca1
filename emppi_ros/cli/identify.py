"""`emppi identify`: recorded motion to a prior that `emppi run --prior` starts from."""

import argparse
from collections.abc import Mapping, Sequence
import os
from pathlib import Path
import sys
from typing import Any

import numpy as np

from emppi_ros.cli import option_groups, output
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.identification import methods
from emppi_ros.identification.common import checkpoint, figures
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.model import mjcf_export
from emppi_ros.model.fields import DELAY
from emppi_ros.pipeline.identification import identify
from emppi_ros.priors import prior_file
from emppi_ros.recordings.recordings import Recording, delay_inputs, read_recording
from emppi_ros.tasks.task import load_task
from emppi_ros.tracking.jointed_parts import joint_covariances

_MAX_LAG = 1.0  # s


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'identify',
        help='learn parameters from recorded motion, and write them as a prior',
        description='Learn the parameters of a task, or of a model, from recorded motion, '
        'and write a prior for `emppi run --prior`. A recording is a bag, or a table with the '
        "column time_s and others such as 'position/hinge [rad]', 'velocity/hinge [rad/s]', "
        "'effort/hinge [N m]' (torque of the drive, also of a servo), 'torque/hinge [N m]' (an "
        "external torque), 'command/motor [N m]' and 'pose/block.x [m]' (docs/identification.md). "
        'Repeated rows and jittering stamps are repaired, and reported.',
    )
    offered = methods.load_all()
    option_groups.add_method(parser, offered, 'states')
    parser.add_argument(
        '--data',
        metavar='FILE',
        type=Path,
        nargs='+',
        action='append',
        required=True,
        help='.csv, .parquet, or a bag: .mcap, or the folder that `emppi record` or `ros2 bag '
        'record` made; several files share one clock; repeat --data for another recording',
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument('--task', help='name of a task, or a YAML file')
    source.add_argument(
        '--model', metavar='FILE', type=Path, help='a YAML file: a scene, and its parameters'
    )
    _add_outputs(parser, offered)
    _add_settings(parser, offered)
    parser.set_defaults(execute=run)


def _add_outputs(parser: argparse.ArgumentParser, offered: Mapping[str, Method]) -> None:
    parser.add_argument(
        '--out',
        metavar='FILE.yaml',
        type=Path,
        help='write the prior to this file; an interrupted run resumes from its checkpoint beside '
        f'it ({_long_running(offered)})',
    )
    parser.add_argument(
        '--mjcf',
        metavar='FILE.xml',
        type=Path,
        help='write the scene with the estimated values (mean of the particles; with rigid-body '
        'whole bodies) to this file',
    )
    parser.add_argument(
        '--report',
        metavar='DIR',
        type=Path,
        help='write figures to this new folder: the posterior, convergence, and forecasts of the '
        'held-out part',
    )
    parser.add_argument(
        '--overwrite', action='store_true', help='replace existing outputs and checkpoints'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')


def _add_settings(parser: argparse.ArgumentParser, offered: Mapping[str, Method]) -> None:
    shares = '; '.join(
        f'{name}: {"not available" if method.held_out is None else f"{method.held_out:g}"}'
        for name, method in offered.items()
    )
    parser.add_argument(
        '--held-out',
        metavar='SHARE',
        type=float,
        help=f'last share of each recording, which is forecast, not learned from ({shares})',
    )
    parser.add_argument(
        '--step',
        metavar='S',
        type=float,
        help='time step of the model (that of the scene; states: at most 1 ms if joints were '
        'sampled more often than the scene steps)',
    )
    parser.add_argument(
        '--lag',
        metavar='S',
        type=float,
        default=0.0,
        help='delay by which commands, torques and efforts act later than recorded (0)',
    )
    parser.add_argument('--seed', type=output.whole, default=0, help='random seed (0)')
    parser.add_argument(
        '--threads',
        type=output.whole,
        default=0,
        help='threads of the simulation; 0: all cores (0)',
    )
    output.add_scheduler(parser, f' ({_long_running(offered)})')


def _long_running(offered: Mapping[str, Method]) -> str:
    return ', '.join(name for name, method in offered.items() if method.long_running)


def run(options: argparse.Namespace) -> None:
    """Check the options, identify, write the outputs and print a summary."""
    offered = methods.load_all()
    method, method_options = offered[options.method], option_groups.read_options(offered, options)
    settings = _settings(method, options)
    systems = method.systems(method_options, len(options.data))
    if options.mjcf is not None and systems > 1:
        raise ConfigError('--mjcf: several systems are not one model: leave it out')
    _check_outputs(options)
    plant = _plant(options)
    method.check(method_options, plant, len(options.data), settings)
    recordings = [delay_inputs(read_recording(files), options.lag) for files in options.data]
    result = identify(
        recordings, plant, method=options.method, options=method_options, settings=settings
    )
    summary = _write_outputs(options, method, plant, recordings, result)
    output.show(summary, options.json)


def _write_outputs(
    options: argparse.Namespace,
    method: Method,
    plant: Plant,
    recordings: Sequence[Recording],
    result: Identification,
) -> dict[str, Any]:
    """Write report, prior and MJCF as far as they were asked for; return the summary to print."""
    summary = dict(result.summary)
    if options.report is not None:
        outcome = result.samples, result.convergence, result.forecasts()
        for path in figures.write_figures(plant, *outcome, options.report):
            print(f'wrote {path}', file=sys.stderr)
        summary['report'] = str(options.report)
    mjcf = _mjcf(plant, result) if options.mjcf is not None else ''  # errors before any file
    notes = [note for recording in recordings for note in recording.notes]
    if not method.with_joint_errors and joint_covariances(plant.model):
        notes.append(
            'intervals do not contain the errors of inferred joints: take shooting or sysid'
        )
    if options.mjcf is not None and plant.delay is not None:
        notes.append(f'{options.mjcf}: without the {DELAY}, which has no place in an MJCF file')
    if notes:
        summary['notes'] = '; '.join(filter(None, [*notes, summary.get('notes', '')]))
    if options.out is not None:
        prior = result.to_prior(options.method, plant, recordings, options.lag)
        prior_file.write(options.out, prior, options.overwrite)
        if method.long_running:
            checkpoint.remove(options.out, len(recordings))
        summary['out'] = str(options.out)
    if options.mjcf is not None:
        paths.write_text(options.mjcf, mjcf, options.overwrite)
        summary['mjcf'] = str(options.mjcf)
    return summary


def _settings(method: Method, options: argparse.Namespace) -> RunSettings:
    """Return the settings that do not depend on the method; ConfigError if one is wrong."""
    if options.held_out and method.held_out is None:
        raise ConfigError(f'--held-out: --method {options.method} cannot forecast: leave it out')
    held_out = method.held_out or 0.0 if options.held_out is None else options.held_out
    if not 0.0 <= held_out < 1.0:
        raise ConfigError(f'--held-out: found {held_out:g}, expected a number from 0 to below 1')
    if options.scheduler and not method.long_running:
        raise ConfigError(
            f'--scheduler: --method {options.method} computes on this machine only, in seconds: '
            'leave it out'
        )
    if options.step is not None and not 0.0 < options.step < float('inf'):
        raise ConfigError(f'--step: found {options.step:g}, expected a number above 0')
    if not abs(options.lag) < _MAX_LAG:
        raise ConfigError(
            f'--lag: found {options.lag:g}, expected seconds, between -{_MAX_LAG:g} and '
            f'{_MAX_LAG:g}'
        )
    return RunSettings(
        step_s=options.step,
        lag_s=options.lag,
        held_out=held_out,
        seed=options.seed,
        threads=options.threads,
        out=options.out,
        overwrite=options.overwrite,
        progress=output.progress,
        scheduler=options.scheduler,
    )


def _check_outputs(options: argparse.Namespace) -> None:
    """Raise ConfigError if an output exists, or cannot be written."""
    if options.report is not None:
        folder = options.report
        paths.check_new(folder, options.overwrite)
        existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK):
            raise ConfigError(f'--report: {existing} is not a writable folder')
    output.check_files(options, out=output.YAML, mjcf=output.XML)


def _plant(options: argparse.Namespace) -> Plant:
    """Return the plant of the task or model file."""
    if options.task:
        plant = Plant.from_task(load_task(options.task))
    else:
        plant = Plant.from_file(options.model)
    if options.step is not None:
        plant.model.opt.timestep = options.step
    return plant


def _mjcf(plant: Plant, result: Identification) -> str:
    """Return the scene with the estimated values; those that were not excited stay as they are."""
    if result.to_mjcf is not None:
        return result.to_mjcf()
    if plant.scene is None:
        raise ConfigError('--mjcf: the model was not loaded from an MJCF file')
    rows = result.summary['parameters']
    estimated = [
        p
        for p in plant.parameters
        if p.field != DELAY and rows[p.name]['knowledge'] != 'unexcited'
    ]
    theta = np.array([rows[p.name]['value'] for p in estimated])
    return mjcf_export.to_text(plant.scene, estimated, theta, float(plant.model.opt.timestep))
