"""`emppi identify --method rigid-body`: the bodies of an arm, from its torques."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from emppi_ros.belief.prior_schema import PriorFile
from emppi_ros.cli import identify_report, output
from emppi_ros.identify import particles
from emppi_ros.identify.dataset import Recording
from emppi_ros.identify.rigid_body import fitting, forecast, recorded, report, scene_file
from emppi_ros.identify.rigid_body.scene_file import Body
from emppi_ros.identify.several import sources_of
from emppi_ros.identify.states.plant import Plant

HELD_OUT = 0.0  # unless a share is asked for
_MORE = 4  # times as many draws as are written: some are beyond bounds
_STAGES = 3  # of the bar


def add_options(group: Any) -> None:
    """Add what this method knows."""
    group.add_argument(
        '--links',
        choices=('known', 'unknown'),
        default='known',
        help='bodies that are not named: known, as the scene has them; or unknown, all of them '
        '(known)',
    )


def identify(
    options: argparse.Namespace, plant: Plant, recordings: Sequence[Recording]
) -> tuple[dict[str, Any], Callable[[], PriorFile]]:
    """Return what was found, and what makes it a prior."""
    with output.progress('rigid-body', _STAGES, 'stages') as advance:
        arm = recorded.read(plant, *recordings, held_out=options.held_out)
        advance(1)
        found = fitting.find(plant, arm, options.links == 'known')
        advance(2)
        drawn = report.draw(found, 1.0, particles.COUNT, options.seed)
        forecasts = forecast.forecast(arm, found, drawn)
        advance(_STAGES)
    theta = drawn.values(found)
    summary = report.summarize(plant, arm, found, theta)
    report.check(plant, summary, theta)
    summary |= forecast.summarize(arm, forecasts)
    told = dict(summary)
    if options.report is not None:
        futures = forecast.futures(arm, forecasts, options.seed)
        summary |= identify_report.write(options.report, plant, theta, None, futures)

    def prior() -> PriorFile:
        rows = summary['parameters'].values()
        kept = particles.excited([row['knowledge'] for row in rows])
        wide = report.draw(found, options.spread, _MORE * particles.COUNT, options.seed)
        said = {
            'links': options.links,
            'window_s': [motion.known.window_s for motion in arm.motions],
            'weight': found.everyday.weight,
            'spread': options.spread,
            'seed': options.seed,
            'held_out': options.held_out,
        }
        unknowns = [plant.unknowns[i] for i in kept]
        inside = report.within(plant, kept, wide.values(found))
        sources = sources_of(recordings)
        return particles.to_prior('rigid-body', unknowns, inside, sources, said, told)

    return summary, prior


def to_mjcf(plant: Plant, summary: dict[str, Any]) -> str:
    """Return the scene with the bodies and the friction that were found."""
    bodies = {name: Body(*row.values()) for name, row in summary['bodies'].items()}
    step = float(plant.model.opt.timestep)
    rows = summary['parameters']
    dry = {
        p.of: max(rows[p.name]['value'], 0.0)
        for p in plant.parameters
        if p.field == 'dof_frictionloss' and rows[p.name]['knowledge'] != 'unexcited'
    }
    return scene_file.to_text(recorded.file_of(plant), bodies, (summary['friction'], dry), step)
