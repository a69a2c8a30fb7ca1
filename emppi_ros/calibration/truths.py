"""True parameters of the runs: drawn from the prior, and from beyond it."""

from collections.abc import Sequence
import math
from typing import NamedTuple

import numpy as np

from emppi_ros.calibration.belief_scores import scored_parameters
from emppi_ros.core.errors import BenchError
from emppi_ros.tasks.task import Task

CENTRAL = 0.9  # probability of the prior's interval, beyond which truths are drawn
BEYOND_EVERY = 4  # one run out of this many
_STREAM = 11  # of random numbers, beside the seed


class DrawnTruth(NamedTuple):
    """True values of a run, by the name of the parameter."""

    values: dict[str, float]
    beyond: str = ''  # the parameter whose value lies outside of the prior's central interval


def draw(task: Task, runs: int, seed: int) -> list[DrawnTruth]:
    """
    Return the true parameters of some runs; BenchError if the task has none that can be judged.

    All are drawn from the task's prior. In one run out of BEYOND_EVERY one parameter, in turn, is
    replaced by a value below or above the prior's central interval, uniformly up to its bound.
    """
    judged, names = scored_parameters(task), [parameter.name for parameter in task.parameters]
    if not judged:
        raise BenchError(
            f'{task.where}: no uncertain parameter whose interval can be judged: found '
            f'{", ".join(names) or "none"} (axes and pivots of uncertain joints have no intervals)'
        )
    rng = np.random.default_rng([seed, _STREAM])
    # a prior from particles is drawn in their order
    theta = rng.permutation(task.prior.sample(runs, rng))
    columns = [(i, sides) for i in judged if (sides := _sides(task, i))]
    truths = []
    for run, values in enumerate(theta):
        beyond = ''
        if columns and run % BEYOND_EVERY == BEYOND_EVERY - 1:
            column, sides = columns[run // BEYOND_EVERY % len(columns)]
            low, high = sides[int(rng.integers(len(sides)))]
            values[column], beyond = rng.uniform(low, high), names[column]
        truths.append(DrawnTruth(dict(zip(names, values.tolist(), strict=True)), beyond))
    return truths


def central_interval(task: Task, column: int) -> tuple[float, float]:
    """Return the ends of the prior's interval of probability CENTRAL."""
    tail = 0.5 * (1.0 - CENTRAL)
    low, high = np.quantile(task.prior.draws[:, column], [tail, 1.0 - tail]).tolist()
    return low, high


def _sides(task: Task, column: int) -> Sequence[tuple[float, float]]:
    """Return the intervals beyond the prior in which a parameter may lie: up to two."""
    parameter = task.parameters[column]
    if parameter.choices:
        return []
    low, high = central_interval(task, column)
    width = high - low
    lower = parameter.lower if math.isfinite(parameter.lower) else low - width
    upper = parameter.upper if math.isfinite(parameter.upper) else high + width
    least = 1e-6 * width  # a side of rounding errors is none
    return [(a, b) for a, b in ((lower, low), (high, upper)) if b - a > least]
