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
    if interpolation == 'hold':
        fine = np.repeat(controls, substeps, axis=-2)
    else:
        before = np.broadcast_to(previous, (*controls.shape[:-2], 1, controls.shape[-1]))
        start = np.concatenate([before, controls[..., :-1, :]], axis=-2)
        phase = ((np.arange(substeps) + 0.5) / substeps)[:, None]
        ramps = start[..., None, :] + phase * (controls - start)[..., None, :]
        fine = ramps.reshape(*controls.shape[:-2], -1, controls.shape[-1])
    return np.concatenate([fine, controls[..., -1:, :]], axis=-2)


def sample(controls: Array, previous: Array, times: Array, step_s: float, kind: str) -> Array:
    """
    Return the controls (n, nu) at `times` (n,), in seconds from the start of a plan (H, nu).

    `previous` is in force before the start; the last knot holds after the end.
    """
    if kind == 'hold':
        index = np.floor(times / step_s + 1e-9).astype(int)
        rows = controls[np.clip(index, 0, len(controls) - 1)]
        return np.where((index < 0)[:, None], previous, rows)
    knots = np.vstack([previous, controls])
    phase = np.clip(times / step_s, 0.0, len(controls))
    index = np.minimum(phase.astype(int), len(controls) - 1)
    fraction = (phase - index)[:, None]
    return (1.0 - fraction) * knots[index] + fraction * knots[index + 1]


def shift(controls: Array, previous: Array, elapsed_s: float, step_s: float, kind: str) -> Array:
    """Return a plan (H, nu) shifted by `elapsed_s`; its last knot is repeated."""
    first = 0.0 if kind == 'hold' else 1.0
    times = elapsed_s + (first + np.arange(len(controls), dtype=np.float64)) * step_s
    return sample(controls, previous, times, step_s, kind)
