"""Series of commands, for tests of planner and belief."""

import numpy as np

from emppi_ros.state.time_series import TimeSeries


def held(row):
    """Return commands that are `row` (n,) at all times."""
    return sampled([0.0], [row])


def sampled(stamps, rows):
    """Return commands with `rows` (n, k) from their stamps (n,) [s] on."""
    series = TimeSeries('commands', span_s=np.inf, reach_s=np.inf)
    for stamp, row in zip(stamps, rows, strict=True):
        series.append(stamp, np.array(row, dtype=float))
    return series
