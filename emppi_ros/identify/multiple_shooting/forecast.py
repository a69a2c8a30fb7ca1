"""
Forecasts of the held-out part of a recording.

A forecast begins anew every HORIZON_S: from a state that is fitted to the measurements before it,
over a window as long as those that the parameters were learned from.
"""

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identify.common.figures import HeldOutForecast
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.multiple_shooting import windows as cuts
from emppi_ros.identify.multiple_shooting.simulation import make_ensemble, roll_out
from emppi_ros.identify.multiple_shooting.start_fits import fit_starts
from emppi_ros.identify.multiple_shooting.torque_noise import SHARE_AT_END, draw_torques
from emppi_ros.identify.shooting.estimation import FREEDOM
from emppi_ros.recordings.motion import Motion

HORIZON_S = 0.5


def forecast(
    plant: Plant,
    thetas: Array,
    scale: Array,
    known: Motion,
    later: Motion,
    length: int,
    seed: int,
    threads: int = 0,
    impulses: Array | None = None,
) -> HeldOutForecast | None:
    """
    Return the forecast of measurements of `later`, which follows `known`.

    Parameters
    ----------
    plant : Plant
        The model.
    thetas : (N, P) array
        Samples of the parameters.
    scale : (nv,) array
        Scale of the errors of measurements, whose distribution is Student's t.
    known, later : Motion
        The parts of one recording.
    length : int
        Steps to which the state before a forecast is fitted.
    seed : int
        Source of the states at the start, and of the measurement noise that is added.
    threads : int
        Threads of the simulation; 0: all cores.
    impulses : (nv, nv) array or None
        Covariance of random impulses in one step (`torque_noise`), which also act at the end of
        the window before a forecast; None: there are none.

    Returns
    -------
    HeldOutForecast or None
        Forecasts one after the other; None if nothing is held out, or a simulation diverges.

    """
    step_s = plant.model.opt.timestep
    horizon = max(round(HORIZON_S / step_s), 1)
    count = min(later.steps // horizon, 1_000_000)
    if not count or known.steps <= length:
        return None
    whole = Motion(
        np.concatenate([known.qpos, later.qpos]),
        np.concatenate([known.weights, later.weights]),
        np.concatenate([known.ctrl, later.ctrl]),
        np.concatenate([known.applied, later.applied]),
    )
    begins = known.steps - 1 + horizon * np.arange(count)
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
    positions = roll_out(ensemble, whole, windows, fitted, torques)
    if positions is None:
        return None
    future = positions[:, :, length:].reshape(len(thetas), count * horizon, -1)
    noise = rng.standard_t(FREEDOM, future.shape)
    measured = windows.measured[:, length + 1 :].reshape(count * horizon, -1)
    return HeldOutForecast.of_motion(plant.model, measured, future + scale * noise)


def inside(one: HeldOutForecast, share: float = 0.9) -> list[float]:
    """Return the share of measurements (Q,) inside the central bands of a forecast."""
    low, high = np.quantile(one.forecast, [0.5 - 0.5 * share, 0.5 + 0.5 * share], axis=0)
    hits: list[float] = np.mean((one.measured >= low) & (one.measured <= high), axis=0).tolist()
    return hits
