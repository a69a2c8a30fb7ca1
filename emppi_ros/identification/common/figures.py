"""Figures of an identification: the posterior, convergence, and forecasts of held-out data."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from matplotlib.axes import Axes
from matplotlib.figure import Figure
import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.plant import Plant, UnknownParameter
from emppi_ros.model import scene

_MEASURED, _POSTERIOR = 'tab:red', 'tab:blue'
_BINS = 12
_BANDS = {0.05: 0.25, 0.25: 0.5}  # quantile at either end -> opacity


class Convergence(NamedTuple):
    """The objective of a search at each iteration."""

    label: str
    values: Array


class HeldOutForecast(NamedTuple):
    """The held-out part of a recording, and its forecast by each particle."""

    time: Array  # (T,) s, since the end of the part that was learned from
    quantities: Sequence[tuple[str, str]]  # (Q,) names and units
    measured: Array  # (T, Q)
    forecast: Array  # (N, T, Q)

    @classmethod
    def of_motion(cls, model: mujoco.MjModel, measured: Array, forecast: Array) -> Self:
        """Return the forecast of configurations (T, nq), (N, T, nq), one per time step."""
        shown = coordinates(model)
        index = [i for i, _, _ in shown]
        time = model.opt.timestep * np.arange(1, len(measured) + 1)
        quantities = [(name, unit) for _, name, unit in shown]
        return cls(time, quantities, measured[:, index], forecast[:, :, index])


def write_figures(
    plant: Plant,
    theta: Array,
    convergence: Convergence | None,
    forecasts: Sequence[HeldOutForecast],
    folder: Path,
) -> list[Path]:
    """Write figures of particles (N, P) in place of another method's; return their paths."""
    forecasts = [part for part in forecasts if len(part.measured)]
    figures = {
        'posterior.png': draw_pairs(plant.unknowns, theta),
        'convergence.png': _draw_convergence(convergence) if convergence else None,
        'held_out.png': _draw_forecasts(forecasts) if forecasts else None,
    }
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures.items():
        (folder / name).unlink(missing_ok=True)
        if figure is not None:
            figure.savefig(folder / name, dpi=110)
            written.append(folder / name)
    return written


def draw_pairs(
    unknowns: Sequence[UnknownParameter], theta: Array, truth: Array | None = None
) -> Figure:
    """
    Draw particles (N, P): histograms with medians and 90 % intervals, and pairs of parameters.

    Above the diagonal are their correlations. A true value (P,), if one is known, is red.
    """
    count = theta.shape[1]
    size = max(2.6 * count, 4.0), max(2.4 * count, 3.6)
    figure = Figure(figsize=size, layout='constrained')
    axes = figure.subplots(count, count, squeeze=False)
    names = [f'{u.name} [{u.unit}]' if u.unit else u.name for u in unknowns]
    sd = theta.std(axis=0)
    spread = (theta - theta.mean(axis=0)) / np.where(sd > 0.0, sd, np.inf)
    correlation = spread.T @ spread / len(theta)
    for row in range(count):
        for column in range(count):
            axis = axes[row, column]
            axis.tick_params(labelsize=7)
            axis.locator_params(nbins=3)
            axis.ticklabel_format(useOffset=False)
            if column > row:
                axis.axis('off')
                words = f'{correlation[row, column]:+.2f}'
                axis.text(0.5, 0.5, words, ha='center', va='center', transform=axis.transAxes)
                continue
            if column == row:
                axis.hist(theta[:, row], bins=_BINS, color=_POSTERIOR, alpha=0.6)
                for value, style in zip(
                    np.quantile(theta[:, row], [0.05, 0.5, 0.95]), (':', '-', ':'), strict=True
                ):
                    axis.axvline(value, color=_POSTERIOR, linestyle=style, linewidth=1)
                axis.set_yticks([])
            else:
                axis.plot(theta[:, column], theta[:, row], 'o', color=_POSTERIOR, alpha=0.4, ms=4)
            if truth is not None:
                axis.axvline(truth[column], color=_MEASURED, linewidth=1)
            if truth is not None and column < row:
                axis.axhline(truth[row], color=_MEASURED, linewidth=1)
            if row == count - 1:
                axis.set_xlabel(names[column])
            if column == 0 and row:
                axis.set_ylabel(names[row])
    shown = '' if truth is None else '; red: true values'
    figure.suptitle(f'{len(theta)} particles; median and 90 % interval; correlations{shown}')
    return figure


