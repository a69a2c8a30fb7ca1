"""`emppi bench video`: from depth videos of mechanisms to joints, masses and dampings."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import ClassVar

import numpy as np

from benchmarks.study import Axis, Cells, Page, Results, Selection, Study
from benchmarks.video import control
from benchmarks.video.compute import (
    ITERATIONS,
    LONGEST_WINDOW_S,
    METHODS,
    OPTIONS,
    OWN,
    PARTICLES,
    POINTS,
    REST,
    SEEDS,
    TRIALS,
    TRUTH,
    WHOLE,
    ParameterResult,
    VideoCell,
    VideoRow,
    compute,
)
from benchmarks.video.films import CAMERA, RATE_HZ, SECONDS
from benchmarks.video.forecast import AHEAD, SEEN, ImageErrors
from benchmarks.video.mechanisms import DENSITY, MECHANISMS, unknowns
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.report import table
from emppi_ros.calibration.statistics import Mean

LEAST_UP = 0.5  # reward of a pole that was upright half of the time
MOST_NMAE, INSIDE, REWARD = 0.02, (0.8, 0.97), 0.95  # what the own method must reach


class VideoStudy(Study):
    """Films of mechanisms, and what is inferred from them."""

    name = 'video'
    help = 'from a depth video to the parameters of a mechanism'
    description = """
Film simulated mechanisms with a depth camera, track their parts, infer their joints, and estimate
masses and dampings by several methods of identification. Then forecast the images of another film
with what was found, and swing up and balance the cart-pole. It needs the extra `identify`.
"""
    row = VideoRow
    compute = staticmethod(compute)
    axes: ClassVar[Mapping[str, Axis]] = {
        'mechanisms': Axis('mechanism', MECHANISMS),
        'methods': Axis('method', METHODS),
    }
    seeds = ()  # samplers and Adam have fewer than other methods
    seeds_help = f'{SEEDS[0]}-{SEEDS[-1]}; samplers and Adam: {WHOLE[0]}-{WHOLE[-1]}'
    quick = 'one film of each, few iterations'
    outdated_by = 'scenes or settings'

    def cells(self, selection: Selection) -> Cells:
        """Return the cells; without seeds, those that are not WHOLE are for OPTIONS only."""
        return Cells(
            [
                VideoCell(mechanism, name, seed, selection.quick)
                for seed in (selection.seeds or SEEDS)[: 1 if selection.quick else None]
                for mechanism in selection.names['mechanisms']
                for name in selection.names['methods']
                if selection.seeds or name in OPTIONS or seed in WHOLE
            ]
        )

    def page(self, results: Results) -> Page:
        """Return requirements, parameters, forecasts of images, and rewards of control."""
        rows: Sequence[VideoRow] = results.rows
        required = list(_required(rows))
        rewarded = [row for row in rows if row.rewards]
        values = {
            'met': sum(line[-1] != _yes(False) for line in required),
            'all': len(required),
            'required': table(('what', 'required', f'with `{OWN}`', 'met'), required),
            'mechanisms': report.bullets(
                f'{name}: {MECHANISMS[name].description}' for name in _mechanisms(rows)
            ),
            'films': table(('mechanism', 'films', 'right trees', *_FILM_HEADER), _films(rows)),
            'parameters': [
                text
                for name in _mechanisms(rows)
                for text in _parameter_section(name, _of(rows, name))
            ],
            'forecasts': [
                text
                for name in _mechanisms(rows)
                for text in (
                    f'### Forecasts of {name}',
                    table(_FORECAST_HEADER, _forecasts(_of(rows, name))),
                )
            ],
            'control': _control_section(rewarded),
            'refused': report.bullets(
                f'{row.mechanism}, seed {row.seed}, `{row.method}`: {row.refused}'
                for row in rows
                if row.refused
            ),
            'each': [
                text
                for name in _mechanisms(rows)
                for text in (
                    f'### Films of {name}',
                    table(
                        ('seed', 'method', *_names(_of(rows, name), units=True)),
                        _each(_of(rows, name)),
                    ),
                )
            ],
            'seconds': f'{SECONDS:g}',
            'size': f'{CAMERA.width} x {CAMERA.height}',
            'rate': f'{RATE_HZ:g}',
            'densities': f'{DENSITY[0]:g} and {DENSITY[1]:g}',
            'last': WHOLE[-1],
            'window': f'{LONGEST_WINDOW_S:g}',
            'particles': PARTICLES,
            'iterations': ITERATIONS,
            'seen': SEEN,
            'ahead': AHEAD,
            'rest': REST,
            'trials': TRIALS,
            'swing_up': f'{control.TASKS["swing-up"].seconds:g}',
            'balancing': f'{control.TASKS["balancing"].seconds:g}',
            'force': f'{control.FORCE_N:g}',
            'rail': f'{control.RAIL_M:g}',
        }
        data = {'rows': [dataclasses.asdict(row) for row in rows]}
        return Page(values, {}, (), _lines(rows), data)


_FORECAST_HEADER = ('forecast', 'films', 'MSE', 'MAE', 'SSIM')


def _control_section(rows: Sequence[VideoRow]) -> list[str]:
    header = 'planner knows', *(f'{task}{less}' for task in control.TASKS for less in _LESS)
    return [table(header, _control(rows)), *_swung_up(rows)] if rows else []


def _parameter_section(name: str, rows: Sequence[VideoRow]) -> Iterable[str]:
    yield f'### Parameters of {name}'
    yield table(('method', 'films', 'NMAE', *_names(rows), 'inside'), _parameters(rows))


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


def _lines(rows: Sequence[VideoRow]) -> Iterable[str]:
    """Yield the most important numbers, one line for each mechanism and method."""
    for name in _mechanisms(rows):
        for method in _methods(_of(rows, name)):
            own = _by(_of(rows, name), method)
            inside = '-' if method in POINTS else statistics.share(_inside(own))
            error = _mean([row.error for row in own])
            yield f'{name:10} {method:10} NMAE {error}  inside 90 % {inside}'


STUDY = VideoStudy()
