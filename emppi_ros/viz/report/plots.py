"""Plots of a run: the belief over time, the motion, and the latency."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon
import matplotlib.style
import numpy as np
from scipy.spatial import ConvexHull

from emppi_ros.core import paths, weights
from emppi_ros.core.arrays import Array
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import BLUE, GREEN, GREY, GRID, OBJECT_PATHS, ORANGE, RED
from emppi_ros.viz.renderer import Image
from emppi_ros.viz.report.recording import RunRecord
from emppi_ros.viz.shapes.objects import target_point
from emppi_ros.viz.shapes.scene_extent import body_boxes

UNITS = {
    'distance': '[m]',
    'height': '[m]',
    'joint_angle': '[rad]',
    'joint_position': '[rad or m]',
    'joint_velocity': '[rad/s or m/s]',
}
STYLE = {
    'font.family': 'DejaVu Sans',
    'font.size': 11,
    'axes.titlesize': 12,
    'axes.titleweight': 'bold',
    'axes.titlelocation': 'left',
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.edgecolor': GREY,
    'axes.grid': True,
    'grid.color': GRID,
    'grid.linewidth': 0.8,
    'axes.axisbelow': True,
    'legend.frameon': False,
    'lines.linewidth': 1.8,
}


def write_all(task: Task, record: RunRecord, folder: Path) -> list[Path]:
    """Write all plots as PNG files into a folder and return their paths."""
    written = []
    for name, draw in (('belief', belief), ('motion', motion), ('latency', latency)):
        with styled():
            figure = draw(task, record)
            written.append(folder / f'{name}.png')
            with paths.replacing(written[-1]) as temporary:
                figure.savefig(temporary, dpi=110)
    return written


def rasterize(figure: Figure) -> Image:
    """Return a drawn figure as an image (height, width, 3)."""
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style of all plots, and restore Matplotlib's settings afterwards."""
    with matplotlib.style.context(['default', STYLE]):
        yield


def label(task: Task, index: int) -> str:
    """Return a parameter's name and unit."""
    parameter = task.parameters[index]
    name = parameter.name.replace('_', ' ')
    return f'{name} [{parameter.unit}]' if parameter.unit else name


def belief(task: Task, record: RunRecord) -> Figure:
    """Return particles, mean and 90 % band of each parameter over time, and the sample size."""
    count = len(task.parameters)
    figure = Figure(figsize=(10, 2.3 * (count + 1)), layout='constrained')
    axes = figure.subplots(count + 1, 1, sharex=True, squeeze=False)[:, 0]
    if len(record.belief_times):
        for i, axis in enumerate(axes[:count]):
            _belief_of(axis, record, i)
            _draw_changes(axis, record, task.parameters[i].name)
            axis.set_ylabel(label(task, i))
            if i == 0 or record.changes:
                axis.legend(loc='upper right', ncols=5, markerscale=4)
        axes[-1].plot(record.belief_times, record.ess, color=BLUE, linewidth=1.2)
        particles = record.belief_weights.shape[1]
        bound = task.belief.resampling.ess_fraction * particles
        if bound <= particles:
            axes[-1].axhline(bound, color=GREY, linestyle='--', linewidth=1.2)
        axes[-1].set_ylim(0, 1.05 * particles)
    axes[0].set_title('Belief over time: particles, mean, 90 % band, true value')
    axes[-1].set_title('Effective sample size (dashed: resampling threshold)')
    axes[-1].set_ylabel('particles')
    axes[-1].set_xlabel('time [s]')
    return figure


