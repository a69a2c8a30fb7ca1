"""`emppi identify --method csvgd`: particles of the posterior, from where it was interrupted."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.file import PriorFile
from emppi_ros.bench import workers
from emppi_ros.cli import identification_report, output
from emppi_ros.identify import keeping, particles, pictures
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.filter.posterior import Settings as OfFilter
from emppi_ros.identify.states.plant import Plant
from emppi_ros.identify.stein import csvgd, findings, recorded
from emppi_ros.identify.stein.csvgd import Posterior, Progress, Settings, State
from emppi_ros.identify.stein.recorded import Cut, Learned
from emppi_ros.identify.stein.simulation import Recipe

Array = npt.NDArray[np.float64]
HELD_OUT = 0.2  # unless another share is asked for
_MEDIANS = 'medians'  # of the log likelihood, at each iteration
STIFFNESS = 1e3, 1e10  # of windows' meeting: recordings are ten times as exact as the benchmark


def add_options(group: Any) -> None:
    """Add what this method knows."""
    group.add_argument(
        '--particles',
        type=output.count,
        help=f'particles ({Settings.particles}; of filter {OfFilter.particles})',
    )
    group.add_argument('--iterations', type=output.count, default=100, help='iterations (100)')
    group.add_argument(
        '--window',
        metavar='S',
        type=float,
        default=0.5,
        help='length of the windows that are simulated side by side (%(default)g)',
    )
    group.add_argument(
        '--likelihood',
        choices=('product', 'sum'),
        default='product',
        help='of several recordings: product, all are of one system; sum, of several (product)',
    )
    group.add_argument(
        '--noise',
        metavar='KIND/JOINT=SD',
        nargs='+',
        default=[],
        help='of measurements, such as position/hinge=0.001 (what smoothing takes out)',
    )
    group.add_argument('--threads', type=output.whole, default=0, help='0: every core (0)')


def identify(
    options: argparse.Namespace, plant: Plant, recordings: Sequence[Recording]
) -> tuple[dict[str, Any], Callable[[], PriorFile]]:
    """Return what was found, and what makes it a prior."""
    cut = Cut(options.window, options.held_out, options.likelihood == 'sum')
    noise = output.assignments(options.noise, '--noise', 'position/hinge=0.001')
    learned = recorded.build(plant, recordings, cut, noise)
    settings = Settings(
        options.particles or Settings.particles,
        options.iterations,
        learned.windows,
        options.likelihood,
        stiffness=STIFFNESS,
        seed=options.seed,
    )
    said = {**asdict(settings), 'step_s': float(plant.model.opt.timestep), **asdict(cut)}
    sources = tuple(source for recording in recordings for source in recording.sources)
    key = {
        'model': keeping.digest(plant.model),
        'parameters': [asdict(p) for p in learned.problem.parameters],
        'data': [source.sha256 for source in sources],
        'noise': learned.problem.noise.tolist(),
        **said,
    }
    posterior, medians = _infer(options, learned, settings, key)
    found = findings.examine(learned, posterior, options.likelihood, options.threads)
    findings.check(plant, learned, found)
    forecasts = findings.forecast(learned, found, options.threads)
    summary = findings.summarize(plant, learned, posterior, found, forecasts)
    if notes := findings.more_noise(plant, learned, found):
        summary['notes'] = '; '.join(notes)
    told = dict(summary)
    if options.report is not None:
        way = pictures.Way('median log likelihood', medians)
        futures = findings.futures(learned, forecasts)
        summary |= identification_report.write(options.report, plant, found.theta, way, futures)

    def prior() -> PriorFile:
        kept = particles.excited(found.knowledge)
        unknowns = [plant.unknowns[i] for i in kept]
        return particles.to_prior('csvgd', unknowns, found.theta[:, kept], sources, said, told)

    return summary, prior


def _infer(
    options: argparse.Namespace, learned: Learned, settings: Settings, key: dict[str, Any]
) -> tuple[Posterior, Array]:
    """Return the posterior, and the median of the log likelihood at each iteration."""
    path: Path | None = keeping.beside(options.out) if options.out else None
    kept = keeping.read(path, key, options.overwrite) if path else None
    state, medians = None, list[float]()
    if kept is not None:
        medians, state = kept.pop(_MEDIANS).tolist(), State.of_arrays(kept)
    with output.progress('csvgd', settings.iterations, 'iterations') as advance:

        def watch(now: Progress) -> None:
            if path is not None:
                keeping.write(path, key, {_MEDIANS: medians, **now.state.to_arrays()})
            medians.append(float(np.median(now.evaluation.log_p)))
            advance(now.iteration, f'log likelihood {medians[-1]:.4g}')

        recipe = Recipe(learned.problem, settings.windows, settings.likelihood)
        with workers.shared(recipe, options.scheduler) as share:
            posterior = csvgd.infer(
                learned.problem, settings, options.threads, watch, state, share
            )
        medians.append(float(np.median(posterior.log_p)))
        advance(settings.iterations, f'log likelihood {medians[-1]:.4g}')
    return posterior, np.array(medians)
