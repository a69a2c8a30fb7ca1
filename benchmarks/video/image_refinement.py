"""
A last refinement on the images themselves: rendered minus measured depth of the simulated motion.

`shooting` fits joint positions that were tracked image by image. Here the simulation moves the
parts, which are rendered, and the errors of depths and outlines in all images are the residuals of
parameters and starts of windows. The chain rule needs no further simulation: derivatives of an
image by the joints are those of the tracker, and those of the joints by the unknowns are those of
`shooting`. As there, starts are eliminated from each Gauss-Newton step.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.filmed_parts import parts_of
from benchmarks.video.films import CAMERA, Film
from benchmarks.video.pipeline import InferredMechanism
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common import posterior_samples
from emppi_ros.identification.multiple_shooting.windows import simulate
from emppi_ros.identification.shooting.estimation import (
    ShootingEstimate,
    WindowSimulation,
    joint_covariance,
)
from emppi_ros.model import scene
from emppi_ros.recordings.motion import Motion
from emppi_ros.tracking import fitting
from emppi_ros.tracking.equations import PoseEquations
from emppi_ros.tracking.fitting import TrackedParts
from emppi_ros.tracking.jointed_parts import JointedParts, JointedPoses
from emppi_ros.tracking.parts import prepare_parts

ITERATIONS = 4  # Gauss-Newton steps, from an estimate that is near


class _Held(JointedPoses):
    """Parts where the simulation has them, which an image does not move."""

    def moved(
        self, tracked: TrackedParts, systems: Sequence[PoseEquations | None]
    ) -> tuple[JointedPoses, float]:
        """Return the same parts."""
        return self, 0.0


class _ImageEquations(NamedTuple):
    """Normal equations of one image in the coordinates of the joints."""

    information: Array  # (nv, nv) of Gauss-Newton
    gradient: Array  # (nv,)
    known: Array  # (nv, nv), what the noise leaves of it


def refine(
    mechanism: InferredMechanism, film: Film, motion: Motion, fitted: ShootingEstimate, seed: int
) -> Array:
    """
    Return samples (N, P) of the parameters from the images of a film.

    The search begins where `shooting` ended, with its windows. IdentificationError if the model
    diverges.
    """
    plant, windows = mechanism.plant, fitted.windows
    names, model = film.mechanism.parts, film.mechanism.load(visual=True)
    bodies = tuple(scene.find(model, 'body', part) for part in names)
    tracked = prepare_parts(parts_of(model, bodies, film.poses[0], CAMERA), film.camera)
    jointed = JointedParts(plant.model, names)
    simulation = WindowSimulation(plant, motion, windows, threads=1)
    rows = np.round(film.time / plant.model.opt.timestep).astype(int) - 1  # states follow a step
    images = [(*divmod(row, windows.length), image)
              for row, image in zip(rows.tolist(), film.images, strict=True)
              if 0 <= row < windows.count * windows.length]  # fmt: skip
    theta, starts = fitted.theta, fitted.starts
    covariance: Array = np.empty(0)
    for _ in range(ITERATIONS):
        point = simulation.evaluate(theta, starts)
        states, _ = simulate(plant, theta[None], motion, windows.steps, starts[None], 1)
        if point is None:
            raise IdentificationError('the model diverges where images are compared')
        size, count = len(theta), starts.shape[1]
        information = np.zeros((windows.count, size + count, size + count))
        known, gradient = np.zeros_like(information), np.zeros(information.shape[:2])
        for window, step, image in images:
            system = _compare(tracked, jointed, states[0, window, step, : plant.model.nq], image)
            slopes = np.concatenate(
                [point.by_parameter[window, step], point.by_start[window, step]], axis=1
            )
            information[window] += slopes.T @ system.information @ slopes
            known[window] += slopes.T @ system.known @ slopes
            gradient[window] += slopes.T @ system.gradient
        change, follow = _solve(information, gradient, size)
        theta = np.clip(theta + change * plant.scales, *plant.bounds)
        starts = starts + follow
        covariance = np.asarray(np.linalg.inv(_eliminated(known, size) + np.eye(size)), float)
    covariance = covariance + joint_covariance(plant, motion, fitted, 1)
    scaled = covariance * np.outer(plant.scales, plant.scales)
    return posterior_samples.draw_linearised(plant, theta, scaled, list(range(size)), seed)


def _compare(
    tracked: TrackedParts, jointed: JointedParts, qpos: Array, image: Array
) -> _ImageEquations:
    """Return the equations of an image (h, w) with the joints at positions (nq,)."""
    placed: JointedPoses = _Held(*jointed.places(qpos))
    image = tracked.prepare(-np.inf, 0.0, image, None)
    fitted = fitting.fit(tracked, placed, image)
    size = placed.jacobian.shape[-1]
    information, known, gradient = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    parts = zip(placed.jacobian, fitted.equations, fitted.evidence.scale, strict=True)
    for slopes, system, scale in parts:
        if system is not None:
            information += slopes.T @ system.information @ slopes
            known += slopes.T @ system.known @ slopes / scale
            gradient += slopes.T @ system.gradient
    return _ImageEquations(information, gradient, known)


def _solve(information: Array, gradient: Array, size: int) -> tuple[Array, Array]:
    """Return steps of the parameters (P,), in their scales, and of the starts (W, 2 nv)."""
    by_start = _regular(information[:, size:, size:])
    across = information[:, size:, :size]
    own = np.linalg.solve(by_start, gradient[:, size:, None])[..., 0]
    reduced = gradient[:, :size] - np.einsum('wsp,ws->wp', across, own)
    change = np.linalg.solve(_eliminated(information, size) + np.eye(size), reduced.sum(axis=0))
    return change, own - np.linalg.solve(by_start, (across @ change)[..., None])[..., 0]


def _eliminated(information: Array, size: int) -> Array:
    """Return the information (P, P) on the parameters if the starts are unknown."""
    across = information[:, size:, :size]
    rest = np.linalg.solve(_regular(information[:, size:, size:]), across)
    remaining = information[:, :size, :size] - across.swapaxes(1, 2) @ rest
    return np.asarray(remaining.sum(axis=0))


def _regular(matrices: Array) -> Array:
    """Return matrices (W, n, n) with a ridge: starts that no image shows stay."""
    size = matrices.shape[-1]
    ridge = 1e-9 * np.abs(matrices).max(axis=(1, 2), keepdims=True) + 1e-300
    return matrices + ridge * np.eye(size)
