"""Pictures of what was identified: pairs of parameters, how they were found, and forecasts."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.states.plant import Plant, Unknown
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_SEEN, _OURS = 'tab:red', 'tab:blue'
_BINS = 12
_BANDS = {0.05: 0.25, 0.25: 0.5}  # share at either end -> opacity


class Way(NamedTuple):
    """How a search went: what it made larger or smaller, at each iteration."""

    what: str
    values: Array


class Future(NamedTuple):
    """What was held out of a recording, and what particles forecast of it."""

    time: Array  # (T,) s, since what was learned from
    what: Sequence[tuple[str, str]]  # of Q numbers: names and units
    seen: Array  # (T, Q)
    forecast: Array  # (N, T, Q)

    @classmethod
    def of_motion(cls, model: mujoco.MjModel, seen: Array, forecast: Array) -> 'Future':
        """Return that of configurations (T, nq) and (N, T, nq), one after each time step."""
        shown = _coordinates(model)
        index = [i for i, _, _ in shown]
        time = model.opt.timestep * np.arange(1, len(seen) + 1)
        what = [(name, unit) for _, name, unit in shown]
        return cls(time, what, seen[:, index], forecast[:, :, index])


def write_all(
    plant: Plant, theta: Array, way: Way | None, futures: Sequence[Future], folder: Path
) -> list[Path]:
    """
    Write all pictures of particles theta (N, P) into a folder, and return them.

    What another method drew there, and this one does not, is removed.
    """
    later = [future for future in futures if len(future.seen)]
    drawn = {
        'posterior.png': pairs(plant.unknowns, theta),
        'convergence.png': convergence(way) if way is not None else None,
        'held_out.png': held_out(later) if later else None,
    }
    for name, figure in drawn.items():
        if figure is None:
            (folder / name).unlink(missing_ok=True)
        else:
            save(figure, folder / name)
    return [folder / name for name, figure in drawn.items() if figure is not None]


def save(figure: Figure, path: Path) -> None:
    """Write a picture, and its folder if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def blank(width: float, height: float) -> Figure:
    """Return a figure of a size, in inches, to be drawn into without a screen."""
    figure = Figure(figsize=(width, height), layout='constrained')
    FigureCanvasAgg(figure)
    return figure


def pairs(unknowns: Sequence[Unknown], theta: Array) -> Figure:
    """Draw particles (N, P): each parameter by itself, and against each other."""
    count = theta.shape[1]
    figure = blank(max(2.6 * count, 4.0), max(2.4 * count, 3.6))
    axes = figure.subplots(count, count, squeeze=False)
    names = [f'{u.name} [{u.unit}]' if u.unit else u.name for u in unknowns]
    for row in range(count):
        for column in range(count):
            axis = axes[row, column]
            axis.tick_params(labelsize=7)
            axis.locator_params(nbins=3)
            axis.ticklabel_format(useOffset=False)
            if column > row:
                axis.set_visible(False)
            elif column == row:
                axis.hist(theta[:, row], bins=_BINS, color=_OURS, alpha=0.6)
                axis.set_yticks([])
            else:
                axis.plot(theta[:, column], theta[:, row], 'o', color=_OURS, alpha=0.4, ms=4)
            if row == count - 1:
                axis.set_xlabel(names[column])
            if column == 0 and row:
                axis.set_ylabel(names[row])
    figure.suptitle(f'{len(theta)} particles')
    return figure


def convergence(way: Way) -> Figure:
    """Draw how a search went."""
    figure = blank(5.5, 3.4)
    axis = figure.subplots()
    axis.plot(np.arange(len(way.values)), way.values, color=_OURS)
    if (way.values > 0.0).all():
        axis.set_yscale('log')
    else:
        axis.set_yscale('symlog', linthresh=max(abs(float(way.values[-1])), 1.0))
    axis.set(xlabel='iteration', ylabel=way.what)
    axis.grid(alpha=0.3)
    return figure


def held_out(futures: Sequence[Future]) -> Figure:
    """Draw what is forecast of each recording, and how far that is off."""
    shown = futures[0].what
    figure = blank(max(4.2 * len(futures), 5.5), 3.4 * len(shown) + 0.4)
    shape = {'sharex': 'col', 'height_ratios': [2, 1] * len(shown)}
    axes = figure.subplots(2 * len(shown), len(futures), squeeze=False, **shape)
    for column, future in enumerate(futures):
        for row, (name, unit) in enumerate(shown):
            above, below = axes[2 * row : 2 * row + 2, column]
            seen, forecast = future.seen[:, row], future.forecast[:, :, row]
            middle = np.median(forecast, axis=0)
            _bands(above, future.time, forecast)
            above.plot(future.time, seen, '.', color=_SEEN, ms=3, label='measured')
            _bands(below, future.time, forecast - middle)
            below.plot(future.time, seen - middle, '.', color=_SEEN, ms=3)
            above.set_ylabel(f'{name} [{unit}]')
            below.set_ylabel(f'less median [{unit}]', fontsize=8)
        axes[-1, column].set_xlabel('time held out [s]')
    axes[0, 0].legend(fontsize=7)
    return figure


def error(futures: Sequence[Future]) -> dict[str, float]:
    """Return how far median forecasts are off, rms, for each that is drawn, in its unit."""
    off = [np.median(future.forecast, axis=0) - future.seen for future in futures]
    rms = np.sqrt(np.mean(np.concatenate(off) ** 2, axis=0))
    return {name: float(value) for (name, _), value in zip(futures[0].what, rms, strict=True)}


def _coordinates(model: mujoco.MjModel) -> list[tuple[int, str, str]]:
    """Return where in qpos hinges, slides and places of free bodies are, their names and units."""
    found = []
    for joint, name in enumerate(scene.names(model, 'joint')):
        index, kind = int(model.jnt_qposadr[joint]), mujoco.mjtJoint(model.jnt_type[joint])
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            body = model.body(model.jnt_bodyid[joint]).name
            found += [(index + i, f'{body} {axis}', 'm') for i, axis in enumerate('xyz')]
        elif kind != mujoco.mjtJoint.mjJNT_BALL:
            found.append((index, name, 'm' if kind == mujoco.mjtJoint.mjJNT_SLIDE else 'rad'))
    return found


def _bands(axis: Axes, time: Array, values: Array) -> None:
    """Draw quantiles over time of values (N, T)."""
    for share, alpha in _BANDS.items():
        low, high = np.quantile(values, [share, 1.0 - share], axis=0)
        words = f'{1.0 - 2.0 * share:.0%} of particles'
        axis.fill_between(time, low, high, color=_OURS, alpha=alpha, lw=0, label=words)
    axis.plot(time, np.median(values, axis=0), color=_OURS, lw=1, label='median')
