"""The report `results.md`: what was inferred from films, and how far it is from the truth."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from emppi_ros.bench import report, statistics
from emppi_ros.bench.report import Provenance, table
from emppi_ros.bench.video.compute import (
    ITERATIONS,
    LONGEST_WINDOW_S,
    OWN,
    PARTICLES,
    SWING_UPS,
    VideoRow,
)
from emppi_ros.bench.video.control import SECONDS as SECONDS_UP
from emppi_ros.bench.video.films import CAMERA, DENSITY, RATE_HZ, SECONDS, UNITS

NAME = 'results.md'
FAILED = 0.1  # reward of a pole that hangs most of the time
METHOD = (
    f'A cart-pole is driven by a recorded force for {SECONDS:g} s, and filmed by a simulated '
    f'depth camera ({CAMERA.width} x {CAMERA.height} pixels, {RATE_HZ:g} Hz, noise of 9 mm at '
    '1.6 m). Known are the shapes of the two parts, where they are in the first image, the force, '
    f'and that densities are between {DENSITY[0]:g} and {DENSITY[1]:g} kg/m^3. `tracking` finds '
    'the poses, `articulation` the joints, and a method of identification masses and dampings of '
    'the inferred mechanism, from the inferred joint positions. Truth, start, force and noise are '
    'drawn for each seed.'
)
METHODS = (
    f'- `{OWN}`: `emppi identify --method {OWN} --longest-window {LONGEST_WINDOW_S:g}`; the '
    'length was chosen on seeds 1 to 3.\n'
    "- `sysid`: MuJoCo's least squares.\n"
    f'- `CMA-ES`, `emcee`: {PARTICLES} particles and {ITERATIONS} iterations with single '
    'shooting; the interval of CMA-ES is that of its last generation.'
)
COLUMNS = (
    '- NMAE: mean of the relative errors of the four parameters; mean over films with a 95 % '
    'bootstrap interval.\n'
    '- inside: true values in their 90 % intervals, with a 95 % Wilson interval.\n'
    f'- reward: mean of (1 + cos angle) / 2 over a swing-up of {SECONDS_UP:g} s, which is 1 if '
    f'the pole is upright all the time, with {SWING_UPS} seeds for each film. The planner has '
    'models of the posterior and does not learn; the world has the true parameters, in the '
    'inferred geometry.'
)


def write(
    folder: Path, rows: Sequence[VideoRow], provenance: Provenance, wanted: int
) -> list[Path]:
    """Write the report, and return its path."""
    parts = [
        '# From a depth video to a simulator',
        *report.origin(rows, wanted, provenance),
        *report.makers(rows),
        METHOD,
        METHODS,
        COLUMNS,
        '## Films',
        table(
            ('seed', 'poses: p95 [mm]', 'axis [deg]', 'hinge [mm]'),
            map(_film, _first(rows)),
        ),
        '## Parameters',
        table(('method', 'films', 'NMAE', *_names(rows), 'inside', 'reward'), _methods(rows)),
        'Columns of parameters: median of the relative errors, in percent.',
        *_compared(rows),
    ]
    refused = [f'- seed {row.seed}, `{row.method}`: {row.refused}' for row in rows if row.refused]
    if refused:
        parts += ['Refused:', '\n'.join(refused)]
    parts += ['## Each film', table(('seed', 'method', *_headers(rows)), _each(rows))]
    path = folder / NAME
    path.write_text('\n\n'.join(parts) + '\n', encoding='utf-8')
    return [path]


def _first(rows: Sequence[VideoRow]) -> Iterable[VideoRow]:
    """Yield a row of each film."""
    for seed in sorted({row.seed for row in rows}):
        yield next(row for row in rows if row.seed == seed)


def _film(row: VideoRow) -> tuple[object, ...]:
    errors = ('-', '-')
    if row.axis_deg is not None and row.pivot_mm is not None:
        errors = f'{row.axis_deg:.2g}', f'{row.pivot_mm:.2g}'
    return row.seed, f'{row.track_p95_mm:.2g}', *errors


def _names(rows: Sequence[VideoRow]) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    return [f'{name.replace("_", " ")} [%]' for name in names]


def _headers(rows: Sequence[VideoRow]) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    return [f'{name.replace("_", " ")} [{UNITS[name]}]' for name in names]


def _methods(rows: Sequence[VideoRow]) -> Iterable[tuple[object, ...]]:
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method and row.parameters]
        if not own:
            continue
        names = list(own[0].parameters)
        yield (
            f'`{method}`', len(own), f'{_nmae(own)}',
            *(f'{100.0 * np.median([row.parameters[n].error for row in own]):.2g}' for n in names),
            statistics.share([one.inside for row in own for one in row.parameters.values()]),
            _reward([value for row in own for value in row.rewards]),
        )  # fmt: skip


def _reward(values: Sequence[float]) -> str:
    found = statistics.mean(values)
    if found.low is None:
        return f'{found.mean:.3f}'
    return f'{found.mean:.3f} ({found.low:.3f} to {found.high:.3f})'


def _compared(rows: Sequence[VideoRow]) -> Iterable[str]:
    """Yield rewards less those with the true parameters, paired by film and seed."""
    true = {row.seed: row.rewards_with_truth for row in rows if row.rewards_with_truth}
    if not true:
        return
    yield (
        'With the true parameters the reward is '
        f'{_reward([value for values in true.values() for value in values])}; in '
        f'{sum(max(values) < FAILED for values in true.values())} of {len(true)} films it is '
        f'below {FAILED:g}, since the planner does not swing up the pole. Rewards less this one, '
        'paired '
        'by film and seed of the swing-up:'
    )
    lines = []
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method and row.rewards and row.seed in true]
        differences = [
            a - b for row in own for a, b in zip(row.rewards, true[row.seed], strict=True)
        ]
        if differences:
            lines.append(f'- `{method}`: {statistics.mean(differences)}')
    yield '\n'.join(lines)


def _nmae(rows: Sequence[VideoRow]) -> str:
    found = statistics.mean([row.error for row in rows])
    if found.low is None:
        return f'{found.mean:.3f}'
    return f'{found.mean:.3f} ({found.low:.3f} to {found.high:.3f})'


def _each(rows: Sequence[VideoRow]) -> Iterable[tuple[object, ...]]:
    for row in rows:
        if row.parameters:
            yield (
                row.seed,
                f'`{row.method}`',
                *(
                    f'{one.value:.4g} ({one.low:.4g} to {one.high:.4g}), true {one.truth:.4g}'
                    for one in row.parameters.values()
                ),
            )


def lines(rows: Sequence[VideoRow]) -> Iterable[str]:
    """Yield the most important numbers, one line for each method."""
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method and row.parameters]
        if own:
            inside = [one.inside for row in own for one in row.parameters.values()]
            yield f'{method:10} NMAE {_nmae(own)}  inside 90 % {statistics.share(inside)}'
