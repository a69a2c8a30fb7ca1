"""`emppi identify`: recorded motion to a prior that `emppi run --prior` starts from."""

import argparse
from collections.abc import Sequence
from pathlib import Path
import sys
from typing import Any

import numpy as np

from emppi_ros.cli import option_groups, output
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.identification import methods
from emppi_ros.identification.common import checkpoint, figures
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, Method, RunSettings
from emppi_ros.model import mjcf_export
from emppi_ros.model.fields import NOT_IN_MODEL
from emppi_ros.pipeline.identification import identify
from emppi_ros.priors import prior_file
from emppi_ros.recordings.cleaning import Span
from emppi_ros.recordings.recordings import Recording, delay_inputs, read_recording
from emppi_ros.tasks.task import load_task
from emppi_ros.tracking.jointed_parts import joint_covariances

_MAX_LAG = 1.0  # s


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    command = Subcommand(commands, 'identify', run)
    add, offered = command.option, methods.load_all()
    option_groups.add_method(command, offered, 'states')
    text = (
        '.csv, .parquet, or a bag: .mcap, or the folder that `emppi record` or `ros2 bag record` '
        'made; several files share one clock; repeat --data for another recording'
    )
    add('--data', text, Path, 'FILE', nargs='+', action='append', required=True)
    source = command.parser.add_mutually_exclusive_group(required=True)
    add('--task', 'name of a task, or a YAML file', str, group=source)
    add('--model', 'a YAML file: a scene, and its parameters', Path, 'FILE', group=source)
    long_running = ', '.join(name for name, method in offered.items() if method.long_running)
    text = 'write the prior; an interrupted run resumes from its checkpoint beside it'
    add('--out', f'{text} ({long_running})', Path, 'FILE.yaml')
    text = 'write the scene with estimated values (means; with rigid-body whole bodies)'
    add('--mjcf', text, Path, 'FILE.xml')
    text = 'write figures of posterior, convergence and held-out forecasts to this new folder'
    add('--report', text, Path, 'DIR')
    add('--overwrite', 'replace existing outputs and checkpoints')
    add('--json', 'print one JSON object')
    shares = '; '.join(
        f'{name}: {"not available" if method.held_out is None else f"{method.held_out:g}"}'
        for name, method in offered.items()
    )
    text = 'last share of each recording, which is forecast, not learned from'
    add('--held-out', f'{text} ({shares})', float, 'SHARE')
    text = (
        'time step of the model (that of the scene; states: at most 1 ms if joints were sampled '
        'more often than the scene steps)'
    )
    add('--step', text, float, 'S')
    text = 'delay by which commands, torques and efforts act later than recorded'
    add('--lag', text, float, 'S', 0.0)
    add('--topic', 'joint states to read where several topics of a bag have a joint', str, 'TOPIC')
    text = 'begin of the part of each recording to use, in seconds since its start'
    add('--from', text, float, 'S', 0.0, dest='begin')
    add('--to', 'end of that part (that of the recording)', float, 'S', dest='end')
    add('--seed', 'random seed', output.whole, default=0)
    add('--threads', 'threads of the simulation; 0: all cores', output.whole, default=0)
    output.add_scheduler(command.parser, f' ({long_running})')


def run(options: argparse.Namespace) -> None:
    """
    Learn parameters from recorded motion, and write them as a prior.

    The parameters are those of a task, or of a model; `emppi run --prior` starts from the prior. A
    recording is a bag, or a table with the column time_s and others such as 'position/hinge
    [rad]', 'velocity/hinge [rad/s]', 'effort/hinge [N m]' (torque of the drive, also of a servo),
    'torque/hinge [N m]' (an external torque), 'command/motor [N m]' and 'pose/block.x [m]'
    (docs/identification.md). Repeated rows and jittering stamps are repaired, and reported.
    """
    offered = methods.load_all()
    method, method_options = offered[options.method], option_groups.read_options(offered, options)
    settings = _settings(method, options)
    systems = method.systems(method_options, len(options.data))
    if options.mjcf is not None and systems > 1:
        raise ConfigError('--mjcf: several systems are not one model: leave it out')
    if options.report is not None:
        paths.check_new(options.report, options.overwrite)
        output.check_path('--report', options.report)
    output.check_files(options, out=output.YAML, mjcf=output.XML)
    task = load_task(options.task) if options.task else None
    plant = Plant.from_file(options.model) if task is None else Plant.from_task(task)
    if options.step is not None:
        plant.model.opt.timestep = options.step
    method.check(method_options, plant, len(options.data), settings)
    span = _span(options)
    recordings = [
        delay_inputs(read_recording(files, span, options.topic), options.lag)
        for files in options.data
    ]
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
    outside = [p.field for p in plant.parameters if p.field in NOT_IN_MODEL]
    notes += [
        f'{options.mjcf}: without the {field}, which has no place in an MJCF file'
        for field in dict.fromkeys(outside if options.mjcf is not None else ())
    ]
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


def _span(options: argparse.Namespace) -> Span:
    """Return the part of each recording to use; ConfigError if it has no length."""
    end = float('inf') if options.end is None else options.end
    if not 0.0 <= options.begin < end:
        raise ConfigError(
            f'--from {options.begin:g} --to {end:g}: expected seconds since the start of the '
            'recording, the first from 0, the second later'
        )
    return options.begin, end


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
        if p.field not in NOT_IN_MODEL and rows[p.name]['knowledge'] != 'unexcited'
    ]
    theta = np.array([rows[p.name]['value'] for p in estimated])
    return mjcf_export.to_text(plant.scene, estimated, theta, float(plant.model.opt.timestep))
