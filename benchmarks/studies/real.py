"""`emppi bench real`: identification from recordings of real mechanisms."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
import hashlib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from benchmarks import ASSETS
from benchmarks.pages import constants
from benchmarks.real import compute as runs
from benchmarks.real import online
from benchmarks.real.compute import HELD_OUT, METHODS, OTHERS, disagreement
from benchmarks.real.datasets import (
    BELIEFS,
    DATASETS,
    Dataset,
    Estimate,
    ForecastError,
    RealCell,
    RealRecording,
    RealRow,
    Score,
)
from benchmarks.study import Axis, Cells, Page, Results, Selection, Study, described, grouped
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.report import table
from emppi_ros.cli import output
from emppi_ros.core.errors import BenchError
from emppi_ros.identification import methods
from emppi_ros.identification.multiple_shooting import forecast


class RealStudy(Study):
    """Identification of real mechanisms, from recordings that others published."""

    name = 'real'
    help = 'identify real mechanisms from published recordings'
    description = """
Identify real mechanisms from recordings that others published, and forecast what was held out.
The recordings are not part of this package: --data is a folder with a folder for each data set.
"""
    row = RealRow
    compute = staticmethod(runs.compute)
    axes: ClassVar[Mapping[str, Axis]] = {
        'datasets': Axis('dataset', DATASETS, help=described(DATASETS)),
        'methods': Axis('method', (*methods.METHODS, *OTHERS), METHODS),
    }
    quick = 'one recording of each data set'
    outdated_by = 'recordings or models'

    def add_options(self, parser: Any) -> None:
        """Add the folder of the recordings, and their number."""
        folders = ', '.join(
            f'{dataset.folder} ({dataset.source})' for dataset in DATASETS.values()
        )
        parser.add_argument(
            '--data', metavar='FOLDER', type=Path, required=True, help=f'folder with {folders}'
        )
        parser.add_argument(
            '--recordings',
            metavar='N',
            type=output.count,
            help='use the first N recordings of each data set (all)',
        )

    def cells(self, selection: Selection) -> Cells:
        """
        Return the cells of data sets; those whose folder is missing are left out.

        There are no cells of methods that need what was not recorded. BenchError if no data set
        is there or one cannot be read.
        """
        cells, skipped = [], []
        options = selection.options
        count = 1 if selection.quick else getattr(options, 'recordings', None)
        for name in selection.names['datasets']:
            dataset = DATASETS[name]
            place = options.data / dataset.folder
            if not place.is_dir():
                skipped.append(f'{name}: no folder {place} ({dataset.source})')
                continue
            for recording in list(dataset.read(place))[:count]:
                for method in _rows(dataset, recording, selection.names['methods']):
                    digest = _digest(dataset, recording, method)
                    cells.append(RealCell(name, recording.name, method, recording, digest))
        if not cells:
            reasons = '; '.join(skipped) or 'no recording suits these methods'
            raise BenchError(f'--data: {reasons}')
        return Cells(cells, skipped)

    def page(self, results: Results) -> Page:
        """Return estimates and forecasts of each data set."""
        rows: Sequence[RealRow] = results.rows
        by_dataset = grouped(rows, 'dataset')
        values = {
            **{
                name.replace('-', '_'): list(_section(name, by_dataset.get(name, [])))
                for name in DATASETS
            },
            'answer': _answer(rows),
            'learned': f'{100.0 * (1.0 - HELD_OUT):.0f}',
            **constants(online, runs, forecast),
            'settled': f'{100.0 * online.SETTLED:g}',
        }
        data = {'rows': [dataclasses.asdict(row) for row in rows]}
        return Page(values, {}, (), _lines(rows), data)


def _answer(rows: Sequence[RealRow]) -> str:
    """Return how well each method forecasts, in one sentence for each."""
    sentences = []
    for method, own in grouped([row for row in rows if row.forecasts], 'method').items():
        errors = [error.rms for row in own for error in row.forecasts.values()]
        sentences.append(
            f'`{method}` misses by {np.median(errors):.2g} rad in {len(own)} recordings'
        )
    refused = sum(bool(row.refused) for row in rows)
    ahead = f'Forecasts of {forecast.HORIZON_S:g} s, root mean square error, median over joints'
    return (
        f'{ahead}: {"; ".join(sentences) or "none"}.\n'
        f'{refused} of {len(rows)} identifications were refused.\n'
        'Real mechanisms differ from their models by more than noise; the remarks below each '
        'table say how.'
    )


def _rows(dataset: Dataset, recording: RealRecording, chosen: Sequence[str]) -> Iterator[str]:
    """Yield the methods, and in the place of `published` the name of each published model."""
    for method in chosen:
        if method == 'published' and method in dataset.methods:
            yield from recording.models
        elif method in dataset.methods:
            yield method


def _digest(dataset: Dataset, recording: RealRecording, method: str) -> str:
    """Return a digest of the samples and of the model."""
    published = recording.models.get(method)
    path = ASSETS / (dataset.model if published is None else dataset.published)
    whole = hashlib.sha256(path.read_bytes())
    whole.update((ASSETS / dataset.model).with_suffix('.xml').read_bytes())
    if published is not None:
        whole.update(repr(published).encode())
    columns = dict(recording.columns)
    if method in BELIEFS:
        columns |= recording.velocities
    for name, values in columns.items():
        whole.update(name.encode() + values.tobytes())
    return whole.hexdigest()


def _section(name: str, rows: Sequence[RealRow]) -> Iterable[str]:
    """Yield the paragraphs about one data set; nothing without rows."""
    if not rows:
        return
    dataset = DATASETS[name]
    yield f'{dataset.description[0].upper()}{dataset.description[1:]}. Source: {dataset.source}.'
    refused = [f'{row.recording}, `{row.method}`: {row.refused}' for row in rows if row.refused]
    if refused:
        yield 'Refused:'
        yield report.bullets(refused)
    accepted = [row for row in rows if not row.refused]
    estimated = [row for row in accepted if row.quantities]
    if estimated:
        header = [f'{quantity} [{unit}]' for quantity, unit in dataset.units.items()]
        lines = [
            [row.recording, row.method, *map(_show, row.quantities.values())] for row in estimated
        ]
        yield table(('recording', 'method', *header), lines)
        published = [
            f'{quantity} {estimate.published:.4g}'
            for quantity, estimate in estimated[0].quantities.items()
            if estimate.published is not None
        ]
        if published:
            yield f'Published: {", ".join(published)}.'
        agreements = [line for name in dataset.together for line in _agreement(name, estimated)]
        if agreements:
            yield '\n'.join(agreements)
    joints = list(dict.fromkeys(joint for row in accepted for joint in row.forecasts))
    if joints:
        columns = [f'{joint}: {what}' for joint in joints for what in ('error', 'inside 90 %')]
        rows = [row for row in accepted if row.forecasts]
        yield table(('recording', 'method', *columns), (_errors(row, joints) for row in rows))
    scored = [row for row in accepted if row.scores]
    if scored:
        yield _score_table(scored)
    remarks = [*_overlaps(accepted, dataset.together or tuple(dataset.units)), *_flags(accepted)]
    if remarks:
        yield '\n'.join(remarks)
    if estimated:
        times = '; '.join(_times(estimated))
        yield f'Computing time of identification and forecasts, median: {times}.'


def _score_table(rows: Sequence[RealRow]) -> str:
    """Return a table of all scores, with as few columns as possible."""
    scores = dict.fromkeys(
        (name, score.unit) for row in rows for name, score in row.scores.items()
    )
    heads = [f'{name} [{unit}]' if unit else name for name, unit in scores]
    cells = [[_show_score(row.scores.get(name)) for row in rows] for name, _ in scores]
    names = [f'{row.recording}, {row.method}' for row in rows]
    if len(names) > len(heads):
        names, heads, cells = heads, names, [list(column) for column in zip(*cells, strict=True)]
    return table(['', *names], ([head, *line] for head, line in zip(heads, cells, strict=True)))


def _show(estimate: Estimate) -> str:
    if estimate.low == estimate.high:
        return 'not determined'
    return f'{estimate.value:.4g} ({estimate.low:.4g} to {estimate.high:.4g})'


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
        identified = [row for row in rows if row.method not in BELIEFS and row.recording in own]
        for method in dict.fromkeys(row.method for row in identified if row.quantities):
            pairs = [
                (own[row.recording].quantities[name], row.quantities[name])
                for row in identified
                if row.method == method
                for name in names
            ]
            overlaps = [
                estimate.low <= other.high and other.low <= estimate.high
                for estimate, other in pairs
                if estimate.low < estimate.high and other.low < other.high
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


def _show_score(score: Score | None) -> str:
    if score is None or score.value is None:
        return '-'
    if score.low is None or score.high is None:
        return f'{score.value:.3g}'
    return f'{score.value:.3g} ({score.low:.3g} to {score.high:.3g})'


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
        error = row.forecasts.get(joint)
        cells += ['-', '-'] if error is None else [
            f'{error.rms:.2g}, {error.median:.2g}', _inside(error),
        ]  # fmt: skip
    return cells


def _inside(error: ForecastError) -> str:
    shares = [share for share in (error.inside, error.inside_noisy) if share is not None]
    return ', '.join(f'{100.0 * share:.0f} %' for share in shares)


def _lines(rows: Sequence[RealRow]) -> Iterable[str]:
    """Yield the most important numbers, one line for each recording and method."""
    for row in rows:
        begin = f'{row.dataset:16} {row.recording:34} {row.method:10}'
        if row.refused:
            yield f'{begin} refused: {row.refused}'
            continue
        each = [f'{name} {_show(estimate)}' for name, estimate in row.quantities.items()]
        each = each or [f'{name} {_show_score(score)}' for name, score in row.scores.items()]
        each = each or [f'{name}: error {error.rms:.2g}' for name, error in row.forecasts.items()]
        yield f'{begin} {"; ".join(each)}'


STUDY = RealStudy()
