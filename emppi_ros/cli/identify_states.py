"""`emppi identify --method states`: least squares over states and parameters."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from emppi_ros.belief.prior_schema import PriorFile
from emppi_ros.cli import identify_report, output
from emppi_ros.identify import pictures
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.pictures import Future, Way
from emppi_ros.identify.several import names_of, naming, sources_of
from emppi_ros.identify.states import checks, fitting, forecast, lag, recorded, report
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
    settings, names = Settings(state_weight=options.state_weight), names_of(recordings)
    parts = []
    for name, recording in zip(names, recordings, strict=True):
        with naming(name):
            motion = recorded.resample(recording, plant.model, plant.bodies)
            parts.append(forecast.split(motion, options.held_out))
    searches = 1 if len(parts) == 1 else len(parts) + 1  # each alone, and all together
    most, costs = 2 * settings.iterations * searches, list[float]()
    with output.progress('states', most, 'iterations') as advance:

        def progress(iterate: Iterate) -> None:
            costs.append(iterate.mean_cost)
            advance(len(costs), f'mean cost {costs[-1]:.4g}')

        learned = [before for before, _ in parts]
        motion, result, notes = fitting.find(plant, learned, names, settings, progress)
        late = lag.find(plant, motion, settings, result)
        advance(most)
    draws = report.draw(plant, result, options.spread, options.seed)
    summary = report.summarize(plant, result)
    if late is not None:
        summary['command_lag_s'] = late.seconds
        notes = [*notes, *late.notes]
    if notes := [*notes, *checks.strays(plant, names, recordings, motion, result)]:
        summary['notes'] = '; '.join(notes)
    futures = list[Future]()
    for (before, later), rows in zip(parts, motion.parts, strict=True):
        if not later.steps:
            continue
        reached = replace(before, qpos=result.found.qpos[rows])
        drawn = forecast.forecast(plant, draws[:_FORECASTS], reached, later)
        futures.append(Future.of_motion(plant.model, later.qpos, drawn))
    if futures:
        summary['held_out_error'] = pictures.error(futures)
    told = dict(summary)
    if options.report is not None:
        way = Way('mean cost', np.array(costs[-result.found.iterations :]))
        summary |= identify_report.write(options.report, plant, draws, way, futures)

    def prior() -> PriorFile:
        said = {
            'state_weight': settings.state_weight,
            'step_s': float(plant.model.opt.timestep),
            'spread': options.spread,
            'seed': options.seed,
            'held_out': options.held_out,
        }
        sources = sources_of(recordings)
        return report.to_prior(plant, result, draws, sources, said, told)

    return summary, prior
