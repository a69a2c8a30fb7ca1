"""The report `results.md`: all numbers, the machine and the command."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from emppi_ros.bench import report
from emppi_ros.bench.real.compute import HELD_OUT, WINDOW_S, disagreement
from emppi_ros.bench.real.datasets import DATASETS
from emppi_ros.bench.real.rows import Estimate, RealRow, Score
from emppi_ros.bench.report import Provenance, table
from emppi_ros.identify.shooting.forecast import HORIZON_S

NAME = 'results.md'
METHOD = (
    'Recordings of real mechanisms that others published; the data are not part of this '
    'repository. Each method is used with its defaults, as `emppi identify` does, and '
    f'learns from the first {100.0 * (1.0 - HELD_OUT):.0f} % of a recording. The rest is forecast '
    f'in pieces of {HORIZON_S:g} s, for all methods alike from states fitted to the '
    f'{WINDOW_S:g} s before. The factor `--widen` of `shooting` was chosen on the free pendulum.'
)
COLUMNS = (
    '- Intervals are those between the 5 % and 95 % quantiles of the prior that the method '
    'writes; not determined: the motion does not show it.\n'
    '- error: root mean square, and median of absolute values, of the median forecast [rad].\n'
    '- inside 90 %: share of measurements in the 90 % band of the forecasts.'
)


def write(
    folder: Path,
    rows: Sequence[RealRow],
    provenance: Provenance,
    wanted: int,
    skipped: Sequence[str],
) -> list[Path]:
    """Write the report, and return its path."""
    parts = [
        '# Recordings of real mechanisms',
        *report.origin(rows, wanted, provenance),
        *report.makers(rows),
        METHOD,
        COLUMNS,
    ]
    if skipped:
        parts += ['Left out:', '\n'.join(f'- {line}' for line in skipped)]
    for name in dict.fromkeys(row.dataset for row in rows):
        parts += _section(name, [row for row in rows if row.dataset == name])
    path = folder / NAME
    path.write_text('\n\n'.join(parts) + '\n', encoding='utf-8')
    return [path]


def _section(name: str, rows: Sequence[RealRow]) -> Iterable[str]:
    """Yield the paragraphs about one data set."""
    dataset = DATASETS[name]
    yield f'## {name.replace("-", " ")}'
    yield f'{dataset.description[0].upper()}{dataset.description[1:]}. Source: {dataset.source}.'
    refused = [f'- {row.recording}, `{row.method}`: {row.refused}' for row in rows if row.refused]
    if refused:
        yield 'Refused:'
        yield '\n'.join(refused)
    found = [row for row in rows if not row.refused]
    estimated = [row for row in found if row.quantities]
    if estimated:
        header = [f'{quantity} [{unit}]' for quantity, unit in dataset.units.items()]
        yield table(('recording', 'method', *header), map(_estimates, estimated))
        published = [
            f'{quantity} {one.published:.4g}'
            for quantity, one in estimated[0].quantities.items()
            if one.published is not None
        ]
        if published:
            yield f'Published: {", ".join(published)}.'
        for quantity in dataset.together:
            yield '\n'.join(_agreement(quantity, estimated))
    joints = list(dict.fromkeys(joint for row in found for joint in row.forecasts))
    if joints:
        columns = [f'{joint}: {what}' for joint in joints for what in ('error', 'inside 90 %')]
        rows = [row for row in found if row.forecasts]
        yield table(('recording', 'method', *columns), (_errors(row, joints) for row in rows))
    scored = [row for row in found if row.scores]
    if scored:
        names = dict.fromkeys((n, one.unit) for row in scored for n, one in row.scores.items())
        header = ['', *(f'{row.recording}, {row.method}' for row in scored)]
        yield table(
            header,
            [
                [f'{name} [{unit}]' if unit else name]
                + [_show_score(row.scores.get(name)) for row in scored]
                for name, unit in names
            ],
        )
        if dataset.notes:
            yield dataset.notes.rstrip()


def _estimates(row: RealRow) -> list[object]:
    return [
        row.recording,
        row.method,
        *map(_show, row.quantities.values()),
    ]


def _show(one: Estimate) -> str:
    if one.low == one.high:
        return 'not determined'
    return f'{one.value:.4g} ({one.low:.4g} to {one.high:.4g})'


def _show_score(one: Score | None) -> str:
    if one is None or one.value is None:
        return '-'
    if one.low is None or one.high is None:
        return f'{one.value:.3g}'
    return f'{one.value:.3g} ({one.low:.3g} to {one.high:.3g})'


def _agreement(quantity: str, rows: Sequence[RealRow]) -> Iterable[str]:
    """Yield how far the recordings disagree about a quantity, by method."""
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method]
        if len(own) > 1:
            values = np.array([row.quantities[quantity].value for row in own])
            yield (
                f'- {quantity} by `{method}` in {len(own)} recordings: {values.mean():.4g}, sd '
                f'{values.std(ddof=1):.2g}; deviations are {disagreement(own, quantity):.2g} '
                'times what the intervals say (rms).'
            )


def _errors(row: RealRow, joints: Sequence[str]) -> list[object]:
    cells: list[object] = [row.recording, row.method]
    for joint in joints:
        one = row.forecasts.get(joint)
        cells += ['-', '-'] if one is None else [
            f'{one.rms:.2g}, {one.median:.2g}', f'{100.0 * one.inside:.0f} %',
        ]  # fmt: skip
    return cells


def lines(rows: Sequence[RealRow]) -> Iterable[str]:
    """Yield the most important numbers, one line for each recording and method."""
    for row in rows:
        begin = f'{row.dataset:16} {row.recording:34} {row.method:10}'
        if row.refused:
            yield f'{begin} refused: {row.refused}'
            continue
        each = (f'{name} {_show(one)}' for name, one in row.quantities.items())
        yield f'{begin} {"; ".join(each)}'
