"""Interpolate plans between knots, and shift them from one planning cycle to the next."""

import numpy as np

from emppi_ros.core.arrays import Array


def upsample(controls: Array, previous: Array, substeps: int, interpolation: str) -> Array:
    """
    Return the control of every physics step, (..., H * substeps + 1, nu).

    Knot h is the control of step h (`hold`), or the end of the ramp in step h (`linear`);
    `previous` (nu,) is in force before the first knot. Ramps are sampled at the middle of each
    physics step, which keeps their mean. The last entry repeats the final knot: its step only
    evaluates the final state.
    """
    *leading, horizon, nu = controls.shape
    fine = np.empty((*leading, horizon * substeps + 1, nu))
    fine[..., -1, :] = controls[..., -1, :]
    if interpolation == 'hold':
        fine[..., :-1, :] = np.repeat(controls, substeps, axis=-2)
        return fine
    start = np.empty(controls.shape)
    start[..., 0, :], start[..., 1:, :] = previous, controls[..., :-1, :]
    change = controls - start
    for i in range(substeps):  # broadcasting over so short an axis takes twice as long
        fine[..., i:-1:substeps, :] = start + (i + 0.5) / substeps * change
    return fine


def sample(controls: Array, previous: Array, times: Array, step_s: float, kind: str) -> Array:
    """
    Return the controls (n, nu) at `times` (n,), in seconds from the start of a plan (H, nu).

    `previous` is in force before the start; the last knot holds after the end.
    """
    if kind == 'hold':
        index = np.floor(times / step_s + 1e-9).astype(int)
        rows = controls[np.clip(index, 0, len(controls) - 1)]
        return np.where((index < 0)[:, None], previous, rows)
    knots = np.concatenate([previous[None], controls])
    phase = np.minimum(np.maximum(times / step_s, 0.0), len(controls))
    index = np.minimum(phase.astype(int), len(controls) - 1)
    fraction = (phase - index)[:, None]
    return (1.0 - fraction) * knots[index] + fraction * knots[index + 1]


def shift(controls: Array, previous: Array, elapsed_s: float, step_s: float, kind: str) -> Array:
    """Return a plan (H, nu) shifted by `elapsed_s`; its last knot is repeated."""
    first = 0.0 if kind == 'hold' else 1.0
    times = elapsed_s + (first + np.arange(len(controls), dtype=np.float64)) * step_s
    return sample(controls, previous, times, step_s, kind)
