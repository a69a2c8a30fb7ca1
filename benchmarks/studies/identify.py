"""`emppi bench identify`: methods of identification on data with known truth."""

from collections.abc import Mapping, Sequence
import dataclasses
import time
from typing import ClassVar

from benchmarks.identify.cells import IdentifyCell, IdentifyRow
from benchmarks.identify.families import FAMILIES
from benchmarks.study import (
    Axis,
    Cells,
    Page,
    Results,
    Selection,
    Study,
    computed,
    described,
    grouped,
)
from emppi_ros.calibration import report
from emppi_ros.core.errors import IdentificationError

_METHODS = dict.fromkeys(name for family in FAMILIES.values() for name in family.methods)


class IdentifyStudy(Study):
    """Methods of identification on data with known truth."""

    name = 'identify'
    help = 'compare methods of identification on data with known truth'
    description = 'Compare methods of identification on data with known truth.'
    row = IdentifyRow
    axes: ClassVar[Mapping[str, Axis]] = {
        'families': Axis('family', FAMILIES, help=described(FAMILIES)),
        'methods': Axis('method', _METHODS),
    }
    seeds = range(100, 110)  # settings were chosen with others
    quick = 'one seed, the first case of each family'
    outdated_by = 'code'

    def cells(self, selection: Selection) -> Cells:
        """Return all cells, ordered by seed; those of a family have its methods only."""
        return Cells(
            [
                IdentifyCell(name, case, method, seed, FAMILIES[name].digest)
                for seed in selection.seeds
                for name in selection.names['families']
                for case in FAMILIES[name].cases[: 1 if selection.quick else None]
                for method in FAMILIES[name].methods
                if method in selection.names['methods']
            ]
        )

    @staticmethod
    def compute(cell: IdentifyCell) -> IdentifyRow:
        """Return the row of a cell."""
        began, measure = time.perf_counter(), FAMILIES[cell.family].measure
        try:
            values, refused = measure(cell.case, cell.method, cell.seed), ''
        except IdentificationError as error:
            values, refused = {}, str(error)
        return IdentifyRow(**computed(cell, began), values=values, refused=refused)

    def page(self, results: Results) -> Page:
        """Return the paragraphs of each family."""
        rows: Sequence[IdentifyRow] = results.rows
        by_family = {name: grouped(rows, 'family').get(name, []) for name in FAMILIES}
        lines = [
            line for name, family in FAMILIES.items() for line in family.answer(by_family[name])
        ]
        seeds = sorted({row.seed for row in rows})
        values = {
            **{
                name.replace('-', '_'): [
                    *family.page(by_family[name]),
                    *_refusals(by_family[name]),
                ]
                if by_family[name]
                else []
                for name, family in FAMILIES.items()
            },
            **{
                f'{name.replace("-", "_")}_methods': report.bullets(
                    f'`{method}`: {text}' for method, text in family.methods.items()
                )
                for name, family in FAMILIES.items()
            },
            'answer': report.bullets(lines),
            'seeds': f'{seeds[0]} to {seeds[-1]}',
        }
        data = {'rows': [dataclasses.asdict(row) for row in rows]}
        return Page(values, {}, (), lines, data)


def _refusals(rows: Sequence[IdentifyRow]) -> list[str]:
    """Return the refused runs with the reason."""
    refused = [f'{r.case}, `{r.method}`, seed {r.seed}: {r.refused}' for r in rows if r.refused]
    return ['Refused:', report.bullets(refused)] if refused else []


STUDY = IdentifyStudy()