def _draw_convergence(convergence: Convergence) -> Figure:
    figure = Figure(figsize=(5.5, 3.4), layout='constrained')
    axis = figure.subplots()
    axis.plot(np.arange(len(convergence.values)), convergence.values, color=_POSTERIOR)
    if (convergence.values > 0.0).all():
        axis.set_yscale('log')
    else:
        axis.set_yscale('symlog', linthresh=max(abs(float(convergence.values[-1])), 1.0))
    axis.set(xlabel='iteration', ylabel=convergence.label)
    axis.grid(alpha=0.3)
    return figure


def _draw_forecasts(forecasts: Sequence[HeldOutForecast]) -> Figure:
    """Draw the forecast of each recording, and its error, below each other."""
    shown = forecasts[0].quantities
    size = max(4.2 * len(forecasts), 5.5), 3.4 * len(shown) + 0.4
    figure = Figure(figsize=size, layout='constrained')
    ratios = [2, 1] * len(shown)
    axes = figure.subplots(
        2 * len(shown), len(forecasts), squeeze=False, sharex='col', height_ratios=ratios
    )
    for column, part in enumerate(forecasts):
        for row, (name, unit) in enumerate(shown):
            above, below = axes[2 * row : 2 * row + 2, column]
            measured, forecast = part.measured[:, row], part.forecast[:, :, row]
            middle = np.median(forecast, axis=0)
            _bands(above, part.time, forecast)
            above.plot(part.time, measured, '.', color=_MEASURED, ms=3, label='measured')
            _bands(below, part.time, forecast - middle)
            below.plot(part.time, measured - middle, '.', color=_MEASURED, ms=3)
            above.set_ylabel(f'{name} [{unit}]')
            below.set_ylabel(f'minus median [{unit}]', fontsize=8)
        axes[-1, column].set_xlabel('held-out time [s]')
    axes[0, 0].legend(fontsize=7)
    return figure


def forecast_error(forecasts: Sequence[HeldOutForecast]) -> dict[str, float]:
    """Return the RMS error of the median forecast of each quantity, in its unit."""
    off = [np.median(part.forecast, axis=0) - part.measured for part in forecasts]
    rms = np.sqrt(np.mean(np.concatenate(off) ** 2, axis=0))
    return {
        name: float(value) for (name, _), value in zip(forecasts[0].quantities, rms, strict=True)
    }


def coordinates(model: mujoco.MjModel) -> list[tuple[int, str, str]]:
    """Return index in qpos, name and unit of hinges, slides and positions of free bodies."""
    shown = []
    for joint, name in enumerate(scene.names(model, 'joint')):
        index, kind = int(model.jnt_qposadr[joint]), mujoco.mjtJoint(model.jnt_type[joint])
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            body = model.body(model.jnt_bodyid[joint]).name
            shown += [(index + i, f'{body} {axis}', 'm') for i, axis in enumerate('xyz')]
        elif kind != mujoco.mjtJoint.mjJNT_BALL:
            shown.append((index, name, 'm' if kind == mujoco.mjtJoint.mjJNT_SLIDE else 'rad'))
    return shown


def _bands(axis: Axes, time: Array, values: Array) -> None:
    """Draw quantiles over time of values (N, T)."""
    for share, alpha in _BANDS.items():
        low, high = np.quantile(values, [share, 1.0 - share], axis=0)
        words = f'{1.0 - 2.0 * share:.0%} of particles'
        axis.fill_between(time, low, high, color=_POSTERIOR, alpha=alpha, lw=0, label=words)
    axis.plot(time, np.median(values, axis=0), color=_POSTERIOR, lw=1, label='median')
