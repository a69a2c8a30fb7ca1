"""`emppi articulate`: joints and a kinematic tree from tracked poses."""

import argparse
from pathlib import Path
import sys
from typing import Any

import numpy as np

from emppi_ros.articulation import mjcf, prior, report, topology, tracks
from emppi_ros.articulation.tracks import Noise
from emppi_ros.cli import output
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.pipeline.mechanism import articulate
from emppi_ros.priors import prior_file
from emppi_ros.priors.prior_file import hash_file
from emppi_ros.recordings import tables
from emppi_ros.tasks.task import load_task


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        'articulate',
        help='infer joints and the kinematic tree of tracked parts',
        description='Infer which parts are joined, by which type of joint, and where its axis is, '
        'from poses of the parts over time. Types are static, prismatic, revolute, screw, and for '
        'a base planar and free; a type that the motion does not show is `undecided`. Tracks are '
        "a table with the columns time_s, 'pose/door.x [m]', .y, .z and 'pose/door.qw [1]', .qx, "
        '.qy, .qz of each part (or x, y, z alone), or bags with tracking/<part> '
        '(docs/articulation.md). The world frame is a part, too.',
    )
    parser.add_argument(
        'tracks', metavar='TRACKS', type=Path, nargs='+', help='.csv, .parquet, or bags'
    )
    parser.add_argument(
        '--out', metavar='FILE.xml', type=Path, required=True, help='write the tree as MJCF'
    )
    parser.add_argument(
        '--positions',
        metavar='FILE',
        type=Path,
        help='write joint positions as a table for `emppi identify` (.csv, .parquet)',
    )
    parser.add_argument(
        '--task', metavar='FILE.yaml', type=Path, help='write a task for this scene, to complete'
    )
    parser.add_argument(
        '--prior',
        metavar='FILE.yaml',
        type=Path,
        help='write a prior of axes and places for `emppi run --prior`, with --prior-for',
    )
    parser.add_argument(
        '--prior-for', metavar='TASK', default='', help='task whose objects the parts are'
    )
    parser.add_argument(
        '--report', metavar='DIR', type=Path, help='write tables and pictures to this new folder'
    )
    default = Noise()
    parser.add_argument(
        '--position-sd',
        metavar='M',
        type=output.positive,
        default=default.position_sd_m,
        help='noise of positions per axis, of parts without covariances '
        f'({default.position_sd_m:g})',
    )
    parser.add_argument(
        '--rotation-sd',
        metavar='DEG',
        type=output.positive,
        default=float(np.degrees(default.rotation_sd_rad)),
        help='noise of rotations per axis, likewise '
        f'({np.degrees(default.rotation_sd_rad):g} degrees)',
    )
    parser.add_argument(
        '--seed', type=output.whole, default=0, help='random seed of the candidates (0)'
    )
    parser.add_argument('--overwrite', action='store_true', help='replace existing outputs')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=run)


def run(options: argparse.Namespace) -> None:
    """Check the options, infer the tree, write the outputs and print the joints."""
    _check_outputs(options)
    known_task = load_task(options.prior_for) if options.prior_for else None
    noise = Noise(options.position_sd, float(np.radians(options.rotation_sd)))
    given = tracks.read(options.tracks, noise)
    tracks.check(given, ', '.join(map(str, options.tracks)))
    with output.progress('pairs', topology.count_pairs(given), 'pairs') as advance:
        tree = articulate(given, seed=options.seed, progress=advance)
    summary: dict[str, Any] = {'joints': report.summary(tree)}
    if given.notes:
        summary['notes'] = '; '.join(given.notes)
    paths.write_text(options.out, mjcf.to_text(tree), options.overwrite)
    summary['out'] = str(options.out)
    if options.positions is not None:
        if signals := report.signals(tree):
            tables.write(options.positions, signals)
            summary['positions'] = str(options.positions)
        else:
            output.warn(['no joint moved: no table of positions'])
    if options.task is not None:
        stub = mjcf.task_stub(tree, options.out, options.task.stem)
        paths.write_text(options.task, stub, options.overwrite)
        summary['task'] = str(options.task)
    if known_task is not None:
        sources = [hash_file(path) for path in options.tracks]
        made = prior.make(tree, known_task, sources, options.seed)
        prior_file.write(options.prior, made, options.overwrite)
        summary['prior'] = str(options.prior)
    if options.report is not None:
        for path in report.write(tree, options.report):
            print(f'wrote {path}', file=sys.stderr)
        summary['report'] = str(options.report)
    output.show(summary, options.json)


def _check_outputs(options: argparse.Namespace) -> None:
    """Raise ConfigError if an output exists, or has a wrong name."""
    if (options.prior is None) != (not options.prior_for):
        raise ConfigError('--prior and --prior-for: give both, a file and the task that it is for')
    output.check_files(options, out=output.XML, task=output.YAML, prior=output.YAML)
    if options.positions is not None:
        tables.check_writable('--positions', options.positions)
        paths.check_new(options.positions, options.overwrite)
    if options.report is not None:
        paths.check_new(options.report, options.overwrite)
        paths.check_output('--report', options.report, folder=True)
