"""
Forecasts of the held-out part of a recording, and random torques that stand for model errors.

A forecast begins anew every HORIZON_S: from a state that is fitted to the measurements before it,
over a window as long as those that the parameters were learned from.

Where a window ends, the next begins with another velocity. The difference, times the inertia, is
an impulse that the model lacks, as if random torques acted all the time. A velocity that is fitted
to a window is an average with the weights 6 u (1 - u) at the share u of the window. With random
torques it differs by 13/35 of the variance that they cause in one window from the velocity at its
end, and by 26/35 from that of the next window, if the inertia is constant.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.figures import HeldOutForecast, forecast_error
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting import windows as cuts
from emppi_ros.identification.multiple_shooting.windows import (
    FREEDOM,
    STEP,
    fit_starts,
    perturb_starts,
    simulate,
)
from emppi_ros.recordings.motion import Motion, join

HORIZON_S = 0.5
_SAMPLES = 60
_SHARE_AT_END = 13.0 / 35.0
_SHARE_OF_GAP = 2.0 * _SHARE_AT_END


def forecast(
    plant: Plant,
    thetas: Array,
    scale: Array,
    earlier: Motion,
    later: Motion,
    length: int,
    seed: int,
    threads: int = 0,
    impulses: Array | None = None,
) -> HeldOutForecast | None:
    """
    Return forecasts, one after the other, of `later`, which follows `earlier`.

    They are by samples of the parameters (N, P). The state before a forecast is fitted to `length`
    steps; `scale` (nv,) is that of the errors of measurements, whose distribution is Student's t.
    `impulses` (nv, nv) are the covariance of random impulses in one step, which also act at the
    end of the window before a forecast; None: there are none. States at the start and measurement
    noise come from `seed`. None if nothing is held out, or a simulation diverges.
    """
    step_s = plant.model.opt.timestep
    horizon = max(round(HORIZON_S / step_s), 1)
    count = later.steps // horizon
    if not count or earlier.steps <= length:
        return None
    whole = replace(join([earlier, later]), begins=(0,))
    begins = earlier.steps - 1 + horizon * np.arange(count) - length
    rng = np.random.default_rng(seed)
    fit = fit_starts(plant, thetas, scale, whole, begins, length, threads)
    if fit is None:
        return None
    mean, gram = fit
    root = np.linalg.cholesky(np.linalg.inv(gram))
    fitted = mean + (root @ rng.standard_normal((*mean.shape, 1)))[..., 0]
    windows = cuts.at_starts(whole, begins, length + horizon)
    torques = None
    if impulses is not None:
        torques = draw_torques(impulses, step_s, (len(thetas), *windows.steps.shape), rng)
        torques[:, :, : length - round(_SHARE_AT_END * length)] = 0.0
    states, diverged = simulate(plant, thetas, whole, windows.steps, fitted, threads, torques)
    if diverged.any():
        return None
    future = states[:, :, length:, : len(scale)].reshape(len(thetas), count * horizon, -1)
    noise = rng.standard_t(FREEDOM, future.shape)
    measured = windows.measured[:, length + 1 :].reshape(count * horizon, -1)
    return HeldOutForecast.of_motion(plant.model, measured, future + scale * noise)


def forecast_parts(
    plant: Plant,
    thetas: Array,
    parts: Sequence[tuple[Motion, Motion]],
    noise: Sequence[tuple[Array, Array | None]],  # scale of errors, covariance of impulses
    length: int,
    seed: int,
    threads: int = 0,
) -> list[HeldOutForecast]:
    """Return the forecasts of long enough held-out parts, by the first of `thetas` (N, P)."""
    forecasts = (
        forecast(plant, thetas[:_SAMPLES], scale, *part, length, seed, threads, impulses)
        for part, (scale, impulses) in zip(parts, noise, strict=True)
    )
    return [held_out for held_out in forecasts if held_out is not None]


def note_missing(
    parts: Sequence[tuple[Motion, Motion]], forecasts: Sequence[HeldOutForecast], step_s: float
) -> str:
    """Return why parts that were held out have no forecast, or ''."""
    held_out = [later.steps * step_s for _, later in parts if later.steps]
    if len(forecasts) >= len(held_out):
        return ''
    missing = len(held_out) - len(forecasts)
    return (
        f'{missing} of {len(held_out)} held-out parts have no forecast: each needs '
        f'{HORIZON_S:g} s, and a simulation that does not diverge; the shortest has '
        f'{min(held_out):.3g} s: hold out more, or record longer'
    )


def summarize(forecasts: Sequence[HeldOutForecast], prefix: str = '') -> dict[str, Any]:
    """Return the error of forecasts, and how many measurements their bands contain."""
    errors = {prefix + name: error for name, error in forecast_error(forecasts).items()}
    shares = np.mean([inside(part) for part in forecasts], axis=0).tolist()
    return {'held_out_error': errors, 'held_out_inside_90': dict(zip(errors, shares, strict=True))}


def inside(held_out: HeldOutForecast) -> list[float]:
    """Return the share of measurements (Q,) inside the central 90 % bands of a forecast."""
    low, high = np.quantile(held_out.forecast, [0.05, 0.95], axis=0)
    hits = (held_out.measured >= low) & (held_out.measured <= high)
    return [float(column.mean()) for column in hits.T]


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
    fit = fit_starts(plant, theta[None], scale, motion, cut.steps[:, 0], length, threads)
    if fit is None or not len(next_to):
        return None
    starts, covariance = fit[0][0], np.linalg.inv(fit[1][0])
    begins = perturb_starts(starts[None], 0)[0]
    thetas = np.tile(theta, (len(begins), 1))
    states, diverged = simulate(plant, thetas, motion, cut.steps, begins, threads)
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
    for row, data.qpos[:] in zip(inertias, qpos, strict=True):
        mujoco.mj_forward(model, data)
        for column, unit in zip(row, np.eye(model.nv), strict=True):  # symmetric
            mujoco.mj_mulM(model, data, column, unit)
    return inertias
