"""
Motions that show an arm's parameters: Fourier series within limits (Swevers et al. 1997).

Of a motion the Gauss-Newton information of the parameters is X'X over the variance of torques.
Chosen is the one of largest log det, with a prior that makes it finite where no motion shows a
parameter, and that says which differences matter (Bayesian D-optimality).
"""

from collections.abc import Callable
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body.regressor import regressor

Array = npt.NDArray[np.float64]
HARMONICS = 5
_GRID = 100  # samples of a period, on which peaks are sought
# by how much a series may pass its largest sample (Ehlich and Zeller 1964)
_BETWEEN = np.cos(np.pi * HARMONICS / _GRID)
_SAMPLES = 40  # of a period, in its information
_DRAWS = 30  # to begin with
_FIRST_STEP, _GROW, _SHRINK = 0.3, 1.5, 0.93  # as the 1/5 rule: even where one in six succeeds


class Limits(NamedTuple):
    """What a motion must not pass; (nv,) each, in rad (m), rad/s and rad/s^2."""

    lower: Array
    upper: Array
    velocity: Array
    acceleration: Array


class Fourier(NamedTuple):
    """A periodic motion of all joints."""

    centre: Array  # (nv,)
    sine: Array  # (HARMONICS, nv)
    cosine: Array
    period: float  # s


def along(motion: Fourier, time: Array) -> Array:
    """Return positions, velocities and accelerations (3, n, nv) at times (n,)."""
    rates = 2.0 * np.pi / motion.period * np.arange(1, HARMONICS + 1)
    sine, cosine = np.sin(np.outer(time, rates)), np.cos(np.outer(time, rates))
    a, b = motion.sine, motion.cosine
    first, second = rates[:, None], rates[:, None] ** 2
    return np.stack(
        [
            motion.centre + sine @ a + cosine @ b,
            cosine @ (first * a) - sine @ (first * b),
            -sine @ (second * a) - cosine @ (second * b),
        ]
    )


def scaled(free: Array, limits: Limits, period: float) -> Fourier:
    """
    Return the largest motion within limits that has a given shape.

    Parameters
    ----------
    free : (2 HARMONICS + 1, nv) array
        Any numbers: weights of sines and cosines, and where in the range the motion lies, if
        it does not fill it: the share below is 1 / (1 + exp(-free)).
    limits : Limits
        Kept at every instant, not only at samples.
    period : float
        In s.

    """
    shape = Fourier(np.zeros(free.shape[1]), free[:HARMONICS], free[HARMONICS:-1], period)
    wave, speed, rise = along(shape, period * np.arange(_GRID) / _GRID)
    high, low = wave.max(axis=0), wave.min(axis=0)
    width = (high - low) / _BETWEEN
    size = np.minimum(
        (limits.upper - limits.lower) / width,
        _BETWEEN
        * np.minimum(
            limits.velocity / np.abs(speed).max(axis=0),
            limits.acceleration / np.abs(rise).max(axis=0),
        ),
    )
    left = limits.upper - limits.lower - size * width
    middle = limits.lower + 0.5 * size * width + left / (1.0 + np.exp(-free[-1]))
    return Fourier(
        middle - 0.5 * size * (high + low), size * shape.sine, size * shape.cosine, period
    )


def _draw(joints: int, rng: np.random.Generator) -> Array:
    harmonic = np.r_[np.tile(np.arange(1, HARMONICS + 1), 2), 1]
    return rng.standard_normal((2 * HARMONICS + 1, joints)) / harmonic[:, None]


def draw(limits: Limits, period: float, rng: np.random.Generator) -> Fourier:
    """Return a random motion within limits; the k-th harmonic has a weight of 1 / k."""
    return scaled(_draw(len(limits.lower), rng), limits, period)


def information(
    model: mujoco.MjModel, motion: Fourier, torque_sd: Array, prior_sd: Array
) -> float:
    """
    Return what a motion is to tell about parameters, in nats: the fall of their entropy.

    Parameters
    ----------
    model : MjModel
        A fixed-base arm, as for `regressor`.
    motion : Fourier
        One period of it counts.
    torque_sd : (nv,) array
        Noise of a torque, in N m.
    prior_sd : (p,) array
        Of parameters before.

    """
    states = along(motion, motion.period * np.arange(_SAMPLES) / _SAMPLES)
    rows = regressor(model, *states) * prior_sd / np.tile(torque_sd, _SAMPLES)[:, None]
    return 0.5 * float(np.linalg.slogdet(np.eye(len(prior_sd)) + rows.T @ rows)[1])


def choose(
    model: mujoco.MjModel,
    limits: Limits,
    period: float,
    prior: tuple[Array, Array],
    rng: np.random.Generator,
    trials: int = 400,
    allowed: Callable[[Fourier], bool] = lambda _: True,
) -> Fourier:
    """
    Return a motion of large information: steps at random, kept if better and `allowed`.

    `prior` is `torque_sd` and `prior_sd` of `information`. IdentificationError if none of the
    first draws is allowed.
    """
    draws = (_draw(len(limits.lower), rng) for _ in range(_DRAWS))
    best = next((free for free in draws if allowed(scaled(free, limits, period))), None)
    if best is None:
        raise IdentificationError(f'none of {_DRAWS} motions within these limits is allowed')
    most = information(model, scaled(best, limits, period), *prior)
    size = _FIRST_STEP
    for _ in range(trials):
        other = best + size * _draw(len(limits.lower), rng)
        motion = scaled(other, limits, period)
        value = information(model, motion, *prior)
        better = value > most and allowed(motion)
        size *= _GROW if better else _SHRINK
        if better:
            best, most = other, value
    return scaled(best, limits, period)
