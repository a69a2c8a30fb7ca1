"""`emppi bench dual`: two controllers that learn, on a pendulum that takes a load."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from matplotlib.figure import Figure
import numpy as np

from benchmarks.dual import compute as runs
from benchmarks.dual.compute import DESCRIPTIONS, EVERY_S, METHODS, TASK, DualCell, DualRow
from benchmarks.paper.cells import changed
from benchmarks.study import Axis, Cells, Page, Results, Selection, Study, described, grouped
from emppi_ros.calibration import report, statistics
from emppi_ros.tasks.task import task_text
from emppi_ros.viz.palette import SERIES
from emppi_ros.viz.report.plots import styled

QUICK_S = 8.0
SOON_S = 2.0
HEADER = (
    'parameter', 'method', 'error before', 'error after', 'inside 90 % before',
    'inside 90 % after', f'recovered in {SOON_S:g} s',
)  # fmt: skip


class DualStudy(Study):
    """EMPPI and DuSt-MPC on a pendulum of unknown mass and inertia that takes a load."""

    name = 'dual'
    help = 'EMPPI and DuSt-MPC on a pendulum that takes a load'
    description = 'Compare two controllers that learn parameters while they control.'
    row = DualRow
    compute = staticmethod(runs.compute)
    axes: ClassVar[Mapping[str, Axis]] = {
        'methods': Axis('method', METHODS, help=described(DESCRIPTIONS))
    }
    seeds = range(200, 220)
    quick = f'one seed, {QUICK_S} s a run'
    outdated_by = 'task settings or methods'

    def cells(self, selection: Selection) -> Cells:
        """Return all cells, ordered by seed."""
        text = changed(task_text(str(TASK)), {'duration_s': QUICK_S} if selection.quick else {})
        names = selection.names['methods']
        return Cells([DualCell(name, seed, text) for seed in selection.seeds for name in names])

    def page(self, results: Results) -> Page:
        """Return success, errors and coverage by method."""
        groups: dict[str, list[DualRow]] = grouped(results.rows, 'method')
        by_method = {name: groups[name] for name in METHODS if name in groups}
        successes = [
            (name, *(statistics.share([getattr(row, key) for row in rows])
                     for key in ('success_before', 'success_after')))
            for name, rows in by_method.items()
        ]  # fmt: skip
        lines = [
            (parameter, name, *_measures([row.parameters[parameter] for row in rows]))
            for parameter in results.rows[0].parameters
            for name, rows in by_method.items()
        ]
        figure = draw(results.folder / 'dual_errors.png', by_method)
        numbers = [f'{name}: {a} before, {b} after' for name, a, b in successes]
        fields = ('method', 'seed', 'success_before', 'success_after')
        table = (fields, [[getattr(row, name) for name in fields] for row in results.rows])
        values = {
            'answer': '; '.join(numbers),
            'success': report.table(('method', 'before the load', 'with the load'), successes),
            'parameters': report.table(HEADER, lines),
            'methods': report.bullets(f'`{n}`: {DESCRIPTIONS[n]}.' for n in by_method),
            'SETTLING_S': f'{runs.SETTLING_S:g}',
            'figure': report.picture(figure, 'Relative errors of the means: medians over runs.'),
        }
        return Page(values, {'table.csv': table}, [figure], numbers, {'success': numbers})


def _measures(of_runs: Sequence[runs.DualParameter]) -> list[object]:
    """Return medians of errors, mean coverage, and how often an interval recovers soon."""
    errors = [
        statistics.median([getattr(parameter, key) for parameter in of_runs])
        for key in ('error_before', 'error_after')
    ]
    inside = [
        statistics.mean_share([getattr(parameter, key) for parameter in of_runs])
        for key in ('inside_before', 'inside_after')
    ]
    soon = [
        parameter.recovered_s is not None and parameter.recovered_s <= SOON_S
        for parameter in of_runs
    ]
    return [*errors, *inside, statistics.share(soon)]


def draw(path: Path, by_method: Mapping[str, Sequence[DualRow]]) -> Path:
    """Write the median errors of each parameter over time."""
    names = list(next(iter(by_method.values()))[0].parameters)
    with styled():
        figure = Figure(figsize=(10.0, 3.4), layout='constrained')
        for axis, name in zip(figure.subplots(1, len(names)), names, strict=True):
            for color, (method, rows) in zip(SERIES, by_method.items(), strict=False):
                errors = np.median([row.parameters[name].errors for row in rows], axis=0)
                axis.semilogy(
                    EVERY_S * np.arange(1, len(errors) + 1), errors, color=color, label=method
                )
            axis.set(title=f'relative error of {name}', xlabel='time [s]')
        axis.legend()
        figure.savefig(path, dpi=110)
    return path


STUDY = DualStudy()
