"""Pictures of a posterior from recordings: its pairs, how it was reached, what it forecasts."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.states.plant import Plant
from emppi_ros.identify.stein import pictures
from emppi_ros.identify.stein.findings import Findings, forecast
from emppi_ros.identify.stein.recorded import Learned
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_SEEN, _OURS = 'tab:red', 'tab:blue'
_BINS = 12
_BANDS = {0.05: 0.25, 0.25: 0.5}  # share at either end -> opacity


def write_all(
    plant: Plant, learned: Learned, found: Findings, medians: Array, folder: Path
) -> list[Path]:
    """Write all pictures into a folder, and return them."""
    futures = forecast(learned, found)
    drawn = {
        'posterior.png': pairs(plant, found.theta),
        'convergence.png': convergence(medians),
    }
    if all(future.shape[1] for future in futures):
        drawn['held_out.png'] = held_out(plant, learned, futures)
    for name, figure in drawn.items():
        pictures.save(figure, folder / name)
    return [folder / name for name in drawn]


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), layout='constrained')
    FigureCanvasAgg(figure)
    return figure


def pairs(plant: Plant, theta: Array) -> Figure:
    """Draw particles (N, P): each parameter by itself, and against each other."""
    count = theta.shape[1]
    figure = _figure(max(2.6 * count, 4.0), max(2.4 * count, 3.6))
    axes = figure.subplots(count, count, squeeze=False)
    names = [f'{u.name} [{u.unit}]' if u.unit else u.name for u in plant.unknowns]
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


def convergence(medians: Array) -> Figure:
    """Draw the median log likelihood at each iteration."""
    figure = _figure(5.5, 3.4)
    axis = figure.subplots()
    axis.plot(np.arange(len(medians)), medians, color=_OURS)
    axis.set_yscale('symlog', linthresh=max(abs(float(medians[-1])), 1.0))
    axis.set(xlabel='iteration', ylabel='median log likelihood')
    axis.grid(alpha=0.3)
    return figure


def held_out(plant: Plant, learned: Learned, futures: Sequence[Array]) -> Figure:
    """Draw what particles forecast (N, T, S) of each recording, and how far that is off."""
    joints = scene.names(plant.model, 'joint')
    slides = plant.model.jnt_type == mujoco.mjtJoint.mjJNT_SLIDE.value
    figure = _figure(max(4.2 * len(futures), 5.5), 3.4 * len(joints) + 0.4)
    shape = {'sharex': 'col', 'height_ratios': [2, 1] * len(joints)}
    axes = figure.subplots(2 * len(joints), len(futures), squeeze=False, **shape)
    for column, (future, (seen, _)) in enumerate(zip(futures, learned.later, strict=True)):
        time = plant.model.opt.timestep * np.arange(1, len(seen) + 1)
        for row, joint in enumerate(joints):
            above, below = axes[2 * row : 2 * row + 2, column]
            one, unit = seen[:, row], 'm' if slides[row] else 'rad'
            _bands(above, time, future[:, :, row])
            above.plot(time, one, '.', color=_SEEN, ms=3, label='measured')
            _bands(below, time, future[:, :, row] - np.median(future[:, :, row], axis=0))
            off = one - np.median(future[:, :, row], axis=0)
            below.plot(time, off, '.', color=_SEEN, ms=3)
            above.set_ylabel(f'{joint} [{unit}]')
            below.set_ylabel(f'less median [{unit}]', fontsize=8)
        axes[-1, column].set_xlabel('time held out [s]')
    axes[0, 0].legend(fontsize=7)
    return figure


def _bands(axis: Axes, time: Array, values: Array) -> None:
    """Draw quantiles over time of values (N, T)."""
    for share, alpha in _BANDS.items():
        low, high = np.quantile(values, [share, 1.0 - share], axis=0)
        words = f'{1.0 - 2.0 * share:.0%} of particles'
        axis.fill_between(time, low, high, color=_OURS, alpha=alpha, lw=0, label=words)
    axis.plot(time, np.median(values, axis=0), color=_OURS, lw=1, label='median')
