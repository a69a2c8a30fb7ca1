"""Regressions for an arm's parameters: those of libraries, of the paper, and ours."""

from collections.abc import Callable

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.bench.identify import (
    bayesian_factor_analysis,
    errors_in_variables,
    regression_study,
)
from emppi_ros.identify.rigid_body import physical_consistency, torque_fit
from emppi_ros.identify.rigid_body.motion_samples import MotionNoise, MotionSamples, estimate_noise
from emppi_ros.identify.rigid_body.regressor import regressor

Array = npt.NDArray[np.float64]
Regression = Callable[[Array, Array], Array]
OURS, TRUTH = 'ours', 'truth'
PROJECTED = ('OLS', 'ridge', 'factors')
_RANK = 1e-8  # of the largest singular value: what is smaller is rounding


def without_offset(method: Regression) -> Regression:
    """
    Return a regression that takes no mean out of its data, for a body has no offset.

    Every row is there a second time with its sign turned, right behind it, so that both fall
    into the same part when parts are left out to choose a setting.
    """

    def regress(x: Array, y: Array) -> Array:
        used = np.abs(x).max(axis=0) > _RANK * np.abs(x).max()  # the others never change
        signs = np.tile([1.0, -1.0], len(y))
        found = np.zeros(x.shape[1])
        found[used] = method(
            signs[:, None] * np.repeat(x[:, used], 2, axis=0), signs * np.repeat(y, 2)
        )
        return found

    return regress


def weighted(
    model: mujoco.MjModel, recording: MotionSamples, noise: MotionNoise
) -> tuple[Array, Array]:
    """Return a regressor (n nv, 11 B) and torques (n nv,), each joint's in units of its noise."""
    weight = 1.0 / np.tile(noise.torque, len(recording.torque))
    rows = regressor(model, *recording.states)
    return rows * weight[:, None], recording.torque.ravel() * weight


def identify(model: mujoco.MjModel, recording: MotionSamples) -> dict[str, Array]:
    """
    Return each method's parameters (11 B,) from the same noisy recording.

    All are given torques in units of their noise, as the recording shows it; ours is also given
    the noise of the motion, likewise.
    """
    noise = estimate_noise(recording)
    x, y = weighted(model, recording, noise)
    metric = x.T @ x
    found = {'OLS': np.linalg.lstsq(x, y, rcond=_RANK)[0]}
    others = {name: m for name, m in regression_study.baselines().items() if name != 'OLS'}
    others['correction'] = lambda x, y: errors_in_variables.regress(x, y).coefficients
    others['factors'] = bayesian_factor_analysis.regress
    for name, method in others.items():
        found[name] = without_offset(method)(x, y)
    for name in PROJECTED:
        found[f'{name}, projected'] = physical_consistency.project(found[name], metric)
    found[OURS] = torque_fit.fit_torques(model, recording, noise).parameters
    return found


def possible(parameters: Array) -> Array:
    """Return which bodies (B,) can be, up to rounding."""
    rows = parameters.reshape(-1, physical_consistency.BODY_PARAMETERS)
    least = [np.linalg.eigvalsh(physical_consistency.pseudo_inertia(row))[0] for row in rows]
    size = np.abs(rows[:, :10]).max(axis=1)
    return (np.array(least) > -1e-9 * size) & (rows[:, 0] > 0.0) & (rows[:, 10] >= 0.0)
