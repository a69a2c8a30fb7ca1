"""Figures of the posteriors of the CSVGD study."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
import numpy as np
import numpy.typing as npt

from benchmarks.identify.csvgd_systems import rollout
from emppi_ros.identify.csvgd.problem import ShootingProblem

Array = npt.NDArray[np.float64]
_TRUTH, _FIRST, _SECOND = 'tab:red', 'tab:blue', 'tab:green'


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(columns * size[0], rows * size[1]), layout='constrained')
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    return figure, list(axes.ravel())


def lengths(
    problem: ShootingProblem, truths: Array, thetas: Mapping[str, Array], columns: int = 2
) -> Figure:
    """Plot the two link lengths against each other, for each likelihood or method."""
    figure, axes = _panels(-(-len(thetas) // columns), columns, (4.2, 3.8))
    lower, upper = problem.limits
    for axis, (name, theta) in zip(axes, thetas.items(), strict=False):
        axis.plot(*theta.T, 'o', color=_FIRST, alpha=0.4, markersize=5, label='particles')
        axis.plot(*truths.T, '*', color=_TRUTH, mfc='none', markersize=17, label='truths')
        axis.set(title=name)
        axis.set(xlim=(0.9 * lower[0], 1.02 * upper[0]), ylim=(0.9 * lower[1], 1.02 * upper[1]))
    _hide_unused(axes, len(thetas))
    figure.supxlabel('length of link 1 [m]')
    figure.supylabel('length of link 2 [m]')
    axes[0].legend(loc='center right')
    return figure


def forecasts(
    step_s: float, measured: Array, predictions: Mapping[str, Array], columns: int
) -> Figure:
    """Plot angles (N, T) that each method predicts, and those measured (T,)."""
    figure, axes = _panels(-(-len(predictions) // columns), columns, (3.6, 2.2))
    times = step_s * np.arange(1, len(measured) + 1)
    for axis, (name, angles) in zip(axes, predictions.items(), strict=False):
        axis.plot(times, angles.T, color=_FIRST, alpha=0.15, linewidth=1)
        axis.plot(times, measured, '--', color=_TRUTH, linewidth=1.5)
        axis.set(title=name, ylim=(measured.min() - 5.0, measured.max() + 5.0))
    _hide_unused(axes, len(predictions))
    figure.supxlabel('time [s]')
    figure.supylabel('angle of joint 2 [rad]')
    return figure


def _hide_unused(axes: Sequence[Axes], used: int) -> None:
    for axis in axes[used:]:
        axis.set_visible(False)


def pendulum(problem: ShootingProblem, truth: Array, thetas: Mapping[str, Array]) -> Figure:
    """Plot the second joint's angle predicted by each method, from another start."""
    figure, axes = _panels(2, (len(thetas) + 1) // 2, (3.6, 2.6))
    start = problem.start.copy()
    start[:2] += 0.1, -0.1
    times = problem.model.opt.timestep * np.arange(1, len(problem.controls) + 1)

    def angles(theta: Array) -> Array:
        states = rollout(problem.model, problem.parameters, theta, start, problem.controls)
        return states[:, :, 1]

    real = angles(truth[None])[0]
    for axis, (name, theta) in zip(axes, thetas.items(), strict=False):
        axis.plot(times, angles(theta).T, color=_FIRST, alpha=0.15, linewidth=1)
        axis.plot(times, real, '--', color=_TRUTH, linewidth=1.5)
        axis.set(title=name, ylim=(real.min() - 5.0, real.max() + 5.0))
    figure.supxlabel('time [s]')
    figure.supylabel('angle of joint 2 [rad]')
    return figure


def weights(problem: ShootingProblem, truths: Array, thetas: Mapping[str, Array]) -> Figure:
    """Plot the positions of the two weights in their box, from above."""
    figure, axes = _panels(1, len(thetas), (4.8, 3.2))
    _, upper = problem.limits
    for axis, (name, theta) in zip(axes, thetas.items(), strict=True):
        for weight, (colour, mark) in enumerate(((_FIRST, '+'), (_SECOND, 'x'))):
            x, y = theta[:, 2 * weight], theta[:, 2 * weight + 1]
            axis.plot(x, y, mark, color=colour, ms=9, label=f'weight {weight + 1}')
        axis.plot(
            truths[0, ::2], truths[0, 1::2], '*', color=_TRUTH, mfc='none', ms=17, label='truth'
        )
        axis.set(
            title=name, xlabel='x [m]', xlim=(-upper[0], upper[0]), ylim=(-upper[1], upper[1])
        )
        axis.set_aspect('equal')
    axes[0].set_ylabel('y [m]')
    axes[0].legend(loc='center')
    return figure
