"""`emppi identify --method filter`: a posterior by the belief's predictions, resumable."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.prior_schema import PriorFile
from emppi_ros.cli import identify_report, output
from emppi_ros.core.errors import ConfigError
from emppi_ros.identify import keeping
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.filter import estimate
from emppi_ros.identify.filter.posterior import Settings, State
from emppi_ros.identify.several import digests_of, sources_of
from emppi_ros.identify.states.plant import Plant
from emppi_ros.parallel import workers
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
    sources = sources_of(recordings)
    key = {
        'task': task.data,
        'model': keeping.digest(task.model),
        'data': digests_of(recordings),
        'lag_s': options.lag,
        'seed': options.seed,
        'substep_s': task.belief.substep_s,
        **asdict(settings),
    }
    path: Path | None = keeping.beside(options.out) if options.out else None
    kept = keeping.read(path, key, options.overwrite) if path else None
    state = State.of_arrays(kept) if kept else None
    progress = output.progress('filter', settings.power, 'of the likelihood')
    with keeping.ending(options.out), progress as advance:

        def watch(now: State) -> None:
            if path is not None:
                keeping.write(path, key, now._asdict())
            advance(float(now.powers[-1]), _objective(now.log_likelihood))

        found = estimate.estimate(
            task,
            recordings,
            settings,
            options.seed,
            watch,
            state,
            options.threads,
            lambda recipe: workers.shared(recipe, options.scheduler),
        )
        advance(settings.power, _objective(found.posterior.log_likelihood))

    def prior() -> PriorFile:
        return estimate.to_prior(task, plant.unknowns, found, sources, settings, options.seed)

    summary = estimate.summarize(task, found)
    if options.report is not None:
        summary |= identify_report.write(options.report, plant, found.posterior.theta)
    return summary, prior


def _objective(log_likelihood: npt.NDArray[np.float64]) -> str:
    return f'log likelihood {np.median(log_likelihood):.4g}'
