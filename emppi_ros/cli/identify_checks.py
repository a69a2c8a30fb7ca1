"""What can be wrong with the options of `emppi identify`, before any work is done."""

import argparse
import os
from pathlib import Path

from emppi_ros.belief import prior_schema
from emppi_ros.core.errors import ConfigError
from emppi_ros.identify import particles

TAKEN = {  # options that are not every method's
    'state_weight': ('states',),
    'spread': ('states', 'rigid-body', 'sysid'),
    'links': ('rigid-body',),
    'particles': ('csvgd', 'filter'),
    'iterations': ('csvgd',),
    'likelihood': ('csvgd',),
    'window': ('csvgd', 'sysid'),
    'noise': ('csvgd', 'sysid'),
}
_LATEST = 1.0  # s
LONG = 'csvgd', 'filter'  # these keep where they are beside --out, and may use a cluster


def check(options: argparse.Namespace) -> None:
    """Raise ConfigError if options do not go together, or nothing could be written."""
    for name, methods in TAKEN.items():
        if options.method not in methods and getattr(options, name) != options.usual[name]:
            raise ConfigError(
                f'--{name.replace("_", "-")}: --method {options.method} does not know it: leave '
                f'it out, or take {" or ".join(methods)}'
            )
    if options.scheduler and options.method not in LONG:
        raise ConfigError(
            f'--scheduler: --method {options.method} takes seconds, and is computed here: leave '
            f'it out, or take {" or ".join(LONG)}'
        )
    for name in ('step', 'state_weight', 'spread', 'window'):
        value = getattr(options, name)
        if value is not None and not 0.0 < value < float('inf'):
            raise ConfigError(
                f'--{name.replace("_", "-")}: found {value:g}, expected a number above 0'
            )
    systems = len(options.data) if options.likelihood == 'sum' else 1
    fewest = particles.FEWEST * systems
    if options.particles is not None and options.particles < fewest:
        raise ConfigError(
            f'--particles: found {options.particles}, expected {fewest} or more: fewer tell no '
            f'spread{" of each system" if systems > 1 else ""}'
        )
    if options.mjcf is not None and systems > 1:
        raise ConfigError('--mjcf: several systems are no one model: leave it out')
    if not abs(options.lag) < _LATEST:
        raise ConfigError(
            f'--lag: found {options.lag:g}, expected seconds, between -{_LATEST:g} and {_LATEST:g}'
        )
    if not 0.0 <= options.held_out < 1.0:
        raise ConfigError(
            f'--held-out: found {options.held_out:g}, expected a number from 0 to below 1'
        )
    _check_outputs(options)


def check_room(options: argparse.Namespace, parameters: int) -> None:
    """Raise ConfigError if a prior's file has no room for so many particles."""
    most = prior_schema.most_particles(parameters)
    if options.out is not None and (options.particles or 0) > most:
        raise ConfigError(
            f'--particles: found {options.particles}, expected at most {most}: a prior of '
            f'{parameters} parameters has no room for more: leave --out out, or take fewer'
        )


def _check_outputs(options: argparse.Namespace) -> None:
    if options.report is not None:
        if options.report.exists() and not options.overwrite:
            raise ConfigError(f'{options.report}: exists; give another name, or --overwrite')
        _check_folder('--report', options.report)
    for name, suffixes in (('out', ('.yaml', '.yml')), ('mjcf', ('.xml',))):
        path = getattr(options, name)
        if path is None:
            continue
        if path.suffix.lower() not in suffixes:
            raise ConfigError(
                f'--{name}: found {path}, expected a name that ends in {suffixes[0]}'
            )
        if not path.parent.is_dir():
            raise ConfigError(f'--{name}: no such folder: {path.parent}')
        if path.exists() and not options.overwrite:
            raise ConfigError(f'{path}: exists; give another name, or --overwrite')


def _check_folder(option: str, folder: Path) -> None:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ConfigError(f'{option}: {there} is no folder that can be written')
