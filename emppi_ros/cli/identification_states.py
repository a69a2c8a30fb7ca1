"""`emppi identify --method states`: least squares over states and parameters."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from emppi_ros.belief.file import PriorFile
from emppi_ros.cli import output
from emppi_ros.errors import ConfigError
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.states import recorded, report
from emppi_ros.identify.states.estimate import estimate
from emppi_ros.identify.states.plant import Plant
from emppi_ros.identify.states.solver import Iterate, Settings


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
    most = 2 * settings.iterations
    with output.progress('states', most, 'iterations') as advance:

        def progress(iterate: Iterate) -> None:
            advance(iterate.iterations)

        result = estimate(plant, motion, settings, progress)
        advance(most)
    report.check(plant, motion, result)

    def prior() -> PriorFile:
        return report.to_prior(
            plant, result, recording.sources, settings, options.spread, options.seed
        )

    return report.summarize(plant, result), prior


def finish(options: argparse.Namespace) -> None:
    """Nothing was kept beside the prior."""
