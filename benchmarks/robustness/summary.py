"""Summaries of rows: every number that the report and the plots use."""

from collections.abc import Iterable, Mapping, Sequence
import math
from typing import Any, NamedTuple

from benchmarks.robustness.runs import RobustnessRow
from benchmarks.robustness.sweeps import SWEEPS
from benchmarks.study import grouped, if_any, ordered
from emppi_ros.calibration import statistics
from emppi_ros.calibration.statistics import Median, Share


class PointSummary(NamedTuple):
    """The runs of a controller at one point."""

    task: str
    sweep: str
    values: tuple[float, ...]
    controller: str
    success: Share
    time_s: Median  # to success; infinite without
    inside: Share | None  # 90 % intervals at the end that hold the truth; None without a belief
    misfit: Share | None  # runs that show one
    warned: Share | None  # runs in which all intervals hold the truth, or a misfit is shown
    faults: Mapping[str, int]  # runs by the bridge's first fault
    late: Median | None  # plans of a run that miss their deadline [%]; None in simulated time
    held: Share | None  # runs in which the bridge held the arm; None in simulated time


def summarize(rows: Sequence[RobustnessRow]) -> list[PointSummary]:
    """Summarize rows by point and controller, in the order of sweeps and of values."""
    values = sorted({row.values for row in rows})
    groups = ordered(rows, task=(), sweep=SWEEPS, values=values, controller=())
    return [_summary(key, of_key) for key, of_key in groups.items()]


def _summary(key: Any, rows: Sequence[RobustnessRow]) -> PointSummary:
    judged = [row for row in rows if row.inside is not None]
    intervals = [
        one.inside for row in judged for one in row.parameters.values() if one.inside is not None
    ]
    faults = [row.fault for row in rows if row.fault]
    shown = [row.misfit_s is not None for row in judged]
    late = [100.0 * row.missed for row in rows if row.missed is not None]
    return PointSummary(
        *key,
        success=statistics.share([row.success for row in rows]),
        time_s=statistics.median([row.time_s if row.success else math.inf for row in rows]),
        inside=if_any(statistics.share, intervals),
        misfit=if_any(statistics.share, shown),
        warned=if_any(
            statistics.share,
            [bool(row.inside) or misfit for row, misfit in zip(judged, shown, strict=True)],
        ),
        faults={name: faults.count(name) for name in sorted(set(faults))},
        late=if_any(statistics.median, late),
        held=if_any(statistics.share, [row.holds > 0 for row in rows if row.holds is not None]),
    )


def lines(groups: Sequence[PointSummary]) -> Iterable[str]:
    """Yield the most important numbers, one line per group, below the name of the sweep."""
    for (task, sweep), points in grouped(groups, 'task', 'sweep').items():
        yield f'\n{task}, {sweep}'
        for one in points:
            values = ' '.join(f'{value:<8g}' for value in one.values)
            parts = [f'{values} {one.controller:10} success {one.success}']
            if one.inside is not None:
                parts.append(f'inside 90 %: {one.inside}')
                parts.append(f'inside or misfit: {one.warned}')
            if one.late is not None:
                parts.append(f'late plans: {one.late} %, held: {one.held}')
            yield '  '.join(parts)
