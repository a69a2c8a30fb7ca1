"""The report `results.md`: what was inferred from films, and how far it is from the truth."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.video import control
from benchmarks.video.compute import (
    ITERATIONS,
    LONGEST_WINDOW_S,
    OWN,
    PARTICLES,
    POINTS,
    REST,
    TRIALS,
    TRUTH,
    WHOLE,
    ParameterResult,
    VideoRow,
)
from benchmarks.video.films import CAMERA, RATE_HZ, SECONDS
from benchmarks.video.forecast import AHEAD, SEEN, ImageErrors
from benchmarks.video.mechanisms import DENSITY, MECHANISMS, unknowns
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.report import Provenance, table
from emppi_ros.calibration.statistics import Mean

NAME = 'results.md'
LEAST_UP = 0.5  # reward of a pole that was upright half of the time
MOST_NMAE, INSIDE, REWARD = 0.02, (0.8, 0.97), 0.95  # what the own method must reach
METHOD = (
    f'Each mechanism is filmed for {SECONDS:g} s by a simulated depth camera ({CAMERA.width} x '
    f'{CAMERA.height} pixels, {RATE_HZ:g} Hz, noise of 9 mm at 1.6 m). Known are the shapes of '
    'the parts, where they are in the first image, the forces, and that densities are between '
    f'{DENSITY[0]:g} and {DENSITY[1]:g} kg/m^3. `tracking` finds the poses, `articulation` the '
    'joints, and a method of identification masses and dampings of the inferred mechanism, from '
    'the inferred joint positions. Truth, start, forces and noise are drawn for each seed. Films '
    f'with seeds after {WHOLE[-1]} are for the intervals of `shooting` and `sysid` only.'
)
METHODS = (
    f'- `{OWN}`: `emppi identify --method {OWN} --longest-window {LONGEST_WINDOW_S:g} --widen 1`; '
    'the length was chosen on cart-poles with seeds 1 to 3.\n'
    "- `sysid`: MuJoCo's least squares, `--method sysid --spread 1`.\n"
    f'- `CMA-ES`, `emcee`: {PARTICLES} particles and {ITERATIONS} iterations with single '
    'shooting, from the state that the first images show; the interval of CMA-ES is that of its '
    'last generation.\n'
    f'- `Adam`: {ITERATIONS} steps with the same single shooting, in several searches from other '
    f'parameters, of which the best counts. With P parameters there are {PARTICLES} / (1 + P) '
    'searches, since a gradient takes 1 + P simulations: in all as many as those of the samplers. '
    'It has no interval.'
)
PARAMETERS = (
    'NMAE: mean of the relative errors of the parameters; mean over films with a 95 % bootstrap '
    'interval. Columns of parameters: median of the relative errors, in percent. Inside: true '
    'values in their 90 % intervals, with a 95 % Wilson interval. Intervals of `shooting` and '
    '`sysid` contain the errors of axes and hinges, by the covariances of the joints in the '
    'inferred scene, but no factor for other errors of the model: simulated films have none. '
    'Those of the other methods are for exact joints.'
)
FORECAST = (
    f'In another film of the same mechanism, with another start and other forces, {SEEN} images '
    f'are seen and the next {AHEAD} are forecast, with the inferred joints and the median of the '
    'posterior. The forecast is rendered, and compared with images of the true motion without '
    'noise. Depths are scaled to 0 to 1 between the nearest and the farthest one. MSE and MAE: '
    'mean squared and mean absolute error; SSIM: structural similarity (scikit-image); each is '
    'the mean over images, and then over films with a 95 % bootstrap interval. Most of an image '
    f'is background that does not move: `{REST}` has the errors if all stays as in the last image '
    'that was seen.'
)
CONTROL = (
    'Mean of (1 + cos angle) / 2, which is 1 if the pole is upright all the time, '
    f'{TRIALS} trials for each film and task. Swing-up: '
    f'{control.TASKS["swing-up"].seconds:g} s from a pole that hangs; balancing: '
    f'{control.TASKS["balancing"].seconds:g} s from 20 degrees and a cart at 0.1 m/s. The planner '
    'has models of the posterior and does not learn; the world has the true parameters, in the '
    f'inferred geometry. Forces are at most {control.FORCE_N:g} N: with 20 N the planner did not '
    'swing up carts of 3 kg and more with the true parameters either, so that rewards did not '
    f'tell methods apart. The rail has {control.RAIL_M:g} m to each side: with 1.8 m, some carts '
    'left it with an upright pole, which stopped them. Both were chosen with the true parameters '
    'only, on seeds 200 to 204.'
)
PUBLISHED = (
    'Heiden et al. (2022) have, in Tab. II and III, for a cart-pole of their own: NMAE relative '
    'to the limits of the parameters 0.299 with Adam, 0.161 with their method, 0.369 with CMA-ES, '
    '0.328 with emcee; SSIM of the forecast 0.914, 0.945, 0.891, 0.889. Their scene, camera and '
    'scales are others, so that only orders compare.'
)
NOT_HERE = (
    '- All films are simulated. Real ones as in the paper, of a pendulum of Rott and of levers '
    'that a robot pushes over a table with dry friction, were not tried.\n'
    '- Shapes of the parts are known, and their densities are uniform; without that, inertias '
    'would be unknown, too.\n'
    '- `Adam`, `CMA-ES` and `emcee` do not estimate the state at the start, which the other two '
    'methods do.\n'
    '- PhyDNet, a network that forecasts images in Tab. III, is not among the methods.'
)


def write(
    folder: Path, rows: Sequence[VideoRow], provenance: Provenance, wanted: int
) -> list[Path]:
    """Write the report, and return its path."""
    parts = [
        *report.header('From a depth video to a simulator', rows, wanted, provenance),
        METHOD,
        METHODS,
        PUBLISHED,
        '## Required and found',
        table(('what', 'required', f'found with `{OWN}`', 'reached'), _required(rows)),
        '## Not here',
        NOT_HERE,
        '## Films',
        report.bullets(f'{name}: {MECHANISMS[name].description}' for name in _mechanisms(rows)),
        table(('mechanism', 'films', 'right trees', *_FILM_HEADER), _films(rows)),
        'Poses: 95 % quantile of the errors of the parts. Largest value of all films.',
        '## Parameters',
        PARAMETERS,
    ]
    for name in _mechanisms(rows):
        own = _of(rows, name)
        header = ('method', 'films', 'NMAE', *_names(own), 'inside')
        parts += [f'### Parameters of {name}', table(header, _parameters(own))]
    parts += ['## Forecast of images', FORECAST]
    for name in _mechanisms(rows):
        lines = _forecasts(_of(rows, name))
        header = 'forecast', 'films', 'MSE', 'MAE', 'SSIM'
        parts += [f'### Forecasts of {name}', table(header, lines)]
    rewarded = [row for row in rows if row.rewards]
    if rewarded:
        header = ('planner knows', *(f'{task}{less}' for task in control.TASKS for less in _LESS))
        parts += ['## Control', CONTROL, table(header, _control(rewarded)), *_swung_up(rewarded)]
    refused = [
        f'{row.mechanism}, seed {row.seed}, `{row.method}`: {row.refused}'
        for row in rows
        if row.refused
    ]
    if refused:
        parts += ['Refused:', report.bullets(refused)]
    parts.append('## Each film')
    for name in _mechanisms(rows):
        own = _of(rows, name)
        header = ('seed', 'method', *_names(own, units=True))
        parts += [f'### Films of {name}', table(header, _each(own))]
    return [report.write(folder / NAME, parts)]


_FILM_HEADER = ('poses [mm]', 'axis [deg]', 'hinge [mm]')
_LESS = ('', ', less that with the truth')


def _mechanisms(rows: Sequence[VideoRow]) -> list[str]:
    return list(dict.fromkeys(row.mechanism for row in rows))


def _of(rows: Sequence[VideoRow], mechanism: str) -> list[VideoRow]:
    return [row for row in rows if row.mechanism == mechanism]


def _by(rows: Sequence[VideoRow], method: str) -> list[VideoRow]:
    """Return the rows of a method that have a result."""
    return [row for row in rows if row.method == method and row.parameters]


def _methods(rows: Sequence[VideoRow]) -> list[str]:
    return [name for name in dict.fromkeys(row.method for row in rows) if _by(rows, name)]


def _films(rows: Sequence[VideoRow]) -> Iterable[tuple[object, ...]]:
    for name in _mechanisms(rows):
        films = _first_by_seed(_of(rows, name))
        right = [row for row in films if row.axis_deg is not None]
        worst = [
            f'{float(f"{max(values):.2g}"):g}' if values else '-'
            for values in (
                [row.track_p95_mm for row in films],
                [row.axis_deg for row in right if row.axis_deg is not None],
                [row.pivot_mm for row in right if row.pivot_mm is not None],
            )
        ]
        yield name, len(films), f'{len(right)} of {len(films)}', *worst


def _first_by_seed(rows: Sequence[VideoRow]) -> list[VideoRow]:
    """Return the row of the first method for each film: tracks and tree are those of all."""
    return list({row.seed: row for row in reversed(rows)}.values())[::-1]


def _names(rows: Sequence[VideoRow], units: bool = False) -> list[str]:
    known = unknowns(MECHANISMS[rows[0].mechanism])
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    return [f'{name.replace("_", " ")} [{known[name].unit if units else "%"}]' for name in names]


def _parameters(rows: Sequence[VideoRow]) -> Iterable[tuple[object, ...]]:
    for method in _methods(rows):
        own = _by(rows, method)
        errors = [100.0 * np.median([row.parameters[n].error for row in own]) for n in
                  own[0].parameters]  # fmt: skip
        yield (
            f'`{method}`',
            len(own),
            _mean([row.error for row in own]),
            *(f'{error:.3g}' for error in errors),
            '-' if method in POINTS else statistics.share(_inside(own)),
        )


def _inside(rows: Sequence[VideoRow]) -> list[bool]:
    return [one.inside for row in rows for one in row.parameters.values()]


def _forecasts(rows: Sequence[VideoRow]) -> Iterable[tuple[object, ...]]:
    found: dict[str, list[ImageErrors]] = {}
    for row in rows:
        for name, errors in row.forecast.items():
            found.setdefault(name, []).append(errors)
    for name in [*(n for n in found if n not in (TRUTH, REST)), TRUTH, REST]:
        if name in found:
            own = found[name]
            yield (
                name if name in (TRUTH, REST) else f'`{name}`',
                len(own),
                _mean([one.mse for one in own], '.2g'),
                _mean([one.mae for one in own], '.2g'),
                _mean([one.ssim for one in own], '.4f'),
            )


def _mean(values: Sequence[float], digits: str = '.3f') -> str:
    return format(statistics.mean(values), digits)


def _truths(rows: Sequence[VideoRow]) -> dict[int, VideoRow]:
    """Return the row with the rewards with true parameters of each seed."""
    return {row.seed: row for row in rows if row.rewards_with_truth}


def _rewards(rows: Sequence[VideoRow], task: str) -> list[float]:
    return [value for row in rows for value in row.rewards[task]]


def _differences(rows: Sequence[VideoRow], others: Sequence[VideoRow], task: str) -> list[float]:
    """Return rewards less those with the true parameters, paired by film and trial."""
    true = _truths(others)
    return [
        a - b
        for row in rows
        if row.seed in true
        for a, b in zip(row.rewards[task], true[row.seed].rewards_with_truth[task], strict=True)
    ]


def _control(rows: Sequence[VideoRow]) -> Iterable[tuple[object, ...]]:
    for method in _methods(rows):
        own, cells = _by(rows, method), list[str]()
        for task in control.TASKS:
            less = _differences(own, rows, task)
            cells += [_mean(_rewards(own, task)), str(statistics.mean(less)) if less else '-']
        yield f'`{method}`', *cells
    true = _truths(rows).values()
    if true:
        cells = []
        for task in control.TASKS:
            cells += [_mean([one for row in true for one in row.rewards_with_truth[task]]), '']
        yield TRUTH, *cells


def _swung_up(rows: Sequence[VideoRow]) -> Iterable[str]:
    values = [one for row in _truths(rows).values() for one in row.rewards_with_truth['swing-up']]
    if values:
        yield (
            f'With the true parameters {sum(one > LEAST_UP for one in values)} of {len(values)} '
            f'swing-ups have a reward above {LEAST_UP:g}. Differences are paired by film and '
            'trial, with a 95 % bootstrap interval.'
        )


def _required(rows: Sequence[VideoRow]) -> Iterable[tuple[str, str, str, str]]:
    for name in _mechanisms(rows):
        films = _first_by_seed(_of(rows, name))
        right = sum(row.axis_deg is not None for row in films)
        found = f'{right} of {len(films)}'
        yield f'{name}: right trees', 'all', found, _yes(right == len(films))
        own = _by(_of(rows, name), OWN)
        if not own:
            continue
        if name == 'cartpole':
            errors = [row.error for row in own]
            good = float(np.mean(errors)) <= MOST_NMAE
            yield f'{name}: NMAE', f'at most {MOST_NMAE:g}', _mean(errors), _yes(good)
        yield _required_inside(name, own)
        yield from _required_rewards(_of(rows, name))
    if len(_mechanisms(rows)) > 1 and _by(rows, OWN):
        yield _required_inside('all', _by(rows, OWN))


def _required_inside(name: str, rows: Sequence[VideoRow]) -> tuple[str, str, str, str]:
    """Return the line on how many true values are in their intervals."""
    inside = statistics.share(_inside(rows))
    reached = _yes(INSIDE[0] <= inside.rate <= INSIDE[1])
    if reached != 'yes' and inside.low <= INSIDE[1] and inside.high >= INSIDE[0]:
        reached = '**no**, but too few to tell'
    wanted = f'{100 * INSIDE[0]:.0f} to {100 * INSIDE[1]:.0f} %'
    return f'{name}: true values in 90 % intervals', wanted, str(inside), reached


def _required_rewards(rows: Sequence[VideoRow]) -> Iterable[tuple[str, str, str, str]]:
    rows = [row for row in rows if row.rewards]
    own = _by(rows, OWN)
    for task in control.TASKS:
        less = _differences(own, rows, task)
        if not less:
            return
        true = np.mean([r for row in _truths(rows).values() for r in row.rewards_with_truth[task]])
        reward = float(np.mean(_rewards(own, task)))
        share = f'{100 * (reward / true - 1.0):+.0f} %, difference {statistics.mean(less)}'
        least = f'at least {100 * REWARD:.0f} % of that with the truth'
        yield f'{task}: reward', least, share, _yes(bool(reward >= REWARD * true))
        others = [name for name in _methods(rows) if name != OWN]
        if others:
            apart, best = min((_mean_apart(own, _by(rows, name), task), name) for name in others)
            wanted = 'no less than with the best other method'
            better = _yes(apart.mean >= 0.0)
            if apart.mean < 0.0 and apart.high is not None and apart.high >= 0.0:
                better = 'equal within noise'
            films = len({row.seed for row in own} & {row.seed for row in _by(rows, best)})
            found = f'difference from `{best}` {apart}, of {films} films'
            yield f'{task}: reward', wanted, found, better


def _mean_apart(rows: Sequence[VideoRow], others: Sequence[VideoRow], task: str) -> Mean:
    """Return the mean of rewards less those of another method, paired by film and trial."""
    other = {row.seed: row.rewards[task] for row in others}
    pairs = [
        a - b
        for row in rows
        if row.seed in other
        for a, b in zip(row.rewards[task], other[row.seed], strict=True)
    ]
    return statistics.mean(pairs)


def _yes(reached: bool) -> str:
    return 'yes' if reached else '**no**'


def _each(rows: Sequence[VideoRow]) -> Iterable[tuple[object, ...]]:
    for row in rows:
        if row.parameters:
            yield (
                row.seed,
                f'`{row.method}`',
                *(_estimate(row, one) for one in row.parameters.values()),
            )


def _estimate(row: VideoRow, one: ParameterResult) -> str:
    interval = '' if row.method in POINTS else f' ({one.low:.4g} to {one.high:.4g})'
    return f'{one.value:.4g}{interval}, true {one.truth:.4g}'


def lines(rows: Sequence[VideoRow]) -> Iterable[str]:
    """Yield the most important numbers, one line for each mechanism and method."""
    for name in _mechanisms(rows):
        for method in _methods(_of(rows, name)):
            own = _by(_of(rows, name), method)
            inside = '-' if method in POINTS else statistics.share(_inside(own))
            error = _mean([row.error for row in own])
            yield f'{name:10} {method:10} NMAE {error}  inside 90 % {inside}'
