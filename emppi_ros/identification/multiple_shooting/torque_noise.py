"""
Random torques that stand for what a model lacks.

Consecutive windows of a recording are fitted one by one. Where one ends, the next begins with
another velocity; the difference, times the inertia, is an impulse that the model does not explain.
What the uncertainty of the fitted states does not account for is the covariance of random torques
that act all the time.

A velocity that is fitted to a window is an average over it, with the weights 6 u (1 - u) at the
share u of the window (least squares of a line). Where random torques act, it differs by 13/35 of
the variance that they cause in one window from the velocity at its end, and by 26/35 from that of
the next window. This is exact where the inertia is constant.
"""

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting import start_fits
from emppi_ros.identification.multiple_shooting import windows as cuts
from emppi_ros.identification.multiple_shooting.simulation import (
    STEP,
    Inputs,
    make_ensemble,
    perturb_starts,
    roll_out,
)
from emppi_ros.recordings.motion import Motion

SHARE_AT_END = 13.0 / 35.0
_SHARE_OF_GAP = 2.0 * SHARE_AT_END


def impulse_covariance(
    plant: Plant, theta: Array, scale: Array, motion: Motion, length: int, threads: int = 0
) -> Array | None:
    """
    Return the covariance (nv, nv) of the impulses in one time step, N s or N m s.

    The parameters theta (P,) were learned from `motion`, the `scale` (nv,) is that of the errors
    of measurements. None if there are no two consecutive windows of `length` steps, or a
    simulation diverges.
    """
    cut = cuts.cut(motion, length)
    next_to = np.flatnonzero(np.diff(cut.recordings) == 0)
    nv = plant.model.nv
    fit = start_fits.fit_starts(
        plant, theta[None], scale, motion, cut.steps[:, 0], length, threads
    )
    if fit is None or not len(next_to):
        return None
    starts, covariance = fit[0][0], np.linalg.inv(fit[1][0])
    ensemble = make_ensemble(plant, 1 + 2 * nv, cut.count, threads)
    ensemble.write(np.tile(theta, (1 + 2 * nv, 1)))
    begins = perturb_starts(starts[None], 0)[0]
    states, diverged = roll_out(ensemble, Inputs.of_motion(motion), cut.steps, begins)
    if diverged.any():
        return None
    ends = states[:, :, -1]
    slopes = np.moveaxis(ends[1:] - ends[0], 0, -1) / STEP  # (W, 2 nv, 2 nv)
    gaps = (starts[next_to + 1] - ends[0][next_to])[:, nv:]
    forward = slopes[next_to] @ covariance[next_to] @ slopes[next_to].swapaxes(1, 2)
    expected = (covariance[next_to + 1] + forward)[:, nv:, nv:]
    inertia = _inertia(plant.at(theta), starts[next_to + 1, :nv])
    impulses = (inertia @ gaps[..., None])[..., 0]
    explained = inertia @ expected @ inertia.swapaxes(1, 2)
    excess = impulses.T @ impulses - explained.sum(axis=0)
    excess /= _SHARE_OF_GAP * length * len(next_to)
    sizes, vectors = np.linalg.eigh(0.5 * (excess + excess.T))
    return np.asarray((vectors * np.maximum(sizes, 0.0)) @ vectors.T)


def draw_torques(
    covariance: Array, step_s: float, shape: tuple[int, ...], rng: np.random.Generator
) -> Array:
    """Return torques (*shape, nv) that act for one step each."""
    sizes, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(sizes, 0.0))
    return np.asarray(rng.standard_normal((*shape, len(root))) @ root.T / step_s)


def _inertia(model: mujoco.MjModel, qpos: Array) -> Array:
    """Return the inertia matrices (n, nv, nv) at configurations (n, nq)."""
    data = mujoco.MjData(model)
    inertias = np.empty((len(qpos), model.nv, model.nv))
    for row, q in zip(inertias, qpos, strict=True):
        data.qpos[:] = q
        mujoco.mj_forward(model, data)
        for column, unit in zip(row, np.eye(model.nv), strict=True):  # symmetric
            mujoco.mj_mulM(model, data, column, unit)
    return inertias
