"""
Poses of a part in a whole video, from its poses in single images: a smoother (docs/tracking.md).

Velocities of its centre and rotation are changed by white accelerations along the axes of the
world. Their densities, the standard deviations of the first rates, and a factor of the covariances
of the given poses are the most likely ones, with a penalty that keeps densities away from 0 (Chung
et al., 2013, "A nondegenerate penalized likelihood estimator for variance parameters in multilevel
models"). In an interval with an impact accelerations have Student's t distribution.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Poses
from emppi_ros.tracking import equations, kalman_smoother
from emppi_ros.tracking.equations import Shape
from emppi_ros.tracking.kalman_smoother import LinearSystem, SmoothedStates
from emppi_ros.tracking.tracker import TRACKED, PartEstimate

FEWEST = 4  # images: accelerations show in three
_FREEDOM = 2.0  # of Student's distribution: impacts of any size are possible
_SEEN = 0.5  # of the radius: largest standard deviation of what an image shows
_FIRST_SD_M = 1.0  # of surfaces, before the first image
_ROUNDS, _ENOUGH = 12, 0.02  # of the smoothed standard deviation: last change
_LEAST_RATE = 1e-9  # m/s and m/s^1.5, of a part that does not move at all
_CONVERGED = 1e-6  # relative, of the log likelihood
_LOG_RANGE = 12.0, 1.0  # below and above standard deviations that contain the noise of poses
_LEAST_FACTOR = 1e-9  # of covariances, if all poses are the same


class PoseSeries(NamedTuple):
    """Poses of a part in T images."""

    position: Array  # (T, 3), of its origin in the world [m]
    rotation: Array  # (T, 3, 3)
    covariance: Array  # (T, 6, 6), of positions, and of rotations about the axes of the world


class _Images(NamedTuple):
    """What the images show of the centre of a part and of its rotation times its radius [m]."""

    time: Array
    centres: Poses  # (T)
    whitening: Array  # (T, 6, 6): rows of directions that are not shown are zero
    radius: float


class _PartMotion(NamedTuple):
    """Poses of the centre (T), and rates (T, 6) of surfaces [m/s]."""

    centres: Poses
    rate: Array


class _Fitted(NamedTuple):
    """Log standard deviations (12,), of accelerations and first rates, and the states."""

    log_sd: Array
    factor: float
    noise: Array  # (T - 1, 12, 12)
    states: SmoothedStates


def smooth_estimates(
    time: Array, estimates: Sequence[Sequence[PartEstimate]], shapes: Sequence[Shape]
) -> list[list[PartEstimate]]:
    """
    Return the estimates of all parts in all images, smoothed over time.

    Those of images in which a part is not tracked stay as they are, and all of a part that is
    tracked in fewer than four.
    """
    result = [list(of_image) for of_image in estimates]
    for part, shape in enumerate(shapes):
        rows = [i for i, of_image in enumerate(estimates) if of_image[part].status == TRACKED]
        if len(rows) < FEWEST:
            continue
        given = zip(*(estimates[i][part][:3] for i in rows), strict=True)
        series = smooth(time[rows], PoseSeries(*map(np.array, given)), shape)
        for i, position, rotation, covariance in zip(rows, *series, strict=True):
            result[i][part] = result[i][part]._replace(
                position=position, rotation=rotation, covariance=covariance
            )
    return result


def smooth(time: Array, given: PoseSeries, shape: Shape) -> PoseSeries:
    """
    Return the poses at times (T,) [s] given those of all images, of which there are at least four.

    Directions that an image does not show stay as they are in it.
    """
    to_centre = _to_centres(given.rotation @ shape.centre, shape.radius)
    values, vectors = np.linalg.eigh(to_centre @ given.covariance @ np.swapaxes(to_centre, -1, -2))
    shown = values < (_SEEN * shape.radius) ** 2
    scale = np.where(shown, 1.0 / np.sqrt(values), 0.0)
    centres = Poses(given.position + given.rotation @ shape.centre, given.rotation)
    whitening = np.swapaxes(vectors, -1, -2) * scale[..., None]
    images = _Images(time, centres, whitening, shape.radius)
    smoothed, covariance = _smooth_images(images, int(shown.sum()))
    kept = (vectors * shown[:, None, :]) @ np.swapaxes(vectors, -1, -2)
    step = np.einsum('tij,tj->ti', kept, _displacement(centres, smoothed, shape.radius))
    rotation = Rotation.from_rotvec(step[:, 3:] / shape.radius).as_matrix() @ given.rotation
    unknown = (vectors * np.where(shown, 0.0, values)[:, None, :]) @ np.swapaxes(vectors, -1, -2)
    back = np.linalg.inv(_to_centres(rotation @ shape.centre, shape.radius))
    return PoseSeries(
        centres.position + step[:, :3] - rotation @ shape.centre,
        rotation,
        back @ (kept @ covariance @ kept + unknown) @ np.swapaxes(back, -1, -2),
    )


def _to_centres(arms: Array, radius: float) -> Array:
    """Return the matrices (T, 6, 6) from displacements of a part to those of its surface."""
    return np.array([np.linalg.inv(equations.centred(arm, radius)) for arm in arms])


def _displacement(before: Poses, after: Poses, radius: float) -> Array:
    """Return displacements (T, 6) of the surface [m] from poses of the centre to others."""
    turned = after.rotation @ np.swapaxes(before.rotation, -1, -2)
    vectors = np.asarray(Rotation.from_matrix(turned).as_rotvec(), np.float64)
    return np.concatenate([after.position - before.position, radius * vectors], axis=1)


def _smooth_images(images: _Images, dimensions: int) -> tuple[Poses, Array]:
    """Return poses of the centre, and covariances (T, 6, 6) of displacements of the surface."""
    steps, radius = np.diff(images.time), images.radius
    before, after = images.centres.at(slice(-1)), images.centres.at(slice(1, None))
    rate = _displacement(before, after, radius) / steps[:, None]
    motion = _PartMotion(images.centres, np.concatenate([rate, rate[-1:]]))
    changes = np.diff(rate, axis=0) / np.sqrt(steps[1:, None])
    moments = [np.mean(changes**2, axis=0), np.mean(motion.rate**2, axis=0)]
    log_sd = np.log(np.sqrt(np.concatenate(moments)) + _LEAST_RATE)
    bounds = [(center - _LOG_RANGE[0], center + _LOG_RANGE[1]) for center in log_sd]
    scale = np.ones(len(steps))  # of the covariance of accelerations in each interval
    for _ in range(_ROUNDS):
        system = _linearize(images, motion)
        unit = _unit_noise(steps) * scale[:, None, None]
        fitted = _fit(system, unit, dimensions, log_sd, bounds)
        moved, covariance = fitted.states.mean, fitted.factor * fitted.states.covariance[:, :6, :6]
        centres = Poses(
            motion.centres.position + moved[:, :3],
            Rotation.from_rotvec(moved[:, 3:6] / radius).as_matrix() @ motion.centres.rotation,
        )
        motion = _PartMotion(centres, motion.rate + moved[:, 6:])
        squares = scale * kalman_smoother.noise_squares(fitted.states, fitted.noise, fitted.factor)
        scale = (_FREEDOM + squares) / (_FREEDOM + moved.shape[1])
        log_sd = fitted.log_sd
        sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        if np.all(np.abs(moved[:, :6]) < _ENOUGH * sd):
            break
    return motion.centres, covariance


def _linearize(images: _Images, about: _PartMotion) -> LinearSystem:
    """Return the system of displacements and changes of rates, without noise and first rates."""
    steps = np.diff(images.time)[:, None]
    moved = steps * about.rate[:-1]
    turns = Rotation.from_rotvec(moved[:, 3:] / images.radius).as_matrix()
    here, there = about.centres.at(slice(-1)), about.centres.at(slice(1, None))
    ahead = Poses(here.position + moved[:, :3], turns @ here.rotation)
    off = _displacement(there, ahead, images.radius)
    transition = np.tile(np.eye(12), (len(steps), 1, 1))
    transition[:, 3:6, 3:6] = turns
    transition[:, :6, 6:] = steps[..., None] * np.eye(6)
    slopes = np.concatenate([images.whitening, np.zeros_like(images.whitening)], axis=-1)
    error = -_displacement(images.centres, about.centres, images.radius)
    return LinearSystem(
        mean=np.concatenate([np.zeros(6), -about.rate[0]]),
        covariance=np.diag([_FIRST_SD_M**2] * 6 + [0.0] * 6),
        transition=transition,
        shift=np.concatenate([off, about.rate[:-1] - about.rate[1:]], axis=1),
        noise=np.zeros_like(transition),
        slopes=slopes,
        measured=np.einsum('tij,tj->ti', images.whitening, error),
    )


def _unit_noise(steps: Array) -> Array:
    """Return covariances (T - 1, 2, 2) of place and rate after white acceleration of density 1."""
    rows = [[steps**3 / 3.0, steps**2 / 2.0], [steps**2 / 2.0, steps]]
    return np.moveaxis(np.array(rows), -1, 0)


def _fit(
    system: LinearSystem, unit: Array, dimensions: int, start: Array,
    bounds: Sequence[tuple[float, float]],
) -> _Fitted:  # fmt: skip
    """Return the most likely log standard deviations and factor of all covariances, and states."""

    def at(log_sd: Array) -> _Fitted:
        variances = np.exp(2.0 * log_sd)
        noise = np.einsum('kij,ab->kiajb', unit, np.diag(variances[:6]))
        noise = noise.reshape(system.noise.shape)
        first = system.covariance + np.diag(np.concatenate([np.zeros(6), variances[6:]]))
        states = kalman_smoother.smooth(system._replace(noise=noise, covariance=first))
        factor = max(states.squares / dimensions, _LEAST_FACTOR)
        return _Fitted(log_sd, factor, noise, states)

    def cost(log_sd: Array) -> tuple[float, Array]:
        fitted = at(log_sd)
        value = 0.5 * (dimensions * np.log(fitted.factor) + fitted.states.log_determinant)
        by_first, *by_noise = kalman_smoother.scores(fitted.states, fitted.factor)
        by_density = np.einsum('kiaja,kij->a', np.reshape(by_noise, (-1, 2, 6, 2, 6)), unit)
        slope = 2.0 * np.exp(2.0 * log_sd) * np.concatenate([by_density, np.diag(by_first)[6:]])
        slope[:6] += 1.0
        return float(value - np.sum(log_sd[:6])), -slope

    optimum = optimize.minimize(
        cost, start, jac=True, method='L-BFGS-B', bounds=bounds, options={'ftol': _CONVERGED}
    )
    return at(optimum.x)
