"""The picture of `emppi bench csvgd`: where samplers place two weights (the paper's Fig. 10)."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
import numpy as np

from benchmarks.csvgd.box import WEIGHTS
from benchmarks.csvgd.cells import CsvgdRow
from emppi_ros.core.arrays import Array

_COLUMNS = 4


def save_weights(rows: Sequence[CsvgdRow], truth: Array, path: Path) -> None:
    """Plot the places [m] of both weights in all particles, and the true ones (4,), from above."""
    lines = -(-len(rows) // _COLUMNS)
    figure = Figure(figsize=(3.2 * _COLUMNS, 2.4 * lines), layout='constrained')
    axes = figure.subplots(lines, _COLUMNS, squeeze=False, sharex=True, sharey=True).ravel()
    width, height = WEIGHTS[0].upper, WEIGHTS[1].upper
    for axis, row in zip(axes, rows, strict=False):
        theta = np.array(row.theta)
        for first, mark, colour in ((0, '+', 'tab:blue'), (2, 'x', 'tab:green')):
            x, y = theta[:, first], theta[:, first + 1]
            axis.plot(x, y, mark, color=colour, label=f'weight {first // 2 + 1}', alpha=0.7)
        axis.plot(truth[::2], truth[1::2], '*', color='tab:red', mfc='none', ms=16, label='truth')
        axis.set(title=f'{row.method}, windows: {row.windows}', aspect='equal')
        axis.set(xlim=(-1.1 * width, 1.1 * width), ylim=(-1.1 * height, 1.1 * height))
    for axis in axes[len(rows) :]:
        axis.set_visible(False)
    figure.supxlabel('x [m]')
    figure.supylabel('y [m]')
    axes[0].legend(fontsize='small')
    figure.savefig(path, dpi=100)
