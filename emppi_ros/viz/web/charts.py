"""Numbers over the last half minute: charts that the browser itself draws (uPlot, with viser)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from emppi_ros.viz.web.history import SPAN_S

Array = npt.NDArray[np.float64]
COLORS = '#2a6fb0', '#d9822b', '#2e8b57', '#8e4d9e', '#c0392b', '#6b7280', '#b8860b', '#008b8b'
_FRAME = {'grid': {'stroke': '#e5e7eb', 'width': 1}, 'stroke': '#374151'}
_DATED, _UNDATED = {'size': 26}, {'size': 6, 'values': []}
_WIDTH, _HEIGHT = 2, 88  # px
_PADDING = 2, 16, 0, 0  # px


class Chart:
    """A few series over the same times."""

    def __init__(
        self,
        gui: Any,
        title: str,
        names: tuple[str, ...],
        top: float | None = None,
        dated: bool = False,
    ) -> None:
        """Lay the chart out, from 0 to `top` or as values reach; `dated`: with times below."""
        self.names = names
        series = [{'label': 's'}]
        for i, name in enumerate(names):
            series.append({'label': name, 'stroke': COLORS[i % len(COLORS)], 'width': _WIDTH})
        upright: dict[str, Any] = {'auto': True} if top is None else {'range': (0.0, top)}
        nothing = np.zeros(1)
        self._chart = gui.add_uplot(
            (nothing, *(nothing for _ in names)),
            tuple(series),
            title=title,
            scales={'x': {'time': False, 'range': (-SPAN_S, 0.0)}, 'y': upright},
            axes=(_FRAME | (_DATED if dated else _UNDATED), _FRAME | {'size': 50}),
            legend={'show': len(names) > 1, 'live': False},
            cursor={'show': True},
            height=_HEIGHT,
            padding=_PADDING,
        )

    def show(self, times: Array, values: Mapping[str, Array]) -> None:
        """Show series (n,) at times (n,) [s]; NaN is a gap."""
        self._chart.data = (times, *(values[name] for name in self.names))
