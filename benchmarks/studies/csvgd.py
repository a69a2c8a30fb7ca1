"""`emppi bench csvgd`: the experiments of the paper of CSVGD, with all of its estimators."""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import hashlib
import math
from pathlib import Path
import time
from typing import Any, ClassVar

import numpy as np

from benchmarks import study
from benchmarks.csvgd import box, experiments, pendulums, pictures, sample_metrics, target
from benchmarks.csvgd.cells import CsvgdCell, CsvgdRow, Experiment
from benchmarks.csvgd.estimators import ESTIMATORS, SamplerBudget
from benchmarks.csvgd.experiments import EXPERIMENTS
from benchmarks.pages import constants
from benchmarks.real.datasets import DATASETS
from benchmarks.study import Axis, Cells, Page, Results, Selection, described, grouped
from emppi_ros.calibration import report, statistics
from emppi_ros.core.errors import IdentificationError

_QUICK = SamplerBudget(8, 4)


class CsvgdStudy(study.Study):
    """Posteriors of simulation parameters by CSVGD and by other samplers."""

    name = 'csvgd'
    help = 'compare CSVGD with other samplers, as its paper does'
    description = """
Compare CSVGD with other samplers on double pendulums and on a box that an arm shakes. The real
pendulum needs recordings that are not part of this package: --data is the folder of their folder.
"""
    row = CsvgdRow
    axes: ClassVar[Mapping[str, Axis]] = {
        'experiments': Axis('experiment', EXPERIMENTS, help=described(EXPERIMENTS)),
        'methods': Axis('method', ESTIMATORS),
    }
    seeds = range(100, 106)  # settings were chosen with others; experiments take the first ones
    quick = 'one seed, few particles and iterations'
    outdated_by = 'code, models or recordings'

    def add_options(self, parser: Any) -> None:
        """Add the folder of the recordings."""
        source = DATASETS['free-pendulum']
        text = f'folder with {source.folder} ({source.source}); without it, no real pendulum'
        parser.add_argument('--data', metavar='FOLDER', type=Path, help=text)

    def cells(self, selection: Selection) -> Cells:
        """Return the cells of all experiments; that with recordings needs their folder."""
        cells, skipped = list[CsvgdCell](), list[str]()
        folder: Path | None = getattr(selection.options, 'data', None)
        for name in selection.names['experiments']:
            experiment, digest = EXPERIMENTS[name], EXPERIMENTS[name].digest
            if experiment.recorded:
                source = DATASETS['free-pendulum']
                if folder is None or not (folder / source.folder).is_dir():
                    where = (
                        f'no folder {source.folder} in --data' if folder else 'no --data FOLDER'
                    )
                    skipped.append(f'{name}: {where} ({source.source})')
                    continue
                angles = pendulums.read_real(folder)
                digest += hashlib.sha256(np.concatenate(angles).tobytes()).hexdigest()[:8]
            budget = _QUICK if selection.quick else experiment.budget
            digest += f'-{budget.particles}-{budget.iterations}'
            cells += [
                CsvgdCell(name, method, windows, seed, digest, budget, folder)
                for seed in selection.seeds[: experiment.seeds]
                for method, windows in experiment.runs
                if method in selection.names['methods']
            ]
        return Cells(cells, skipped)

    @staticmethod
    def compute(cell: CsvgdCell) -> CsvgdRow:
        """Return the row of a cell."""
        began, experiment = time.perf_counter(), EXPERIMENTS[cell.experiment]
        values: Mapping[str, float] = {}
        theta: tuple[tuple[float, ...], ...] = ()
        refused = ''
        try:
            values, particles = experiment.measure(cell)
            if experiment.pictured:
                theta = tuple(map(tuple, particles.round(6).tolist()))
        except IdentificationError as error:
            refused = str(error)
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        made = study.computed(cell, began)
        return CsvgdRow(**made, values=finite, theta=theta, refused=refused)

    def page(self, results: Results) -> Page:
        """Return a table of each experiment, and the posteriors of the weights."""
        rows: Sequence[CsvgdRow] = sorted(
            results.rows,
            key=lambda row: (
                EXPERIMENTS[row.experiment].runs.index((row.method, row.windows)),
                row.seed,
            ),
        )
        values, figures = dict[str, Any](), list[Path]()
        by_experiment = grouped(rows, 'experiment')
        for name, experiment in EXPERIMENTS.items():
            chosen = by_experiment.get(name, [])
            key = name.replace('-', '_')
            values[key] = list(_tables(experiment, chosen)) if chosen else []
            values[f'{key}_seeds'] = ', '.join(map(str, sorted({row.seed for row in chosen})))
        if empty := by_experiment.get('empty-box', []):
            values['empty_box'] = list(_coverage(empty))
        if weights := by_experiment.get('weights', []):
            first = min(row.seed for row in weights)
            path = results.folder / 'weights.png'
            shown = [row for row in weights if row.seed == first]
            pictures.save_weights(shown, box.box_problem(2, first)[1], path)
            figures.append(path)
            values['weights'] += [f'![Particles of the two weights, seed {first}](weights.png)']
        lines = list(_answers(by_experiment))
        values |= {'answer': report.bullets(lines), 'windows': experiments.WINDOWS}
        values |= constants(box, experiments, pendulums, sample_metrics, target)
        data = {'rows': [dataclasses.asdict(row) for row in rows]}
        return Page(values, {}, figures, lines, data)


