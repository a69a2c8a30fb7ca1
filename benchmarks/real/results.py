"""The report `results.md`: all numbers, the machine and the command."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.real import online
from benchmarks.real.compute import HELD_OUT, WINDOW_S, disagreement
from benchmarks.real.datasets import BELIEFS, DATASETS
from benchmarks.real.notes import NOTES
from benchmarks.real.rows import Estimate, ForecastError, RealRow, Score
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.report import Provenance, table
from emppi_ros.identify.shooting.forecast import HORIZON_S

NAME = 'results.md'
METHOD = (
    'Recordings of real mechanisms that others published; the data are not part of this '
    'repository. Each method is used with its defaults, as `emppi identify` does, and '
    f'learns from the first {100.0 * (1.0 - HELD_OUT):.0f} % of a recording (of tosses: from half '
    'of them, see there). The rest is forecast '
    f'in pieces of {HORIZON_S:g} s, for all methods alike from states fitted to the '
    f'{WINDOW_S:g} s before. The factor `--widen` of `shooting` was chosen on the free pendulum.'
)
BELIEF = (
    '`belief` is the online belief, which receives the joint states and commands of the first '
    f'{100.0 * (1.0 - HELD_OUT):.0f} % in the order of time, and is updated every '
    f'{online.HORIZONS_S[0]:g} s. It has {online.PARTICLES} particles, priors around the values '
    'of the model file (lognormal with a standard deviation of 1 of the logarithm, or normal with '
    'a quarter of the range), the noise of the recorded joint states as standard deviations, and '
    f'`joint_gain: {online.GAIN:g}`, which was chosen among 1, 0.2 and 0.1 on the first recording '
    'of the driven pendulum. Parameters may change over time, as in every task; those of '
    '`belief-constant` may not. A quantity has settled when its 90 % interval stays within '
    f'{100.0 * online.SETTLED:g} % of the final mean for the last second or longer. Predictions '
    'start from the measured state; those of the first second do not count. Where velocities were '
    'not recorded, each comes from a parabola through the last positions.'
)
COLUMNS = (
    '- Intervals are those between the 5 % and 95 % quantiles of the prior that the method '
    'writes; not determined: the motion does not show it.\n'
    '- error: root mean square, and median of absolute values, of the median forecast [rad].\n'
    '- inside 90 %: share of measurements in the 90 % band of the forecasts. A second '
    'number, where it was computed, is for forecasts that also have random torques; their '
    'covariance is that of the impulses that the model does not explain between windows of the '
    'learned part.'
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
        *report.header('Recordings of real mechanisms', rows, wanted, provenance),
        METHOD,
        *([BELIEF] if any(row.method in BELIEFS for row in rows) else []),
        COLUMNS,
        *report.left_out(skipped),
    ]
    for name in dict.fromkeys(row.dataset for row in rows):
        parts += _section(name, [row for row in rows if row.dataset == name])
    return [report.write(folder / NAME, parts)]


def _section(name: str, rows: Sequence[RealRow]) -> Iterable[str]:
    """Yield the paragraphs about one data set."""
    dataset = DATASETS[name]
    yield f'## {name.replace("-", " ")}'
    yield f'{dataset.description[0].upper()}{dataset.description[1:]}. Source: {dataset.source}.'
    refused = [f'{row.recording}, `{row.method}`: {row.refused}' for row in rows if row.refused]
    if refused:
        yield 'Refused:'
        yield report.bullets(refused)
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
        agreements = [line for name in dataset.together for line in _agreement(name, estimated)]
        if agreements:
            yield '\n'.join(agreements)
    joints = list(dict.fromkeys(joint for row in found for joint in row.forecasts))
    if joints:
        columns = [f'{joint}: {what}' for joint in joints for what in ('error', 'inside 90 %')]
        rows = [row for row in found if row.forecasts]
        yield table(('recording', 'method', *columns), (_errors(row, joints) for row in rows))
    scored = [row for row in found if row.scores]
    if scored:
        yield _score_table(scored)
    remarks = [*_overlaps(found, dataset.together or tuple(dataset.units)), *_flags(found)]
    if remarks:
        yield '\n'.join(remarks)
    if estimated:
        times = '; '.join(_times(estimated))
        yield f'Computing time of identification and forecasts, median: {times}.'
    if name in NOTES:
        yield NOTES[name].rstrip()


def _score_table(rows: Sequence[RealRow]) -> str:
    """Return a table of all scores, with as few columns as possible."""
    scores = dict.fromkeys((name, one.unit) for row in rows for name, one in row.scores.items())
    heads = [f'{name} [{unit}]' if unit else name for name, unit in scores]
    cells = [[_show_score(row.scores.get(name)) for row in rows] for name, _ in scores]
    names = [f'{row.recording}, {row.method}' for row in rows]
    if len(names) > len(heads):
        names, heads, cells = heads, names, [list(column) for column in zip(*cells, strict=True)]
    return table(['', *names], ([head, *line] for head, line in zip(heads, cells, strict=True)))


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


def _times(rows: Sequence[RealRow]) -> Iterable[str]:
    """Yield the computing time of each method."""
    for method in dict.fromkeys(row.method for row in rows):
        own = [row for row in rows if row.method == method]
        seconds = np.median([row.compute_s for row in own])
        rates = [row.steps / row.identify_s for row in own if row.steps and row.identify_s]
        rate = f', {np.median(rates):.2g} physics steps per second' if rates else ''
        yield f'`{method}` {seconds:.3g} s{rate}'


def _overlaps(rows: Sequence[RealRow], names: Sequence[str]) -> Iterable[str]:
    """Yield for how many quantities the belief's intervals overlap those of each other method."""
    for belief in BELIEFS:
        own = {row.recording: row for row in rows if row.method == belief and row.quantities}
        others = [row for row in rows if row.method not in BELIEFS and row.recording in own]
        for method in dict.fromkeys(row.method for row in others if row.quantities):
            pairs = [
                (own[row.recording].quantities[name], row.quantities[name])
                for row in others
                if row.method == method
                for name in names
            ]
            overlaps = [
                one.low <= other.high and other.low <= one.high
                for one, other in pairs
                if one.low < one.high and other.low < other.high
            ]
            if overlaps:
                yield (
                    f'- Intervals of `{belief}` and `{method}` overlap for '
                    f'{statistics.share(overlaps)} of the quantities that both determine.'
                )


def _flags(rows: Sequence[RealRow]) -> Iterable[str]:
    """Yield what the monitors of beliefs complain of at the end."""
    for row in rows:
        if row.method in BELIEFS:
            yield f'- {row.recording}, `{row.method}`: {"; ".join(row.flags) or "no flags"}.'


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
            f'{one.rms:.2g}, {one.median:.2g}', _inside(one),
        ]  # fmt: skip
    return cells


def _inside(one: ForecastError) -> str:
    shares = [share for share in (one.inside, one.inside_noisy) if share is not None]
    return ', '.join(f'{100.0 * share:.0f} %' for share in shares)


def lines(rows: Sequence[RealRow]) -> Iterable[str]:
    """Yield the most important numbers, one line for each recording and method."""
    for row in rows:
        begin = f'{row.dataset:16} {row.recording:34} {row.method:10}'
        if row.refused:
            yield f'{begin} refused: {row.refused}'
            continue
        each = [f'{name} {_show(one)}' for name, one in row.quantities.items()]
        each = each or [f'{name} {_show_score(one)}' for name, one in row.scores.items()]
        each = each or [f'{name}: error {one.rms:.2g}' for name, one in row.forecasts.items()]
        yield f'{begin} {"; ".join(each)}'
