"""`emppi bench caution`: success by what a controller knows, and how hard it pushes meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
import time
from typing import ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
import numpy as np

from benchmarks.belief.estimators import EMPPI
from benchmarks.belief.runs import code_digest
from benchmarks.paper.cells import LEARNER, ORACLE, changed, parse_with_threads, task_digest
from benchmarks.study import (
    Axis,
    Cells,
    Computed,
    Page,
    Results,
    Run,
    Selection,
    Study,
    computed,
    grouped,
)  # fmt: skip
from emppi_ros.app.closed_loop import CONTROLLERS, ClosedLoop
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.statistics import Median
from emppi_ros.core.errors import EmppiError
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.residuals import Sensor, norm
from emppi_ros.tasks.task import parse_task, task_text
from emppi_ros.viz.palette import SERIES
from emppi_ros.viz.report.plots import styled

SENSOR = 'push_force'  # of the scene: the force of the robot on the object [N]
BINS, BIN_S = 12, 0.25  # since the first contact; forces are means over bins
QUICK_S = 1.0


@dataclass(frozen=True)
class CautionRun(Run):
    """A controller in a task."""

    task: str
    controller: str
    seed: int


@dataclass(frozen=True)
class CautionCell(CautionRun):
    """A run to compute."""

    text: str = field(repr=False)  # the task's YAML

    @property
    def digest(self) -> str:
        """The digest of the task and, for a belief, of its code: others are outdated."""
        code = code_digest(EMPPI) if self.controller == LEARNER else ''
        return f'{task_digest(self.text)}-{code}'


@dataclass(frozen=True)
class CautionRow(CautionRun, Computed):
    """The result of one cell; the curves end with the run."""

    success: bool
    time_s: float  # until success, else the limit
    spread: tuple[float, ...]  # of the belief at the end of each bin: `relative_spread`
    force: tuple[float, ...]  # mean of each bin [N]


def compute(cell: CautionCell, threads: int | None = None) -> CautionRow:
    """Return the row of a cell; `threads` replaces the threads of planner and filter."""
    began = time.perf_counter()
    try:
        task = parse_with_threads(cell.text, cell.task, threads)
        loop, limit = ClosedLoop(task, cell.seed, cell.controller), task.file.duration_s
        push = Sensor(SENSOR).bind(loop.robot.model)
    except EmppiError as error:
        raise type(error)(f'{cell.task}, {cell.controller}, seed {cell.seed}: {error}') from None
    size = round(BIN_S / task.simulation.timestep_s)
    forces: list[float] = []  # of each physics step since the first contact
    spread: list[float] = []
    while loop.robot.time < limit and not (loop.trace.success and len(spread) >= BINS):
        loop.step()
        force = norm(push, loop.robot.data)
        if forces or force > 0.0:
            forces.append(force)
            if len(forces) % size == 0:
                spread.append(relative_spread(loop.filter.belief))
    bins = np.reshape(forces[: size * len(spread)], (-1, size))[:BINS]
    return CautionRow(
        **computed(cell, began),
        success=loop.trace.success,
        time_s=loop.trace.success_time or limit,
        spread=tuple(spread[:BINS]),
        force=tuple(bins.mean(axis=1).tolist()),
    )


def relative_spread(belief: Belief) -> float:
    """Return the standard deviation over the mean, averaged over parameters."""
    share = np.exp(belief.log_weights)
    mean = share @ belief.theta
    return float(np.mean(np.sqrt(share @ (belief.theta - mean) ** 2) / np.abs(mean)))


def medians(courses: Sequence[Sequence[float]]) -> list[Median]:
    """Return the median over runs in each bin that all runs reach."""
    return [statistics.median(values) for values in zip(*courses, strict=False)]


def draw(task: str, rows: Sequence[CautionRow], folder: Path) -> Path:
    """Write the forces of all controllers and the spread of the one that learns; return a path."""
    with styled():
        figure = Figure(figsize=(10.0, 3.4), layout='constrained')
        left, right = figure.subplots(1, 2)
        for color, (name, of_name) in zip(
            SERIES, grouped(rows, 'controller').items(), strict=False
        ):
            _curve(left, medians([row.force for row in of_name]), color, name)
            if name == LEARNER:
                _curve(right, medians([row.spread for row in of_name]), color, name)
        left.set(title='contact force [N]', xlabel='since the first contact [s]')
        right.set(title='spread of the belief', xlabel='since the first contact [s]')
        left.legend()
        figure.savefig(folder / f'caution_{task}.png', dpi=110)
    return folder / f'caution_{task}.png'


def _curve(axis: Axes, values: Sequence[Median], color: str, name: str) -> None:
    ends = BIN_S * np.arange(1, len(values) + 1)
    if all(value.low is not None for value in values):  # six runs or more
        low, high = [value.low for value in values], [value.high for value in values]
        axis.fill_between(ends, low, high, color=color, alpha=0.15)
    axis.plot(ends, [value.median for value in values], 'o-', color=color, label=name)


class CautionStudy(Study):
    """What learning decides, and whether a controller that knows little is careful."""

    name = 'caution'
    help = 'success by what a controller knows, and how hard it pushes meanwhile'
    description = 'Compare controllers that learn, know or guess, and their contact forces.'
    row = CautionRow
    compute = staticmethod(compute)
    axes: ClassVar = {
        'tasks': Axis('task', (), ('spring_door', 'panda_push'), 'by name or YAML file'),
        'controllers': Axis(
            'controller', CONTROLLERS, (LEARNER, ORACLE, 'no-update', 'mppi-mean')
        ),
    }
    seeds = range(200, 220)
    quick = f'one seed, {QUICK_S} s a run'
    outdated_by = 'task settings or beliefs'

    def cells(self, selection: Selection) -> Cells:
        """Return all cells, ordered by seed; ConfigError if a task is invalid."""
        texts = {}
        for source in selection.names['tasks']:
            text = task_text(source)
            name = parse_task(text, source).name
            texts[name] = changed(text, {'duration_s': QUICK_S}) if selection.quick else text
        return Cells([
            CautionCell(task, controller, seed, text)
            for seed in selection.seeds
            for task, text in texts.items()
            for controller in selection.names['controllers']
        ])  # fmt: skip

    def page(self, results: Results) -> Page:
        """Return success by controller, and force beside spread over time, of each task."""
        numbers, sections, figures = [], [], []
        for task, rows in grouped(results.rows, 'task').items():
            by_name = grouped(rows, 'controller')
            shares = {n: statistics.share([r.success for r in of]) for n, of in by_name.items()}
            times = {n: statistics.median([r.time_s for r in of]) for n, of in by_name.items()}
            numbers += [f'{task}, {name}: {share}' for name, share in shares.items()]
            figures.append(draw(task, rows, results.folder))
            sections += [
                f'## {task.replace("_", " ")}',
                report.table(
                    ('controller', 'success', 'time [s]'),
                    [(n, shares[n], times[n]) for n in shares],
                ),  # fmt: skip
                report.picture(figures[-1], 'Medians with 95 % intervals.'),
            ]
            others = {row.seed: row for row in by_name.get(ORACLE, ())}
            pairs = [(r, others[r.seed]) for r in by_name.get(LEARNER, ()) if r.seed in others]
            more = [[a - b for a, b in zip(r.force, o.force, strict=False)] for r, o in pairs]
            courses = ([r.spread for r, _ in pairs], [r.force for r, _ in pairs], more)
            columns = zip(*map(medians, courses), strict=False)
            header = ('until [s]', 'spread', 'force [N]', f'more than {ORACLE} [N]')
            lines = [(f'{BIN_S * k:g}', *values) for k, values in enumerate(columns, 1)]
            sections.append(report.table(header, lines))
        names = ('task', 'controller', 'seed', 'success', 'time_s')
        table = (names, [[getattr(row, name) for name in names] for row in results.rows])
        values = {'tasks': sections, 'BIN_S': BIN_S, 'SENSOR': SENSOR}
        return Page(values, {'table.csv': table}, figures, numbers, {'success': numbers})


STUDY = CautionStudy()
