"""Samples of the posterior, and how well they determine each parameter."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.identify.common.plant import Plant, UnknownParameter
from emppi_ros.priors.prior_file import max_particles

MIN_PARTICLES = 5  # that determine a spread
PRIOR_SAMPLES = 500  # in a prior of a linearised posterior
_UNEXCITED = 0.7  # of the standard deviation before: the data hardly reduced it
_VAGUE = 0.1
_SMALL = 0.1  # components of a direction that are not shown
_UNOBSERVABLE = 0.5  # of the variance before
_MAX_DRAWS = 100  # per sample, until enough are within bounds


def knowledge_level(share: float) -> str:
    """Return 'found', 'vague' or 'unexcited' for a standard deviation relative to the prior's."""
    if share > _UNEXCITED:
        return 'unexcited'
    return 'vague' if share > _VAGUE else 'found'


def parameter_rows(
    unknowns: Sequence[UnknownParameter],
    value: Sequence[float] | Array,
    sd: Sequence[float] | Array,
    knowledge: Sequence[str],
    **more: Sequence[Any],
) -> dict[str, dict[str, Any]]:
    """Return value, sd, unit and knowledge of each of P parameters, and more columns, by name."""
    rows: dict[str, dict[str, Any]] = {}
    for i, unknown in enumerate(unknowns):
        rows[unknown.name] = {
            'value': float(value[i]),
            'sd': float(sd[i]),
            'unit': unknown.unit,
            'knowledge': knowledge[i],
            **{name: column[i] for name, column in more.items()},
        }
    return rows


def excited(words: Sequence[str]) -> list[int]:
    """Return the indices of excited parameters; IdentificationError if there are none."""
    kept = [index for index, word in enumerate(words) if word != 'unexcited']
    if not kept:
        raise IdentificationError(
            'unexciting: no parameter shows in this motion: record one with larger accelerations '
            'and, for friction, speeds of both signs'
        )
    return kept


def check_particles(count: int, systems: int, plant: Plant, to_file: bool) -> None:
    """Raise ConfigError if so many particles are too few, or too many for a prior file."""
    fewest = MIN_PARTICLES * systems
    if count < fewest:
        raise ConfigError(
            f'--particles: found {count}, expected {fewest} or more: fewer do not determine the '
            f'spread{" of each system" if systems > 1 else ""}'
        )
    parameters = len(plant.unknowns)
    most = max_particles(parameters)
    if to_file and count > most:
        raise ConfigError(
            f'--particles: found {count}, expected at most {most}, which is what a prior file of '
            f'{parameters} parameters can hold: use fewer, or leave out --out'
        )


def describe_directions(directions: Array, names: Sequence[str]) -> list[str]:
    """Return directions (d, P) as text, such as '+0.71 mass -0.71 friction'."""
    return [
        ' '.join(f'{x:+.2f} {n}' for x, n in zip(row, names, strict=True) if abs(x) > _SMALL)
        for row in directions
    ]


def unobservable_directions(covariance: Array) -> Array:
    """Return unit vectors (d, P) along which a covariance (P, P) is still that of a unit prior."""
    sizes, vectors = np.linalg.eigh(covariance)
    return vectors.T[sizes > _UNOBSERVABLE]


def draw_within_bounds(
    mean: Array, covariance: Array, scales: Array, bounds: tuple[Array, Array],
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    """
    Return PRIOR_SAMPLES samples (n, P) of a normal distribution within bounds (P,), (P,).

    Raises IdentificationError if next to nothing of it is within bounds.
    """
    # units differ by many orders
    root = np.linalg.cholesky(covariance / np.outer(scales, scales) + 1e-24 * np.eye(len(mean)))
    inside = np.empty((0, len(mean)))
    for _ in range(_MAX_DRAWS):
        normal = rng.standard_normal((PRIOR_SAMPLES, len(mean)))
        draws = mean + (normal @ root.T) * scales
        fits = np.all((draws > bounds[0]) & (draws < bounds[1]), axis=1)
        inside = np.concatenate([inside, draws[fits]])
        if len(inside) >= PRIOR_SAMPLES:
            break
    return first_samples(inside)


def first_samples(inside: Array) -> Array:
    """Return the first PRIOR_SAMPLES rows; IdentificationError if there are fewer."""
    if len(inside) < PRIOR_SAMPLES:
        raise IdentificationError(
            'hardly any sample of the posterior is within the bounds of the parameters: check '
            'units of the recording, and bounds'
        )
    return inside[:PRIOR_SAMPLES]
