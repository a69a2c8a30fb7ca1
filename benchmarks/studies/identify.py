"""`emppi bench identify`: methods of identification on data with known truth."""

from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import time
from typing import Any, ClassVar

import numpy as np

from benchmarks import means, study
from benchmarks.identify import baselines, computed_torque, furuta, regression
from benchmarks.identify.cells import Family, IdentifyCell, IdentifyRow
from benchmarks.identify.families import FAMILIES
from benchmarks.pages import constants
from benchmarks.study import Axis, Cells, Page, Results, Selection, described, grouped
from emppi_ros.calibration import report
from emppi_ros.core.errors import IdentificationError

_METHODS = dict.fromkeys(name for family in FAMILIES.values() for name in family.methods)


class IdentifyStudy(study.Study):
    """Methods of identification on data with known truth."""

    name = 'identify'
    help = 'compare methods of identification on data with known truth'
    description = 'Compare methods of identification on data with known truth.'
    row = IdentifyRow
    axes: ClassVar[Mapping[str, Axis]] = {
        'families': Axis('experiment', FAMILIES, help=described(FAMILIES)),
        'methods': Axis('method', _METHODS),
    }
    seeds = range(100, 110)  # settings were chosen with others
    quick = 'one seed, the first case of each family'
    outdated_by = 'code or models'

    def cells(self, selection: Selection) -> Cells:
        """Return all cells, ordered by seed; a family has cells of its methods only."""
        cells = [
            IdentifyCell(name, case, method, seed, FAMILIES[name].digest)
            for seed in selection.seeds
            for name in selection.names['families']
            for case in FAMILIES[name].cases[: 1 if selection.quick else None]
            for method in FAMILIES[name].methods
            if method in selection.names['methods']
        ]
        return Cells(cells)

    @staticmethod
    def compute(cell: IdentifyCell) -> IdentifyRow:
        """Return the row of a cell."""
        began, refused = time.perf_counter(), ''
        try:
            values = FAMILIES[cell.family].measure(cell.case, cell.method, cell.seed)
        except IdentificationError as error:
            values, refused = {}, str(error)
        return IdentifyRow(**study.computed(cell, began), values=values, refused=refused)

    def page(self, results: Results) -> Page:
        """Return a table for each measure of each family."""
        rows: Sequence[IdentifyRow] = results.rows
        values, lines = dict[str, Any](), list[str]()
        for name, family in FAMILIES.items():
            of_family = [row for row in rows if row.family == name]
            key = name.replace('-', '_')
            values[key] = list(_tables(family, of_family)) if of_family else []
            values[f'{key}_methods'] = report.bullets(
                f'`{method}`: {text}.' for method, text in family.methods.items() if text
            )
            lines += [f'{name}: {claim}' for claim in _claims(family, of_family)]
        seeds = sorted({row.seed for row in rows})
        values |= {'answer': report.bullets(lines), 'seeds': f'{seeds[0]} to {seeds[-1]}'}
        values |= constants(baselines, regression, computed_torque, furuta)
        data = {'rows': [dataclasses.asdict(row) for row in rows]}
        return Page(values, {}, (), lines, data)


def _tables(family: Family, rows: Sequence[IdentifyRow]) -> Iterator[str]:
    """Yield a table of each measure, and refusals with their reasons."""
    groups, by_case = grouped(rows, 'case', 'method'), grouped(rows, 'case')
    methods = [method for method in family.methods if method in grouped(rows, 'method')]
    for measure, text in family.measures.items():
        yield f'{text[0].upper()}{text[1:]}:'
        lines = [
            (f'`{method}`', *(_cell(groups.get((case, method), ()), measure) for case in by_case))
            for method in methods
        ]
        yield report.table(('method', *by_case), lines)
    refused = [f'{r.case}, `{r.method}`, seed {r.seed}: {r.refused}' for r in rows if r.refused]
    yield from ('Refused:', report.bullets(refused)) if refused else ()


def _cell(rows: Sequence[IdentifyRow], measure: str) -> str:
    """Return the mean of a measure with its interval, and how many runs failed."""
    values = [row.values[measure] for row in rows if measure in row.values]
    failed = f'{len(rows) - len(values)} of {len(rows)} failed' if len(rows) > len(values) else ''
    return ', '.join(filter(None, (f'{means.mean(values):.3g}' if values else '', failed)))


def _claims(family: Family, rows: Sequence[IdentifyRow]) -> Iterator[str]:
    """Yield how methods compare with the best baseline of each case that never fails."""
    for method, measure in family.claims:
        changes = []
        for of_case in grouped(rows, 'case').values():
            errors = {
                name: float(np.mean([row.values.get(measure, np.inf) for row in of]))
                for name, of in grouped(of_case, 'method').items()
            }
            best = min((errors.get(name, np.inf) for name in family.baselines), default=np.inf)
            if best < np.inf and method in errors:
                changes.append(100.0 * (errors[method] / best - 1.0))
        if changes:
            ends = f'{min(changes):+.0f} to {max(changes):+.0f} %'
            against = f'against the best baseline that never fails, in {len(changes)} cases'
            yield f'{family.measures[measure]}: `{method}` {ends} {against}.'
    first = next(iter(family.measures))
    failed = [
        f'`{method}` in {sum(lost)} of {len(lost)} runs'
        for method, of in grouped(rows, 'method').items()
        if any(lost := [first not in row.values for row in of])
    ]
    yield from [f'Failed: {", ".join(failed)}.'] if failed else ()


STUDY = IdentifyStudy()
