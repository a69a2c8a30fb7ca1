"""`emppi bench video`: from depth videos of mechanisms to joints, masses and dampings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
from typing import ClassVar

import numpy as np

from benchmarks import means
from benchmarks.means import Mean
from benchmarks.pages import constants
from benchmarks.study import Axis, Cells, Page, Results, Selection, Study, grouped
from benchmarks.video import compute as runs
from benchmarks.video import control, films, forecast, image_refinement, mechanisms, pushes
from benchmarks.video.compute import (
    CARTPOLE,
    EVERYWHERE,
    IMAGES,
    METHODS,
    OF_CARTPOLE,
    OWN,
    POINTS,
    REST,
    SEEDS,
    TREE,
    TRUTH,
    WHOLE,
    ParameterResult,
    VideoCell,
    VideoRow,
)
from benchmarks.video.forecast import ImageErrors
from benchmarks.video.mechanisms import MECHANISMS
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.report import table

LEAST_UP = 0.5  # reward of a pole that was upright half of the time
LEAST_TREES = 0.9  # least share of right trees where an arm hides parts
MOST_NMAE, INSIDE, REWARD = 0.02, (0.8, 0.97), 0.95  # what the own method must reach
Line = tuple[object, ...]


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
    compute = staticmethod(runs.compute)
    axes: ClassVar[Mapping[str, Axis]] = {
        'mechanisms': Axis('mechanism', MECHANISMS),
        'methods': Axis('method', (*METHODS, TREE)),
    }
    seeds = ()  # samplers and Adam have fewer than other methods
    seeds_help = f'{SEEDS[0]}-{SEEDS[-1]}; samplers and Adam: {WHOLE[0]}-{WHOLE[-1]}'
    quick = 'one film of each, few iterations'
    outdated_by = 'scenes or settings'

    def cells(self, selection: Selection) -> Cells:
        """Return the cells; without seeds, those that are not WHOLE are for EVERYWHERE only."""
        return Cells(
            [
                VideoCell(mechanism, name, seed, selection.quick)
                for seed in (selection.seeds or SEEDS)[: 1 if selection.quick else None]
                for mechanism in selection.names['mechanisms']
                for name in selection.names['methods']
                if (name == TREE) == MECHANISMS[mechanism].pushed
                if selection.seeds or name in EVERYWHERE or seed in WHOLE
                if selection.seeds or name not in OF_CARTPOLE or mechanism == CARTPOLE
            ]
        )

    def page(self, results: Results) -> Page:
        """Return requirements, parameters, forecasts of images, and rewards of control."""
        rows: Sequence[VideoRow] = results.rows
        by_mechanism = grouped(rows, 'mechanism')
        required = list(_required(by_mechanism))
        poses = 'poses [mm]', 'axis [deg]', 'hinge [mm]'
        refused = (
            f'{row.mechanism}, seed {row.seed}, `{row.method}`: {row.refused}'
            for row in rows
            if row.refused
        )

        def sections(title: str, make: Callable[[Sequence[VideoRow]], str]) -> list[str]:
            return [
                text
                for name, of_name in by_mechanism.items()
                if not MECHANISMS[name].pushed
                for text in (f'### {title} of {name}', make(of_name))
            ]

        values = {
            **constants(films, forecast, control, mechanisms, runs),
            'ITERATIONS_OF_IMAGES': image_refinement.ITERATIONS,
            'pushed_s': pushes.SECONDS,
            'changed_s': pushes.CHANGED_S,
            'last': WHOLE[-1],
            'met': sum(line[-1] != _yes(False) for line in required),
            'all': len(required),
            'required': table(('what', 'required', f'with `{OWN}`', 'met'), required),
            'mechanisms': report.bullets(
                f'{name}: {MECHANISMS[name].description}' for name in by_mechanism
            ),
            'films': table(
                ('mechanism', 'films', 'right trees', *poses), map(_films, by_mechanism.values())
            ),
            'parameters': sections('Parameters', _parameters),
            'forecasts': sections('Forecasts', _forecasts),
            'images': _refined(by_mechanism),
            'doubled': _doubled([row for row in rows if row.doubled_mm]),
            'control': list(_control([row for row in rows if row.rewards])),
            'refused': report.bullets(refused),
            'each': sections('Films', _each),
        }
        data = {'rows': [dataclasses.asdict(row) for row in rows]}
        return Page(values, {}, (), _lines(by_mechanism), data)


def _by_method(rows: Sequence[VideoRow]) -> dict[str, list[VideoRow]]:
    """Return the rows that have a result, by method."""
    return grouped([row for row in rows if row.parameters], 'method')


def _films(rows: Sequence[VideoRow]) -> Line:
    films = _first_by_seed(rows)
    right = [row for row in films if row.axis_deg is not None]
    worst = [
        f'{float(f"{max(values):.2g}"):g}' if values else '-'
        for values in (
            [row.track_p95_mm for row in films],
            [row.axis_deg for row in right if row.axis_deg is not None],
            [row.pivot_mm for row in right if row.pivot_mm is not None],
        )
    ]
    return rows[0].mechanism, len(films), f'{len(right)} of {len(films)}', *worst


def _first_by_seed(rows: Sequence[VideoRow]) -> list[VideoRow]:
    """Return the row of the first method for each film: tracks and tree are those of all."""
    return [of_seed[0] for of_seed in grouped(rows, 'seed').values()]


def _names(rows: Sequence[VideoRow], units: bool = False) -> list[str]:
    known = mechanisms.unknowns(MECHANISMS[rows[0].mechanism])
    names = dict.fromkeys(name for row in rows for name in row.parameters)
    return [f'{name.replace("_", " ")} [{known[name].unit if units else "%"}]' for name in names]


def _parameters(rows: Sequence[VideoRow]) -> str:
    def line(method: str, own: Sequence[VideoRow]) -> Line:
        errors = [100.0 * np.median([row.parameters[name].error for row in own]) for name in
                  own[0].parameters]  # fmt: skip
        return (
            f'`{method}`',
            len(own),
            _mean([row.error for row in own]),
            *(f'{error:.3g}' for error in errors),
            '-' if method in POINTS else statistics.share(_inside(own)),
        )

    header = 'method', 'films', 'NMAE', *_names(rows), 'inside'
    return table(header, (line(*item) for item in _by_method(rows).items()))


def _inside(rows: Sequence[VideoRow]) -> list[bool]:
    return [parameter.inside for row in rows for parameter in row.parameters.values()]


def _refined(by_mechanism: Mapping[str, Sequence[VideoRow]]) -> str:
    """Return the errors of OWN and after a refinement on images, on the same films."""
    lines = []
    for name, rows in by_mechanism.items():
        methods = _by_method(rows)
        own = {row.seed: row.error for row in methods.get(OWN, ())}
        pairs = [(row.error, own[row.seed]) for row in methods.get(IMAGES, ()) if row.seed in own]
        if pairs:
            refined, before = zip(*pairs, strict=True)
            less = means.mean([a - b for a, b in pairs])
            lines.append((name, len(pairs), _mean(before), _mean(refined), format(less, '+.4f')))
    header = 'mechanism', 'films', f'NMAE of `{OWN}`', f'NMAE of `{IMAGES}`', 'difference'
    return table(header, lines) if lines else ''


def _doubled(rows: Sequence[VideoRow]) -> str:
    """Return how far parts are elsewhere if some of the truth is doubled, over films."""
    lines = []
    for name in rows[0].doubled_mm if rows else ():
        values = [row.doubled_mm[name] for row in rows]
        ends = (f'{float(f"{value:.2g}"):g}' for value in (np.median(values), max(values)))
        lines.append((name, len(values), *ends))
    return table(('doubled', 'films', 'median [mm]', 'most [mm]'), lines) if lines else ''


def _forecasts(rows: Sequence[VideoRow]) -> str:
    by_name: dict[str, list[ImageErrors]] = {}
    for row in rows:
        for name, errors in row.forecast.items():
            by_name.setdefault(name, []).append(errors)
    compared = TRUTH, REST
    names = [name for name in by_name if name not in compared]
    lines = [
        (
            name if name in compared else f'`{name}`',
            len(by_name[name]),
            _mean([errors.mse for errors in by_name[name]], '.2g'),
            _mean([errors.mae for errors in by_name[name]], '.2g'),
            _mean([errors.ssim for errors in by_name[name]], '.4f'),
        )
        for name in (*names, *(name for name in compared if name in by_name))
    ]
    return table(('forecast', 'films', 'MSE', 'MAE', 'SSIM'), lines)


def _mean(values: Sequence[float], digits: str = '.3f') -> str:
    return format(means.mean(values), digits)


def _rewards(rows: Iterable[VideoRow], task: str) -> dict[int, Sequence[float]]:
    """Return the rewards of trials by film."""
    return {row.seed: row.rewards[task] for row in rows}


def _rewards_with_truth(rows: Iterable[VideoRow], task: str) -> dict[int, Sequence[float]]:
    return {row.seed: row.rewards_with_truth[task] for row in rows if row.rewards_with_truth}


def _all(rewards: Mapping[int, Sequence[float]]) -> list[float]:
    return [value for of_film in rewards.values() for value in of_film]


def _differences(
    rewards: Mapping[int, Sequence[float]], compared: Mapping[int, Sequence[float]]
) -> list[float]:
    """Return rewards less others, paired by film and trial."""
    return [
        a - b
        for seed, of_film in rewards.items()
        if seed in compared
        for a, b in zip(of_film, compared[seed], strict=True)
    ]


def _control(rows: Sequence[VideoRow]) -> Iterable[str]:
    """Yield the table of rewards, and how many swing-ups with the truth succeed."""
    if not rows:
        return
    true = {task: _rewards_with_truth(rows, task) for task in control.TASKS}
    lines = []
    for method, own in _by_method(rows).items():
        cells = []
        for task in control.TASKS:
            rewards = _rewards(own, task)
            less = _differences(rewards, true[task])
            cells += [_mean(_all(rewards)), str(means.mean(less)) if less else '-']
        lines.append((f'`{method}`', *cells))
    swung_up = _all(true['swing-up'])
    if swung_up:
        lines.append((TRUTH, *(text for of in true.values() for text in (_mean(_all(of)), ''))))
    header = (
        text for task in control.TASKS for text in (task, f'{task}, less that with the truth')
    )
    yield table(('planner knows', *header), lines)
    if swung_up:
        yield (
            f'With the true parameters {sum(reward > LEAST_UP for reward in swung_up)} of '
            f'{len(swung_up)} swing-ups have a reward above {LEAST_UP:g}. Differences are paired '
            'by film and trial, with a 95 % bootstrap interval.'
        )


def _required(by_mechanism: Mapping[str, Sequence[VideoRow]]) -> Iterable[Line]:
    """Yield what is required, how much of it, what was reached, and whether that is enough."""
    all_own: list[VideoRow] = []
    for name, rows in by_mechanism.items():
        films = _first_by_seed(rows)
        right = sum(row.axis_deg is not None for row in films)
        trees = f'{right} of {len(films)}'
        share = LEAST_TREES if MECHANISMS[name].pushed else 1.0
        wanted = 'all' if share == 1.0 else f'at least {100 * share:.0f} %'
        yield f'{name}: right trees', wanted, trees, _yes(right >= share * len(films))
        own = _by_method(rows).get(OWN, [])
        if not own:
            continue
        all_own += own
        if name == CARTPOLE:
            errors = [row.error for row in own]
            good = float(np.mean(errors)) <= MOST_NMAE
            yield f'{name}: NMAE', f'at most {MOST_NMAE:g}', _mean(errors), _yes(good)
        yield _required_inside(name, own)
        yield from _required_rewards([row for row in rows if row.rewards])
    if len(by_mechanism) > 1 and all_own:
        yield _required_inside('all', all_own)


def _required_inside(name: str, rows: Sequence[VideoRow]) -> Line:
    """Return the line on how many true values are in their intervals."""
    inside = statistics.share(_inside(rows))
    reached = _yes(INSIDE[0] <= inside.rate <= INSIDE[1])
    if reached != 'yes' and inside.low <= INSIDE[1] and inside.high >= INSIDE[0]:
        reached = '**no**, but too few to tell'
    wanted = f'{100 * INSIDE[0]:.0f} to {100 * INSIDE[1]:.0f} %'
    return f'{name}: true values in 90 % intervals', wanted, str(inside), reached


def _required_rewards(rows: Sequence[VideoRow]) -> Iterable[Line]:
    methods = _by_method(rows)
    own = methods.pop(OWN, [])
    for task in control.TASKS:
        rewards, true = _rewards(own, task), _rewards_with_truth(rows, task)
        less = _differences(rewards, true)
        if not less:
            return
        mean, best = float(np.mean(_all(rewards))), float(np.mean(_all(true)))
        share = f'{100 * (mean / best - 1.0):+.0f} %, difference {means.mean(less)}'
        least = f'at least {100 * REWARD:.0f} % of that with the truth'
        yield f'{task}: reward', least, share, _yes(mean >= REWARD * best)
        if methods:
            yield f'{task}: reward', *_against_the_best(rewards, methods, task)


def _against_the_best(
    rewards: Mapping[int, Sequence[float]], methods: Mapping[str, Sequence[VideoRow]], task: str
) -> Line:
    """Return what is required of rewards beside those of other methods, and what was reached."""
    differences: dict[str, Mean] = {
        name: means.mean(_differences(rewards, _rewards(rows, task)))
        for name, rows in methods.items()
    }
    best = min(differences, key=lambda name: (differences[name], name))
    less = differences[best]
    better = _yes(less.mean >= 0.0)
    if less.mean < 0.0 and less.high is not None and less.high >= 0.0:
        better = 'equal within noise'
    films = len(rewards.keys() & {row.seed for row in methods[best]})
    reached = f'difference from `{best}` {less}, of {films} films'
    return 'no less than with the best other method', reached, better


def _yes(reached: bool) -> str:
    return 'yes' if reached else '**no**'


def _each(rows: Sequence[VideoRow]) -> str:
    lines = (
        (
            row.seed,
            f'`{row.method}`',
            *(_estimate(row, parameter) for parameter in row.parameters.values()),
        )
        for row in rows
        if row.parameters
    )
    return table(('seed', 'method', *_names(rows, units=True)), lines)


def _estimate(row: VideoRow, parameter: ParameterResult) -> str:
    interval = '' if row.method in POINTS else f' ({parameter.low:.4g} to {parameter.high:.4g})'
    return f'{parameter.value:.4g}{interval}, true {parameter.truth:.4g}'


def _lines(by_mechanism: Mapping[str, Sequence[VideoRow]]) -> Iterable[str]:
    """Yield the most important numbers, one line for each mechanism and method."""
    for name, rows in by_mechanism.items():
        if MECHANISMS[name].pushed:
            yield f'{name:10} {TREE:10} right {_films(rows)[2]}'
        for method, own in _by_method(rows).items():
            inside = '-' if method in POINTS else statistics.share(_inside(own))
            error = _mean([row.error for row in own])
            yield f'{name:10} {method:10} NMAE {error}  inside 90 % {inside}'


STUDY = VideoStudy()
