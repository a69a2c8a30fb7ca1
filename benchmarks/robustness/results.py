"""The report `results.md`: all numbers, the machine and the command."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.belief.compute import LEAST_S
from benchmarks.robustness import plots
from benchmarks.robustness.rows import TABLE, RobustnessRow
from benchmarks.robustness.summary import PointSummary
from benchmarks.robustness.sweeps import SWEEPS
from emppi_ros.calibration import report
from emppi_ros.calibration.report import Provenance, table
from emppi_ros.tasks.task import Task

NAME = 'results.md'
METHOD = (
    'Each sweep changes one thing in the simulation that neither planner nor belief is told; all '
    'else is as in the task file, which was not tuned for these worlds. `emppi` learns; '
    '`mppi-true` plans with the true parameters, but knows nothing else of what is changed: it '
    'shows what no belief could do better.'
)
BUSY = (
    'The graph of ROS 2 nodes runs a task in real time, with its simulated robot on the same '
    'machine, beside processes that are always busy. A late plan is used as soon as it comes; if '
    'it is too late for the bridge, this brakes, and goes on after an acknowledgement, at most '
    'ten times in a run.'
)
COLUMNS = (
    '- success: runs that succeed within the time limit; 95 % Wilson interval.\n'
    '- time: median time to success [s]; inf: less than half of the runs succeed.\n'
    '- inside 90 %: 90 % intervals at the end of a run that hold the truth, of all parameters. A '
    f'run lasts until success and at least {LEAST_S:g} s.\n'
    '- misfit: runs in which the monitor of the belief shows that no parameters explain the '
    'measurements.\n'
    '- inside or misfit: runs in which all intervals hold the truth, or a misfit is shown: the '
    'belief is right, or says that it may be wrong.\n'
    '- faults: runs that the bridge stopped, by reason.'
)
BUSY_COLUMNS = (
    '- success: runs that succeed within the time limit; 95 % Wilson interval.\n'
    '- time: median time to success [s]; inf: less than half of the runs succeed.\n'
    '- late plans: plans that miss their deadline, median of the runs with its 95 % interval.\n'
    '- held: runs in which the bridge brakes because plans are late, and which go on after an '
    'acknowledgement.\n'
    '- faults: runs that ended with the bridge at rest, by reason.'
)
_HEADER = (
    'controller', 'success', 'time', 'inside 90 %', 'misfit', 'inside or misfit', 'faults',
)  # fmt: skip
_LOAD_HEADER = ('success', 'time', 'late plans', 'held', 'faults')


def write(
    folder: Path,
    rows: Sequence[RobustnessRow],
    groups: Sequence[PointSummary],
    tasks: dict[str, Task],
    provenance: Provenance,
    wanted: int,
    skipped: Sequence[str],
) -> list[Path]:
    """Write the plots and the report, and return the paths."""
    pictures = plots.write_all(groups, tasks, folder)
    busy = [SWEEPS[group.sweep].real_time for group in groups]
    title = 'On a busy machine' if all(busy) else 'When it works, and when it does not'
    parts = [
        *report.header(title, rows, wanted, provenance),
        *([] if all(busy) else [METHOD, COLUMNS]),
        *([BUSY, BUSY_COLUMNS] if any(busy) else []),
        f'The numbers of each run are in `{TABLE}`.',
        *report.left_out(skipped),
    ]
    for task in dict.fromkeys(group.task for group in groups):
        parts.append(f'## {task.replace("_", " ")}')
        for picture in pictures:
            if picture.task == task:
                parts += _section(picture, groups, tasks[task])
    return [*(picture.path for picture in pictures), report.write(folder / NAME, parts)]


def _section(picture: plots.SweepPlot, groups: Sequence[PointSummary], task: Task) -> list[str]:
    """Return the paragraphs about one sweep of a task."""
    sweep = SWEEPS[picture.sweep]
    parts = [
        f'### {picture.sweep.replace("_", " ")}',
        f'{sweep.description[0].upper()}{sweep.description[1:]}.',
        report.picture(picture.path, picture.caption),
    ]
    axes = sweep.axes(task)
    of_sweep = [g for g in groups if (g.task, g.sweep) == (picture.task, picture.sweep)]
    if sweep.real_time:
        parts.append(table((axes[0].label, *_LOAD_HEADER), map(_load_line, of_sweep)))
    elif len(axes) == 1:  # else the map holds the numbers
        parts.append(table((axes[0].label, *_HEADER), map(_line, of_sweep)))
    return parts


def _line(group: PointSummary) -> list[object]:
    outcomes = (group.success, group.time_s.median, group.inside, group.misfit, group.warned)
    return [
        *(f'{value:g}' for value in group.values),
        group.controller,
        *('-' if one is None else f'{one:.3g}' if isinstance(one, float) else one
          for one in outcomes),
        _faults(group),
    ]  # fmt: skip


def _load_line(group: PointSummary) -> list[object]:
    return [
        f'{group.values[0]:g}',
        group.success,
        f'{group.time_s.median:.3g}',
        '-' if group.late is None else f'{group.late} %',
        '-' if group.held is None else group.held,
        _faults(group),
    ]


def _faults(group: PointSummary) -> str:
    return '; '.join(f'{count}: {name}' for name, count in group.faults.items()) or '-'
