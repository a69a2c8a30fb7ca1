"""`emppi identify --method csvgd`: particles of the posterior, from where it was interrupted."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.prior_schema import PriorFile
from emppi_ros.cli import identify_report, output
from emppi_ros.identify import keeping, particles, pictures, several
from emppi_ros.identify.csvgd import csvgd, findings, recorded
from emppi_ros.identify.csvgd.csvgd import Posterior, Progress, Settings, State
from emppi_ros.identify.csvgd.recorded import Cut, Learned
from emppi_ros.identify.csvgd.simulation import Recipe
from emppi_ros.identify.csvgd.summary import System, together
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.filter.posterior import Settings as OfFilter
from emppi_ros.identify.states.plant import Plant
from emppi_ros.parallel import workers

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
        help='of several recordings: product, all are of one system; sum, each is of another '
        '(product)',
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
    cut = Cut(options.window, options.held_out)
    built = _build(options, plant, recordings, cut)
    settings = Settings(
        options.particles or Settings.particles,
        options.iterations,
        sum(learned.windows for learned in built),
        options.likelihood,
        stiffness=STIFFNESS,
        seed=options.seed,
    )
    said = {**asdict(settings), 'step_s': float(plant.model.opt.timestep), **asdict(cut)}
    data = several.digests_of(recordings)
    key = {'model': keeping.digest(plant.model), 'data': data, 'lag_s': options.lag, **said}
    shares = np.array_split(np.arange(settings.particles), len(built))
    own = [
        replace(settings, particles=len(share), windows=learned.windows, likelihood='product')
        for learned, share in zip(built, shares, strict=True)
    ]
    with keeping.ending(options.out, len(built)):
        done = [
            _system(options, plant, learned, how, key, index)
            for index, (learned, how) in enumerate(zip(built, own, strict=True))
        ]
    systems = [system for system, _ in done]
    summary = told = together(plant, systems)
    theta = np.concatenate([system.found.theta for system in systems])
    if options.report is not None:
        way = pictures.Way('median log likelihood', np.sum([way for _, way in done], axis=0))
        futures = [one for s in systems for one in findings.futures(s.learned, s.forecasts)]
        report = identify_report.write(options.report, plant, theta, way, futures)
        summary = told | report

    def prior() -> PriorFile:
        rows = told['parameters'].values()
        kept = particles.excited([row['knowledge'] for row in rows])
        unknowns = [plant.unknowns[i] for i in kept]
        sources = several.sources_of(recordings)
        return particles.to_prior('csvgd', unknowns, theta[:, kept], sources, said, told)

    return summary, prior


def _build(
    options: argparse.Namespace, plant: Plant, recordings: Sequence[Recording], cut: Cut
) -> list[Learned]:
    """
    Return what is to be learned of each system.

    Densities of recordings differ by their noise, which says nothing of how likely a system is:
    so that each of several is learned by itself, by particles of its own.
    """
    noise = output.assignments(options.noise, '--noise', 'position/hinge=0.001')
    if options.likelihood == 'product':
        return [recorded.build(plant, recordings, cut, noise)]
    names = several.names_of(recordings)
    return [
        replace(recorded.build(plant, [recording], cut, noise), names=(name,))
        for name, recording in zip(names, recordings, strict=True)
    ]


def _system(
    options: argparse.Namespace, plant: Plant, learned: Learned, settings: Settings,
    key: Mapping[str, Any], index: int,
) -> tuple[System, Array]:  # fmt: skip
    """Return what is found of one system, and the median of the log likelihood on the way."""
    key = {
        **key,
        'parameters': [asdict(p) for p in learned.problem.parameters],
        'noise': learned.problem.noise.tolist(),
    }
    path = keeping.beside(options.out, index) if options.out else None
    with several.naming(learned.names[0] if len(learned.names) == 1 else ''):
        posterior, medians = _infer(options, learned, settings, path, key)
        found = findings.examine(learned, posterior, options.threads)
        findings.check(plant, learned, found)
    forecasts = findings.forecast(learned, found, options.threads)
    return System(learned, posterior, found, forecasts), medians


def _infer(
    options: argparse.Namespace, learned: Learned, settings: Settings, path: Path | None,
    key: Mapping[str, Any],
) -> tuple[Posterior, Array]:  # fmt: skip
    """Return the posterior, and the median of the log likelihood at each iteration."""
    kept = keeping.read(path, key, options.overwrite) if path else None
    state, medians = None, list[float]()
    if kept is not None:
        medians, state = kept.pop(_MEDIANS).tolist(), State.of_arrays(kept)
    with output.progress(
        f'csvgd {", ".join(learned.names)}', settings.iterations, 'iterations'
    ) as advance:

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