def _belief_of(axis: Axes, record: RunRecord, index: int) -> None:
    times, values = record.belief_times, record.belief_theta[:, :, index]
    with np.errstate(divide='ignore'):
        rows = list(zip(np.log(record.belief_weights), values[..., None], strict=True))
    mean = np.array([weights.mean(*row)[0] for row in rows])
    low, high = (np.array([weights.quantile(*row, p)[0] for row in rows]) for p in (0.05, 0.95))
    every = max(1, len(times) // 150)
    axis.scatter(
        np.repeat(times[::every], values.shape[1]), values[::every].ravel(),
        s=3, color=BLUE, alpha=0.12, linewidths=0, label='particles',
    )  # fmt: skip
    axis.fill_between(times, low, high, color=BLUE, alpha=0.22, linewidth=0, label='90 % band')
    axis.plot(times, mean, color=BLUE, label='mean')
    if np.isfinite(record.truth[index]):
        end = max(times[-1], record.truth_times[-1])
        axis.step(
            [*record.truth_times, end], [*record.truths[:, index], record.truth[index]],
            where='post', color=RED, linestyle='--', label='true value',
        )  # fmt: skip
    axis.set_xlim(0, times[-1])


def _draw_changes(axis: Axes, record: RunRecord, parameter: str) -> None:
    """Draw a line at each detected change of a parameter."""
    times = [time for time, name in record.changes if name == parameter]
    for i, time in enumerate(times):
        axis.axvline(time, color=GREEN, linestyle=':', label='' if i else 'change detected')


def motion(task: Task, record: RunRecord) -> Figure:
    """Return the objects' paths from above (without objects: joints over time), and the error."""
    figure = Figure(figsize=(11, 4.8), layout='constrained')
    motion_axes, error_axes = figure.subplots(1, 2)
    if task.objects:
        _draw_paths(motion_axes, task, record.qpos)
        motion_axes.set_title('Paths of the objects, from above')
    else:
        for row, name in zip(task.map.qpos, task.robot.joints, strict=True):
            motion_axes.plot(record.times, record.qpos[:, row], label=name)
        motion_axes.set(xlabel='time [s]', ylabel='joint position [rad or m]', title='Joints')
        motion_axes.legend()
    error(error_axes, task, record)
    return figure


def _draw_paths(axis: Axes, task: Task, qpos: Array) -> None:
    """Draw objects' paths through configurations (n, nq), some outlines, and the target."""
    target = target_point(task, scene.kinematics(task.model, qpos[0]))
    if target is not None:
        x, y = target[:2].tolist()
        axis.plot(x, y, marker='+', markersize=16, markeredgewidth=2.5, color=RED,
                  linestyle='', label='target')  # fmt: skip
        below = task.file.success.below
        axis.add_patch(Circle((x, y), below, fill=False, color=RED, linewidth=1.2, ls=':',
                              label=f'within {below:g} m'))  # fmt: skip
    for (name, item), color in zip(task.objects.items(), OBJECT_PATHS, strict=False):
        path = qpos[:, item.qpos : item.qpos + 2]
        for share in (0.0, 0.35, 0.7, 1.0):
            data = scene.kinematics(task.model, qpos[round(share * (len(qpos) - 1))])
            corners = body_boxes(data, item.body(task.model)).reshape(-1, 3)[:, :2]
            if len(corners):
                axis.add_patch(Polygon(
                    corners[ConvexHull(corners).vertices], closed=True, facecolor=color,
                    alpha=0.06 + 0.16 * share, edgecolor=color, linewidth=1.2,
                ))  # fmt: skip
        axis.plot(*path.T, color=color, label=f'{name}, centre')
        axis.plot(*path[0], marker='o', color=color)
    axis.set(xlabel='x [m]', ylabel='y [m]', aspect='equal', adjustable='datalim')
    axis.legend(loc='best')


def error(axis: Axes, task: Task, record: RunRecord) -> None:
    """Draw the norm of the success residual over time, and its threshold."""
    below = task.file.success.below
    axis.plot(record.times, record.error, color=BLUE)
    axis.axhline(below, color=RED, linestyle='--', label=f'success below {below:g}')
    unit = UNITS.get(str(task.file.success.residual['residual']), '')
    axis.set(xlabel='time [s]', ylabel=f'error {unit}', title='Distance from success')
    axis.set_ylim(0, 1.08 * max(np.max(record.error, initial=0.0), below))
    axis.legend(loc='upper right')


def latency(task: Task, record: RunRecord) -> Figure:
    """Return histograms of the planning time and, if a bridge ran in real time, of its period."""
    rows = [
        ('Planning time', record.plan_ms, 1e3 / task.planner.rate_hz, 'planning period'),
        ('Bridge period', record.bridge_period_ms, None, ''),
    ]
    rows = [row for row in rows if len(row[1])]
    figure = Figure(figsize=(5.5 * max(len(rows), 1), 3.8), layout='constrained')
    axes = figure.subplots(1, max(len(rows), 1), squeeze=False)[0]
    for axis, (title, values, limit, meaning) in zip(axes, rows, strict=False):
        p50, p99 = np.percentile(values, [50, 99])
        top = max(1.3 * float(p99), limit * 1.05 if limit else 0.0)
        axis.hist(np.minimum(values, top), bins=50, range=(0, top), color=BLUE, alpha=0.85)
        for value, color, name in ((p50, ORANGE, 'p50'), (p99, RED, 'p99')):
            axis.axvline(value, color=color, linewidth=1.6, label=f'{name} {value:.2f} ms')
        if limit:
            axis.axvline(limit, color=GREY, linestyle='--', label=f'{meaning} {limit:.0f} ms')
        axis.set(
            title=title, xlabel='time [ms]', ylabel='count (log)', yscale='log', ylim=(0.7, None)
        )
        axis.legend()
    return figure