def _tables(experiment: Experiment, rows: Sequence[CsvgdRow]) -> Iterator[str]:
    """Yield a table with a line for each method and number of windows, and refusals."""
    measures = experiment.measures
    lines = [
        (f'`{method}`', windows, *(_mean(of, measure) for measure in measures))
        for (method, windows), of in grouped(rows, 'method', 'windows').items()
    ]
    yield report.table(('method', 'windows', *measures.values()), lines)
    refused = [
        f'`{row.method}`, {row.windows} windows, seed {row.seed}: {row.refused}'
        for row in rows
        if row.refused
    ]  # fmt: skip
    yield from ('Refused:', report.bullets(refused)) if refused else ()


def _mean(rows: Sequence[CsvgdRow], measure: str) -> str:
    """Return the values of a measure, one for each seed."""
    if measure == 'near':
        return '; '.join(
            f'{row.values["near_first"]:.0%}, {row.values["near_second"]:.0%}'
            for row in rows if row.values
        )  # fmt: skip
    text = '.0%' if measure == 'first' else '.3g'
    return '; '.join(
        format(row.values[measure], text) if measure in row.values else 'n/a' for row in rows
    )


def _coverage(rows: Sequence[CsvgdRow]) -> Iterator[str]:
    """Yield how many 90 % intervals contain the truth, and how wide they are."""
    seeds = len(rows)
    lines = []
    for group, count in (('inertia', 6), ('centre', 3), ('friction', 2)):
        inside = round(sum(row.values[f'inside_{group}'] for row in rows))
        width = np.mean([row.values[f'width_{group}'] for row in rows])
        lines.append((group, *_share(inside, count * seeds), f'{100.0 * width:.0f} %'))
    inside = round(sum(row.values['inside'] for row in rows))
    lines.append(('all', *_share(inside, 11 * seeds), ''))
    yield report.table(
        ('parameters', 'truth inside', '95 % interval of the share', 'width, of the prior'), lines
    )
    errors = {
        'moment of inertia [%]': 'inertia_percent',
        'centre of mass [mm]': 'centre_mm',
        'points in a held-out motion, rms [mm]': 'forecast_mm',
    }
    medians = [
        (name, f'{np.median([row.values[key] for row in rows]):.3g}')
        for name, key in errors.items()
    ]
    yield report.table(('largest error of medians', 'median over seeds'), medians)


def _share(inside: int, count: int) -> tuple[str, str]:
    share = statistics.share([True] * inside + [False] * (count - inside))
    return f'{inside}/{count}', f'{100.0 * share.low:.0f} to {100.0 * share.high:.0f} %'


def _answers(rows: Mapping[str, Sequence[CsvgdRow]]) -> Iterator[str]:
    """Yield a sentence for each experiment."""
    for name in ('simulated-pendulum', 'real-pendulum'):
        chosen = rows.get(name, ())
        errors = {
            key: float(np.mean([row.values.get('error', math.inf) for row in of]))
            for key, of in grouped(chosen, 'method', 'windows').items()
        }
        if errors:
            ranks = sorted(errors, key=lambda key: errors[key])
            said = ', '.join(
                f'{method} ({windows}) {errors[method, windows]:.3g}' for method, windows in ranks
            )
            yield f'{name}, error by method (windows): {said}.'
        gains = [
            f'{method} {errors[method, 1] / errors[method, many]:.3g}'
            for method, many in errors if many > 1 and (method, 1) in errors
        ]  # fmt: skip
        if gains:
            yield f'{name}, error in one window over that in several: {", ".join(gains)}.'
    if empty := rows.get('empty-box'):
        inside = round(sum(row.values['inside'] for row in empty))
        total, interval = _share(inside, 11 * len(empty))
        yield f'empty-box: {total} truths inside 90 % intervals ({interval}).'
    for (method, windows), of in grouped(rows.get('weights', ()), 'method', 'windows').items():
        shares = '; '.join(f'{row.values["first"]:.0%}' for row in of)
        apart = np.mean([row.values['distance_mm'] for row in of])
        name = f'weights, {method} ({windows})'
        yield f'{name}: {shares} nearer to the first mode, {apart:.3g} mm away.'


STUDY = CsvgdStudy()
