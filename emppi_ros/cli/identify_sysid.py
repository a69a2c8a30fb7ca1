"""`emppi identify --method sysid`: one estimate by MuJoCo's own least squares, as a reference."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from emppi_ros.belief.prior_schema import PriorFile
from emppi_ros.cli import identify_csvgd, identify_report, output
from emppi_ros.identify import particles, pictures, sysid
from emppi_ros.identify.csvgd import findings, recorded
from emppi_ros.identify.csvgd.recorded import Cut
from emppi_ros.identify.csvgd.summary import System, summarize
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.several import sources_of
from emppi_ros.identify.states.estimate import word
from emppi_ros.identify.states.plant import Plant

HELD_OUT = identify_csvgd.HELD_OUT


def identify(
    options: argparse.Namespace, plant: Plant, recordings: Sequence[Recording]
) -> tuple[dict[str, Any], Callable[[], PriorFile]]:
    """Return what was found, and what makes it a prior."""
    cut = Cut(options.window, options.held_out)
    noise = output.assignments(options.noise, '--noise', 'position/hinge=0.001')
    learned = recorded.build(plant, recordings, cut, noise)
    costs: list[float] = []
    most = len(sysid.HARDENING) * sysid.ITERATIONS
    with output.progress('sysid', most, 'iterations') as advance:

        def progress(done: int, cost: float) -> None:
            costs.append(-cost)
            advance(done, f'log likelihood {-cost:.4g}')

        found = sysid.estimate(learned, plant.initial, progress, options.threads)
        advance(most)
    count = len(plant.unknowns)
    knowledge = [word(share) for share in found.sd(count)]
    kept = particles.excited(knowledge)
    posterior = sysid.as_posterior(learned, found)
    one = findings.examine(learned, posterior, options.threads)
    findings.check(plant, learned, one)
    forecasts = findings.forecast(learned, one, options.threads)
    summary = summarize(plant, System(learned, posterior, one, forecasts))
    for row, value, sd, known in zip(
        summary['parameters'].values(), *sysid.in_units(learned, found), knowledge, strict=True
    ):
        row.update(value=float(value), sd=float(sd), knowledge=known)
    names = [unknown.name for unknown in plant.unknowns]
    directions = particles.open_directions(found.covariance[:count, :count])
    summary['unexcited_directions'] = particles.blind(directions, names)
    del summary['particles'], summary['stranded']
    coordinates = sysid.draw(found, count, options.spread, options.seed)
    theta = learned.problem.theta(coordinates)
    told = dict(summary)
    if options.report is not None:
        way = pictures.Way('log likelihood', np.array(costs))
        many = findings.spread(one, theta)
        forecasts = findings.forecast(learned, many, options.threads)
        futures = findings.futures(learned, forecasts)
        summary |= identify_report.write(options.report, plant, theta, way, futures)

    def prior() -> PriorFile:
        sources = sources_of(recordings)
        said = {
            **asdict(cut),
            'step_s': float(plant.model.opt.timestep),
            'spread': options.spread,
            'seed': options.seed,
        }
        unknowns = [plant.unknowns[i] for i in kept]
        return particles.to_prior('sysid', unknowns, theta[:, kept], sources, said, told)

    return summary, prior
