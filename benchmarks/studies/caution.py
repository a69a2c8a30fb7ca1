"""`emppi bench caution`: success by what a controller knows, and how hard it pushes meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
import time
from typing import ClassVar

from matplotlib.figure import Figure
import numpy as np

from benchmarks import study
from benchmarks.belief.estimators import EMPPI
from benchmarks.belief.runs import belief_digest
from benchmarks.digests import task_digest
from benchmarks.paper.cells import LEARNER, ORACLE, changed, parse_with_threads
from benchmarks.study import Axis, Page, Results, Selection, grouped
from emppi_ros.app.closed_loop import CONTROLLERS, ClosedLoop
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.statistics import Median
from emppi_ros.core import weights
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.residuals import Sensor, norm
from emppi_ros.tasks.task import parse_task, task_text
from emppi_ros.viz.palette import SERIES
from emppi_ros.viz.report.plots import styled

SENSOR = 'push_force'  # of the scene: the force of the robot on the object [N]
BINS, BIN_S = 12, 0.25  # since the first contact; forces are means over bins
EARLY, LATE = 2, 4  # bins
QUICK_S = 1.0
DEFAULT = (LEARNER, ORACLE, 'no-update', GUESS := 'mppi-mean')  # controllers
AT = 'since the first contact [s]'


@dataclass(frozen=True)
class CautionRun(study.Run):
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
        code = belief_digest(EMPPI) if self.controller == LEARNER else ''
        return f'{task_digest(self.text)}-{code}'


@dataclass(frozen=True)
class CautionRow(CautionRun, study.Computed):
    """The result of one cell; the curves end with the run."""

    success: bool
    time_s: float  # until success, else the limit
    spread: tuple[float, ...]  # of the belief at the end of each bin: `relative_spread`
    force: tuple[float, ...]  # mean of each bin [N]


def compute(cell: CautionCell, threads: int | None = None) -> CautionRow:
    """Return the row of a cell; `threads` replaces the threads of planner and filter."""
    began, task = time.perf_counter(), parse_with_threads(cell.text, cell.task, threads)
    loop, limit = ClosedLoop(task, cell.seed, cell.controller), task.file.duration_s
    push = Sensor(SENSOR).bind(loop.robot.model)
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
        **study.computed(cell, began),
        success=loop.trace.success,
        time_s=loop.trace.success_time or limit,
        spread=tuple(spread[:BINS]),
        force=tuple(bins.mean(axis=1).tolist()),
    )


def relative_spread(belief: Belief) -> float:
    """Return the standard deviation over the mean, averaged over parameters."""
    mean = weights.mean(belief.log_weights, belief.theta)
    sd = np.sqrt(np.diag(weights.covariance(belief.log_weights, belief.theta)))
    return float(np.mean(sd / np.abs(mean)))


def medians(courses: Sequence[Sequence[float]]) -> list[Median]:
    """Return the median over runs in each bin that all runs reach."""
    return [statistics.median(values) for values in zip(*courses, strict=False)]


def differences(rows: Mapping[str, Sequence[CautionRow]], other: str) -> list[list[float]]:
    """Return the force of the learner minus that of another in each bin, for each seed [N]."""
    forces = {row.seed: row.force for row in rows.get(other, ())}
    learned = [row for row in rows.get(LEARNER, ()) if row.seed in forces]
    pairs = [zip(row.force, forces[row.seed], strict=False) for row in learned]
    return [[a - b for a, b in pair] for pair in pairs]


def verdicts(guess: Sequence[Sequence[float]], oracle: Sequence[Sequence[float]]) -> list[str]:
    """Return whether the learner pushes less than its mean model at first, as the oracle later."""
    if not guess or not oracle:
        return []
    early = statistics.median([float(np.mean(run[:EARLY])) for run in guess])
    late = statistics.median([float(np.mean(run[-LATE:])) for run in oracle])
    first = early.high is not None and early.high < 0.0
    then = (late.low or 0.0) <= 0.0 <= (late.high or 0.0)
    return [
        f'Conservative first: **{"holds" if first else "does not hold"}**. In the first '
        f'{EARLY * BIN_S:g} s, `{LEARNER}` minus `{GUESS}` is {early} N.',
        f'Exploitative later: **{"holds" if then else "does not hold"}**. In the last '
        f'{LATE * BIN_S:g} s, `{LEARNER}` minus `{ORACLE}` is {late} N.',
    ]


def draw(path: Path, forces: Mapping[str, Sequence[Median]], spread: Sequence[Median]) -> Path:
    """Write the force of each controller and the spread of the belief over time."""
    with styled():
        figure = Figure(figsize=(10.0, 3.4), layout='constrained')
        force_axis, spread_axis = figure.subplots(1, 2)
        curves = [(force_axis, *item) for item in forces.items()]
        if LEARNER in forces:
            curves.append((spread_axis, LEARNER, spread))
        for axis, name, values in curves:
            ends = BIN_S * np.arange(1, len(values) + 1)
            low, high = ([x[0] if x[k] is None else x[k] for x in values] for k in (1, 2))
            color = SERIES[list(forces).index(name)]
            axis.fill_between(ends, low, high, color=color, alpha=0.15)
            axis.plot(ends, [x.median for x in values], 'o-', color=color, label=name)
        force_axis.set(title='contact force [N]', xlabel=AT)
        spread_axis.set(title='spread of the belief', xlabel=AT)
        force_axis.legend()
        figure.savefig(path, dpi=110)
    return path


class CautionStudy(study.Study):
    """What learning decides, and whether a controller that knows little is careful."""

    name = 'caution'
    help = 'success by what a controller knows, and how hard it pushes meanwhile'
    description = 'Compare controllers that learn, know or guess, and their contact forces.'
    row = CautionRow
    compute = staticmethod(compute)
    axes: ClassVar = {
        'tasks': Axis('task', (), ('spring_door', 'panda_push'), 'by name or YAML file'),
        'controllers': Axis('controller', CONTROLLERS, DEFAULT),
    }
    seeds = range(200, 220)
    quick = f'one seed, {QUICK_S} s a run'
    outdated_by = 'task settings or beliefs'

    def cells(self, selection: Selection) -> study.Cells:
        """Return all cells, ordered by seed; ConfigError if a task is invalid."""
        cells, quick = [], {'duration_s': QUICK_S} if selection.quick else {}
        for source in selection.names['tasks']:
            text = changed(task_text(source), quick)
            names, task = selection.names['controllers'], parse_task(text, source).name
            cells += [CautionCell(task, n, seed, text) for seed in selection.seeds for n in names]
        return study.Cells(sorted(cells, key=lambda cell: cell.seed))  # stable

    def page(self, results: Results) -> Page:
        """Return success by controller, and force beside spread over time, of each task."""
        answer, numbers, sections, figures = [], [], [], []
        for task, rows in grouped(results.rows, 'task').items():
            names = grouped(rows, 'controller')
            lines = [
                (name, statistics.share([row.success for row in of_name]),
                 statistics.median([row.time_s for row in of_name]))
                for name, of_name in names.items()
            ]  # fmt: skip
            numbers += [f'{task}, {name}: {share}' for name, share, _ in lines]
            shares = ', '.join(f'`{name}` {share}' for name, share, _ in lines)
            answer.append(f'`{task}`: {shares}')
            forces = {name: medians([r.force for r in of]) for name, of in names.items()}
            spread = medians([row.spread for row in names.get(LEARNER, ())])
            more = {name: differences(names, name) for name in (ORACLE, GUESS) if name in names}
            ends = [f'{BIN_S * k:g}' for k in range(1, BINS + 1)]
            columns = zip(
                ends, spread, forces.get(LEARNER, ()), *map(medians, more.values()), strict=False
            )
            header = ('until [s]', 'spread', 'force [N]', *(f'more than {n} [N]' for n in more))
            figures.append(draw(results.folder / f'caution_{task}.png', forces, spread))
            sections += [
                f'## {task.replace("_", " ")}',
                report.table(('controller', 'success', 'time [s]'), lines),
                report.picture(figures[-1], 'Medians over runs with 95 % intervals.'),
                report.table(header, columns),
                report.bullets(verdicts(more.get(GUESS, ()), more.get(ORACLE, ()))),
            ]
        fields = ('task', 'controller', 'seed', 'success', 'time_s')
        table = (fields, [[getattr(row, name) for name in fields] for row in results.rows])
        values = {'tasks': sections, 'BIN_S': BIN_S, 'SENSOR': SENSOR}
        values['answer'] = report.bullets(answer)
        return Page(values, {'table.csv': table}, figures, numbers, {'success': numbers})


STUDY = CautionStudy()
