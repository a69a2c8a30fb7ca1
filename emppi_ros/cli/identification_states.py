"""`emppi identify --method states`: least squares over states and parameters."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from emppi_ros.belief.file import PriorFile
from emppi_ros.cli import identification_report, output
from emppi_ros.errors import ConfigError
from emppi_ros.identify import pictures
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.pictures import Future, Way
from emppi_ros.identify.states import forecast, recorded, report
from emppi_ros.identify.states.estimate import estimate
from emppi_ros.identify.states.plant import Plant
from emppi_ros.identify.states.solver import Iterate, Settings

HELD_OUT = 0.0  # unless a share is asked for
_FORECASTS = 100  # of that many of the prior's particles


def add_options(group: Any) -> None:
    """Add what this method knows."""
    group.add_argument(
        '--state-weight',
        type=float,
        default=Settings().state_weight,
        help='of squared impulses that the motion lacks, against squared observations; too small '
        'fits noise, too large makes the search hard (%(default)g)',
    )
    group.add_argument(
        '--spread',
        type=float,
        default=report.SPREAD,
        help='factor on linearised standard deviations in the prior, which are too small '
        '(%(default)g)',
    )


def identify(
    options: argparse.Namespace, plant: Plant, recordings: Sequence[Recording]
) -> tuple[dict[str, Any], Callable[[], PriorFile]]:
    """Return what was found, and what makes it a prior."""
    if len(recordings) > 1:
        raise ConfigError('--data: given more than once: --method states takes one recording')
    (recording,) = recordings
    settings = Settings(state_weight=options.state_weight)
    motion = recorded.resample(recording, plant.model, plant.bodies)
    known, later = forecast.split(motion, options.held_out)
    most, costs = 2 * settings.iterations, []
    with output.progress('states', most, 'iterations') as advance:

        def progress(iterate: Iterate) -> None:
            costs.append(iterate.mean_cost)
            advance(iterate.iterations, f'mean cost {costs[-1]:.4g}')

        result = estimate(plant, known, settings, progress)
        advance(most)
    report.check(plant, known, result)
    draws = report.draw(plant, result, options.spread, options.seed)
    summary, futures = report.summarize(plant, result), list[Future]()
    if later.steps:
        reached = replace(known, qpos=result.found.qpos)
        drawn = forecast.forecast(plant, draws[:_FORECASTS], reached, later)
        future = Future.of_motion(plant.model, later.qpos, drawn)
        summary['held_out_error'] = pictures.error(future)
        futures.append(future)
    told = dict(summary)
    if options.report is not None:
        way = Way('mean cost', np.array(costs))
        summary |= identification_report.write(options.report, plant, draws, way, futures)

    def prior() -> PriorFile:
        said = {
            'state_weight': settings.state_weight,
            'step_s': float(plant.model.opt.timestep),
            'spread': options.spread,
            'seed': options.seed,
            'held_out': options.held_out,
        }
        return report.to_prior(plant, result, draws, recording.sources, said, told)

    return summary, prior


def finish(options: argparse.Namespace) -> None:
    """Nothing was kept beside the prior."""
