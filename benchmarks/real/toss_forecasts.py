"""How well tosses of a cube are forecast from their first recorded states."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student_t
from scipy.stats import theilslopes

from benchmarks import means
from benchmarks.real import tosses as toss
from benchmarks.real.datasets import Score, score_share
from benchmarks.real.tosses import HALF_WIDTH_M, RATE_HZ, Tosses
from emppi_ros.calibration import statistics
from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.plant import Plant

_PER_WIDTH = 100.0 / (2.0 * HALF_WIDTH_M)  # % of the width
_DRAWS = 20  # of the errors, for each sample
_MEDIAN = float(student_t.ppf(0.75, toss.FREEDOM))  # of absolute values
_SAME_FACE = np.cos(0.25 * np.pi)
_BEFORE, _AFTER = 2, 3  # rows around the first contact, which lasts one or two of them


def scores(
    plant: Plant, samples: Array, learned: Tosses, held: Tosses, seed: int = 0, threads: int = 0
) -> dict[str, Score]:
    """
    Return the quality of forecasts of held-out tosses by samples of the parameters (N, P).

    Errors are those of one simulation with the mean parameters. Bands are those of the samples and
    of errors as large as those of the tosses that were learned from.
    """
    middle, length = samples.mean(axis=0)[None], held.poses.shape[1]
    point = toss.simulate(plant, middle, held.starts, length, threads)[0]
    known = toss.simulate(plant, middle, learned.starts, learned.poses.shape[1], threads)[0]
    scale = np.median(np.abs((known - learned.poses)[:, -1, :2])) / _MEDIAN
    rest = toss.simulate(plant, samples, held.starts, length, threads)[:, :, -1, :2]
    draws = np.random.default_rng(seed).standard_t(toss.FREEDOM, (_DRAWS, *rest.shape))
    places = (rest + scale * draws).reshape(-1, *rest.shape[1:])
    low, high = np.quantile(places, [0.05, 0.95], axis=0)
    result = dict(_errors(point, held))
    inside = (low <= held.last[:, :2]) & (held.last[:, :2] <= high)
    result['rests inside the 90 % bands'] = score_share(inside.ravel())
    rebounds = {'recorded': rebound(held, held.poses), 'forecast': rebound(held, point)}
    speed = rebound_speed(held)
    for name, ratios in rebounds.items():
        typical = statistics.median(ratios.tolist())
        result[f'rebound, {name}'] = Score(typical.median, '', typical.low, typical.high)
        slope = theilslopes(ratios, speed)
        result[f'its change with speed, {name}'] = Score(
            float(slope.slope), 's/m', float(slope.low_slope), float(slope.high_slope)
        )
    return result


def _errors(point: Array, held: Tosses) -> Mapping[str, Score]:
    """Return the errors of poses (T, L, 7), averaged over a toss, and at rest."""
    moved, turned = toss.errors(point, held.poses)
    weights = held.seen / held.rows[:, None]
    sizes = {
        'position error': (np.linalg.norm(moved, axis=-1) * _PER_WIDTH, '% of the width'),
        'rotation error': (np.degrees(np.linalg.norm(turned, axis=-1)), 'deg'),
    }
    result = {}
    for name, (size, unit) in sizes.items():
        result[name] = _mean((size * weights).sum(axis=1), unit)
        result[f'{name} at rest'] = _mean(size[:, -1], unit)
    for name, poses in (('penetration', point), ('penetration, recorded', held.poses)):
        depth = np.maximum(-toss.lowest_corner(poses), 0.0) * _PER_WIDTH
        result[name] = _mean((depth * weights).sum(axis=1), '% of the width')
    cosine = np.sum(_down(point[:, -1]) * _down(held.last), axis=1)
    result['lands on the right face'] = score_share(cosine > _SAME_FACE)
    return result


def _down(poses: Array) -> Array:
    """Return the direction of gravity in the frame of the cube, (..., 3)."""
    w, x, y, z = np.moveaxis(poses[..., 3:], -1, 0)
    return -np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x**2 + y**2)], axis=-1)


def rebound_speed(tosses: Tosses) -> Array:
    """Return the downward speed (T,) of the corner that touches first, shortly before [m/s]."""
    return -_corner_speeds(tosses.poses, toss.first_contact(tosses))[0]


def rebound(tosses: Tosses, poses: Array) -> Array:
    """
    Return the upward speed (T,) of the corner that touches first, over the downward one before.

    The speeds are those of `poses` (T, L, 7) at the same rows, before and after the contact; other
    corners may touch in between.
    """
    before, after = _corner_speeds(poses, toss.first_contact(tosses))
    return -after / before


def _corner_speeds(poses: Array, contact: npt.NDArray[np.intp]) -> tuple[Array, Array]:
    """Return the vertical speeds (T,) of the lowest corner before and after a contact."""
    heights = toss.corner_heights(poses)  # (T, L, 8)
    row = np.arange(len(poses))
    corner = np.argmin(heights[row, contact], axis=1)
    speeds = np.diff(heights[row, :, corner], axis=1) * RATE_HZ  # (T, L - 1)
    return speeds[row, contact - _BEFORE], speeds[row, contact + _AFTER]


def _mean(values: Array, unit: str) -> Score:
    mean = means.mean(values.tolist())
    return Score(mean.mean, unit, mean.low, mean.high)
