"""`emppi bench learned`: MPPI with a learned model on the cart-pole, as on the paper's website."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from benchmarks.learned import compute as runs
from benchmarks.learned import dynamics
from benchmarks.learned.compute import (
    AFTER_S,
    DATA,
    METHODS,
    TASK,
    LearnedCell,
    LearnedRow,
    TrainingData,
)
from benchmarks.paper.cells import changed
from benchmarks.study import Axis, Cells, Page, Results, Selection, Study, grouped
from emppi_ros.calibration import report, statistics
from emppi_ros.tasks.task import parse_task, task_text

QUICK_S, QUICK_UPDATES = 0.5, 50
HEADER = ('method', 'success', 'time', *(f'error after {after:g} s' for after in AFTER_S))


class LearnedStudy(Study):
    """Simulated models and trained networks in the planner of the cart-pole."""

    name = 'learned'
    help = 'MPPI with a learned model on the cart-pole'
    description = f'Swing up {TASK} with models that are simulated, and with trained networks.'
    row = LearnedRow
    compute = staticmethod(runs.compute)
    axes: ClassVar[Mapping[str, Axis]] = {'methods': Axis('method', METHODS)}
    seeds = range(20)
    quick = f'one seed, {QUICK_S} s a run, {QUICK_UPDATES} updates of a network'
    outdated_by = 'task settings or methods'

    def cells(self, selection: Selection) -> Cells:
        """Return all cells, ordered by seed."""
        text, size = task_text(TASK), {}
        if selection.quick:
            text, size = changed(text, {'duration_s': QUICK_S}), {'updates': QUICK_UPDATES}
        names = selection.names['methods']
        return Cells(
            [LearnedCell(name, seed, text, **size) for seed in selection.seeds for name in names]
        )

    def page(self, results: Results) -> Page:
        """Return success, time and errors of prediction by method."""
        by_method: dict[str, list[LearnedRow]] = grouped(results.rows, 'method')
        lines = [(name, *_measures(rows)) for name, rows in by_method.items()]
        fields = ('method', 'seed', 'success', 'time_s')
        table = (
            (*fields, *HEADER[3:]),
            [
                [*(getattr(row, name) for name in fields), *(row.errors or ('',) * len(AFTER_S))]
                for row in results.rows
            ],
        )
        numbers = [f'{name}: {share}' for name, share, *_ in lines]
        planner = parse_task(task_text(TASK), TASK).planner
        values: dict[str, Any] = {
            'answer': '; '.join(numbers),
            'success': report.table(HEADER, lines),
            'data': report.bullets(f'`{n}`: {_describe(DATA[n])}.' for n in DATA),
            'hidden': dynamics.HIDDEN,
            'updates': dynamics.UPDATES,
            'batch': dynamics.BATCH,
            'recording_s': f'{dynamics.STEPS * planner.step_s:g}',
            'step_s': f'{planner.step_s:g}',
            'rollouts': planner.models * planner.rollouts,
        }
        return Page(values, {'table.csv': table}, [], numbers, {'success': numbers})


def _describe(data: TrainingData) -> str:
    poles = 'the pole of the run' if data.same else 'poles of the prior, each another one'
    return f'a network that was trained on {data.seconds:g} s of motion of {poles}'


def _measures(rows: Sequence[LearnedRow]) -> list[object]:
    """Return success, and medians over runs of time and of errors."""
    errors = [row.errors for row in rows if row.errors is not None]
    medians = [f'{median:.3f} rad' for median in np.median(errors, axis=0)] if errors else []
    return [
        statistics.share([row.success for row in rows]),
        f'{np.median([row.time_s for row in rows]):.2f} s',
        *(medians or ['-'] * len(AFTER_S)),
    ]


STUDY = LearnedStudy()
