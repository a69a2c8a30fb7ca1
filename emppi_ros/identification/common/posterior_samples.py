"""Samples of the posterior, and how well they determine each parameter."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, IdentificationError
from emppi_ros.identification.common.plant import Plant, UnknownParameter
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors.prior_file import max_particles

MIN_PARTICLES = 5  # that determine a spread
PRIOR_SAMPLES = 500  # in a prior of a linearised posterior
_UNEXCITED = 0.7  # of the standard deviation before: the data hardly reduced it
_VAGUE = 0.1
_SMALL = 0.1  # components of a direction that are not shown
_UNOBSERVABLE = 0.5  # of the variance before
_MAX_DRAWS = 100  # per sample, until enough are within bounds


def knowledge_levels(shares: Array) -> tuple[str, ...]:
    """Return 'found', 'vague' or 'unexcited' for ratios (P,) of posterior to prior sd."""
    return tuple(
        'unexcited' if share > _UNEXCITED else 'vague' if share > _VAGUE else 'found'
        for share in shares.tolist()
    )


def summarize(
    unknowns: Sequence[UnknownParameter | Parameter],
    value: Array,
    sd: Array,
    knowledge: Sequence[str],
    directions: Array | None = None,
    **more: Sequence[Any],
) -> dict[str, Any]:
    """
    Return the summary of P parameters: value, sd, unit, knowledge and `more` columns of each.

    `directions` (d, P), if given, are those that the data do not determine; as text they are such
    as '+0.71 mass -0.71 friction'.
    """
    rows: dict[str, dict[str, Any]] = {}
    for i, unknown in enumerate(unknowns):
        rows[unknown.name] = {
            'value': float(value[i]),
            'sd': float(sd[i]),
            'unit': unknown.unit,
            'knowledge': knowledge[i],
            **{name: column[i] for name, column in more.items()},
        }
    if directions is None:
        return {'parameters': rows}
    described = [
        ' '.join(f'{x:+.2f} {n}' for x, n in zip(row, rows, strict=True) if abs(x) > _SMALL)
        for row in directions
    ]
    return {'parameters': rows, 'unexcited_directions': described}


def summarize_samples(
    unknowns: Sequence[UnknownParameter | Parameter],
    theta: Array,
    knowledge: Sequence[str],
    **more: Sequence[Any],
) -> dict[str, Any]:
    """Return the summary of samples theta (N, P), with their 5 % and 95 % quantiles."""
    low, high = np.quantile(theta, [0.05, 0.95], axis=0).tolist()
    mean, sd = moments(theta)
    return summarize(unknowns, mean, sd, knowledge, None, lowest=low, highest=high, **more)


def moments(theta: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation (P,) of samples (N, P)."""
    return np.array([x.mean() for x in theta.T]), np.array([x.std() for x in theta.T])


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
    fewest, parameters = MIN_PARTICLES * systems, len(plant.unknowns)
    most = max_particles(parameters)
    if count < fewest:
        raise ConfigError(
            f'--particles: found {count}, expected {fewest} or more: fewer do not determine the '
            f'spread{" of each system" if systems > 1 else ""}'
        )
    if to_file and count > most:
        raise ConfigError(
            f'--particles: found {count}, expected at most {most}, which is what a prior file of '
            f'{parameters} parameters can hold: use fewer, or leave out --out'
        )


def unobservable_directions(covariance: Array) -> Array:
    """Return unit vectors (d, P) along which a covariance (P, P) is still that of a unit prior."""
    sizes, vectors = np.linalg.eigh(covariance)
    return vectors.T[sizes > _UNOBSERVABLE]


def draw_linearised(
    plant: Plant, theta: Array, covariance: Array, kept: list[int], seed: int
) -> Array:
    """Return samples (n, P) about theta (P,), equal but for `kept`; the covariance is (P, P)."""
    samples = np.tile(theta, (PRIOR_SAMPLES, 1))
    bounds = plant.bounds[0][kept], plant.bounds[1][kept]
    samples[:, kept] = draw_within_bounds(
        theta[kept], covariance[np.ix_(kept, kept)], plant.scales[kept], bounds,
        np.random.default_rng(seed),
    )  # fmt: skip
    return samples


def draw_within_bounds(
    mean: Array, covariance: Array, scales: Array, bounds: tuple[Array, Array],
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    """Return samples (n, P) of a normal distribution; IdentificationError if few are in bounds."""
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
