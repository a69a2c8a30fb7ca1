"""`emppi identify --method filter`: particles of the posterior, by the belief's predictions."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from emppi_ros.belief.file import PriorFile
from emppi_ros.cli import identification_report, output
from emppi_ros.errors import ConfigError
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.filter import estimate
from emppi_ros.identify.filter.posterior import Settings
from emppi_ros.identify.states.plant import Plant
from emppi_ros.tasks.task import load_task

HELD_OUT = None  # it forecasts nothing


def identify(
    options: argparse.Namespace, plant: Plant, recordings: Sequence[Recording]
) -> tuple[dict[str, Any], Callable[[], PriorFile]]:
    """Return what was found, and what makes it a prior."""
    if not options.task:
        raise ConfigError(
            '--model: --method filter needs a task, with its likelihood, objects and priors: '
            'give --task, or take another method'
        )
    task = load_task(options.task)
    if options.step is not None:
        task = estimate.with_step(task, options.step)
    settings = Settings(options.particles or Settings.particles)
    with output.progress('filter', 1.0, 'of the likelihood') as advance:
        found = estimate.estimate(
            task, recordings, settings, options.seed, advance, options.threads
        )

    def prior() -> PriorFile:
        sources = tuple(source for recording in recordings for source in recording.sources)
        return estimate.to_prior(task, plant.unknowns, found, sources, settings, options.seed)

    summary = estimate.summarize(task, found)
    if options.report is not None:
        summary |= identification_report.write(options.report, plant, found.posterior.theta)
    return summary, prior


def finish(options: argparse.Namespace) -> None:
    """Nothing was kept beside the prior."""
