"""`emppi articulate`: joints and a kinematic tree from tracked poses."""

import argparse
from pathlib import Path
import sys
from typing import Any

import numpy as np

from emppi_ros.articulation import mjcf, prior, report, topology, tracks
from emppi_ros.articulation.tracks import Noise
from emppi_ros.cli import output
from emppi_ros.cli.command import Subcommand
from emppi_ros.core import paths
from emppi_ros.core.errors import ConfigError
from emppi_ros.pipeline.mechanism import articulate
from emppi_ros.priors import prior_file
from emppi_ros.priors.prior_file import hash_file
from emppi_ros.recordings import tables
from emppi_ros.tasks.task import load_task


def add_commands(commands: Any) -> None:
    """Add the command to the parser."""
    add, default = Subcommand(commands, 'articulate', run).option, Noise()
    add('tracks', '.csv, .parquet, or bags', Path, 'TRACKS', nargs='+')
    add('--out', 'write the tree as MJCF', Path, 'FILE.xml', required=True)
    text = 'write joint positions as a table for `emppi identify` (.csv, .parquet)'
    add('--positions', text, Path, 'FILE')
    add('--task', 'write a task for this scene, to complete', Path, 'FILE.yaml')
    text = 'write a prior of axes and places for `emppi run --prior`, with --prior-for'
    add('--prior', text, Path, 'FILE.yaml')
    add('--prior-for', 'task whose objects the parts are', str, 'TASK', '')
    add('--report', 'write tables and pictures to this new folder', Path, 'DIR')
    text = 'noise of positions per axis, of parts without covariances'
    add('--position-sd', text, output.positive, 'M', default.position_sd_m)
    degrees = float(np.degrees(default.rotation_sd_rad))
    text = 'noise of rotations per axis in degrees, likewise'
    add('--rotation-sd', text, output.positive, 'DEG', degrees)
    add('--seed', 'random seed of the candidates', output.whole, default=0)
    add('--overwrite', 'replace existing outputs')
    add('--json', 'print one JSON object')


def run(options: argparse.Namespace) -> None:
    """
    Infer joints and the kinematic tree of tracked parts.

    Types of joints are static, prismatic, revolute, screw, and for a base planar and free; a type
    that the motion does not show is `undecided`. Tracks are poses of the parts over time: a table
    with the columns time_s, 'pose/door.x [m]', .y, .z and 'pose/door.qw [1]', .qx, .qy, .qz of
    each part (or x, y, z alone), or bags with tracking/<part> (docs/articulation.md). The world
    frame is a part, too.
    """
    if (options.prior is None) != (not options.prior_for):
        raise ConfigError('--prior and --prior-for: give both, a file and the task that it is for')
    output.check_files(options, out=output.XML, task=output.YAML, prior=output.YAML)
    if options.positions is not None:
        tables.check_writable('--positions', options.positions)
        paths.check_new(options.positions, options.overwrite)
    if options.report is not None:
        paths.check_new(options.report, options.overwrite)
        output.check_path('--report', options.report)
    known_task = load_task(options.prior_for) if options.prior_for else None
    noise = Noise(options.position_sd, float(np.radians(options.rotation_sd)))
    given = tracks.read(options.tracks, noise)
    tracks.check(given, ', '.join(map(str, options.tracks)))
    with output.progress('pairs', topology.count_pairs(given), 'pairs') as advance:
        tree = articulate(given, seed=options.seed, progress=advance)
    summary: dict[str, Any] = {'joints': report.summary(tree)}
    if given.notes:
        summary['notes'] = '; '.join(given.notes)
    output.warn(tree.warnings)
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
