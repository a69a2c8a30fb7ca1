"""What every method leaves: particles as a prior's file, and how well parameters are known."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.prior_file import DataSource, ParameterPrior, PriorFile, max_particles
from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.identify.states.plant import Plant, Unknown

Array = npt.NDArray[np.float64]
_SMALL = 0.1  # of a direction: not worth a word
_OPEN = 0.5  # of the variance before
FEWEST = 5  # that tell a spread
COUNT = 500
_DRAWS = 100  # times as many are drawn, at most, until enough are within bounds
_WITHIN = 1e-6  # of the range: a prior's file has no particle on a bound


def excited(knowledge: Sequence[str]) -> list[int]:
    """Return which parameters go into a prior; IdentificationError if none does."""
    kept = [index for index, word in enumerate(knowledge) if word != 'unexcited']
    if not kept:
        raise IdentificationError(
            'unexciting: no parameter shows in this motion: record one with larger accelerations '
            'and, for friction, speeds of both signs'
        )
    return kept


def check_count(count: int, systems: int, plant: Plant, in_file: bool) -> None:
    """Raise ConfigError if so many particles are too few, or too many for a prior's file."""
    fewest = FEWEST * systems
    if count < fewest:
        raise ConfigError(
            f'--particles: found {count}, expected {fewest} or more: fewer do not determine the '
            f'spread{" of each system" if systems > 1 else ""}'
        )
    parameters = len(plant.unknowns)
    most = max_particles(parameters)
    if in_file and count > most:
        raise ConfigError(
            f'--particles: found {count}, expected at most {most}, which is what a prior file of '
            f'{parameters} parameters can hold: use fewer, or leave out --out'
        )


def blind(directions: Array, names: Sequence[str]) -> list[str]:
    """Return directions (d, P) in words."""
    return [
        ' '.join(f'{x:+.2f} {n}' for x, n in zip(row, names, strict=True) if abs(x) > _SMALL)
        for row in directions
    ]


def open_directions(covariance: Array) -> Array:
    """Return unit vectors (d, P) along which a covariance (P, P) is that of a prior of 1."""
    sizes, vectors = np.linalg.eigh(covariance)
    return vectors.T[sizes > _OPEN]


def to_prior(
    method: str,
    unknowns: Sequence[Unknown],
    theta: Array,
    sources: tuple[DataSource, ...],
    settings: Mapping[str, Any],
    diagnostics: Mapping[str, Any],
) -> PriorFile:
    """Return a prior of particles theta (n, P) of these unknowns, all of one weight."""
    columns = {}
    for unknown, column in zip(unknowns, theta.T, strict=True):
        low, high = unknown.lower, unknown.upper
        if np.isfinite(low) and np.isfinite(high):
            margin = _WITHIN * (high - low)
            column = np.clip(column, low + margin, high - margin)  # noqa: PLW2901
        columns[unknown.name] = ParameterPrior(unknown.unit, tuple(column.tolist()))
    return PriorFile(
        method=method,
        sources=sources,
        parameters=columns,
        weights=(1.0,) * len(theta),
        settings=settings,
        diagnostics=diagnostics,
    )


def draw(
    mean: Array, covariance: Array, scales: Array, bounds: tuple[Array, Array],
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    """Return particles (COUNT, P) of a normal distribution within bounds (P,), (P,)."""
    # units differ by many orders
    root = np.linalg.cholesky(covariance / np.outer(scales, scales) + 1e-24 * np.eye(len(mean)))
    inside = np.empty((0, len(mean)))
    for _ in range(_DRAWS):
        normal = rng.standard_normal((COUNT, len(mean)))
        draws = mean + (normal @ root.T) * scales
        fits = np.all((draws > bounds[0]) & (draws < bounds[1]), axis=1)
        inside = np.concatenate([inside, draws[fits]])
        if len(inside) >= COUNT:
            break
    return enough(inside)


def enough(inside: Array) -> Array:
    """Return COUNT of the draws within bounds; IdentificationError if there are fewer."""
    if len(inside) < COUNT:
        raise IdentificationError(
            'next to nothing of what the data allow is within the bounds of the parameters: '
            'check units of the recording, and bounds'
        )
    return inside[:COUNT]
