"""
Forecasts of the held-out part of a recording.

A forecast begins anew every HORIZON_S: from a state that is fitted to the measurements before it,
over a window as long as those that the parameters were learned from.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.figures import HeldOutForecast, forecast_error
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting import windows as cuts
from emppi_ros.identification.multiple_shooting.simulation import Inputs, make_ensemble, roll_out
from emppi_ros.identification.multiple_shooting.start_fits import FREEDOM, fit_starts
from emppi_ros.identification.multiple_shooting.torque_noise import SHARE_AT_END, draw_torques
from emppi_ros.recordings.motion import Motion, join

HORIZON_S = 0.5
_SAMPLES = 60


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
    `impulses` (nv, nv) are the covariance of random impulses in one step (`torque_noise`), which
    also act at the end of the window before a forecast; None: there are none. States at the start
    and measurement noise come from `seed`. None if nothing is held out, or a simulation diverges.
    """
    step_s = plant.model.opt.timestep
    horizon = max(round(HORIZON_S / step_s), 1)
    count = min(later.steps // horizon, 1_000_000)
    if not count or earlier.steps <= length:
        return None
    whole = replace(join([earlier, later]), begins=(0,))
    begins = earlier.steps - 1 + horizon * np.arange(count)
    rng = np.random.default_rng(seed)
    fit = fit_starts(plant, thetas, scale, whole, begins - length, length, threads)
    if fit is None:
        return None
    mean, gram = fit
    root = np.linalg.cholesky(np.linalg.inv(gram))
    fitted = mean + (root @ rng.standard_normal((*mean.shape, 1)))[..., 0]
    windows = cuts.at_starts(whole, begins - length, length + horizon)
    ensemble = make_ensemble(plant, len(thetas), count, threads)
    ensemble.write(thetas)
    torques = None
    if impulses is not None:
        torques = draw_torques(impulses, step_s, (len(thetas), *windows.steps.shape), rng)
        torques[:, :, : length - round(SHARE_AT_END * length)] = 0.0
    inputs = Inputs.of_motion(whole)
    states, diverged = roll_out(ensemble, inputs, windows.steps, fitted, torques)
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
    noise: Sequence[tuple[Array, Array | None]],
    length: int,
    seed: int,
    threads: int = 0,
) -> list[HeldOutForecast]:
    """
    Return the forecasts of the held-out parts that are long enough.

    `noise` has the scale of errors and the covariance of impulses for each of the `parts`; the
    first _SAMPLES of `thetas` are used. The other arguments are those of `forecast`.
    """
    forecasts = (
        forecast(plant, thetas[:_SAMPLES], scale, *part, length, seed, threads, impulses)
        for part, (scale, impulses) in zip(parts, noise, strict=True)
    )
    return [held_out for held_out in forecasts if held_out is not None]


def summarize(forecasts: Sequence[HeldOutForecast], prefix: str = '') -> dict[str, Any]:
    """Return the error of forecasts, and how many measurements their bands contain."""
    errors = forecast_error(forecasts)
    shares = np.mean([inside(part) for part in forecasts], axis=0).tolist()
    return {
        'held_out_error': {prefix + name: error for name, error in errors.items()},
        'held_out_inside_90': {
            prefix + name: share for name, share in zip(errors, shares, strict=True)
        },
    }


def inside(held_out: HeldOutForecast, share: float = 0.9) -> list[float]:
    """Return the share of measurements (Q,) inside the central bands of a forecast."""
    low, high = np.quantile(held_out.forecast, [0.5 - 0.5 * share, 0.5 + 0.5 * share], axis=0)
    hits = (held_out.measured >= low) & (held_out.measured <= high)
    return [float(column.mean()) for column in hits.T]
