"""What torques bodies forecast of the parts of recordings that were held out."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.common import matching
from emppi_ros.identify.common.figures import HeldOutForecast
from emppi_ros.identify.rigid_body import arm
from emppi_ros.identify.rigid_body.derivatives import Derived
from emppi_ros.identify.rigid_body.fitting import Found
from emppi_ros.identify.rigid_body.recorded import Arm
from emppi_ros.identify.rigid_body.regressor import regressor
from emppi_ros.identify.rigid_body.report import Drawn
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]


class Forecast(NamedTuple):
    """What of T samples was measured, and what is forecast."""

    later: Derived  # what was held out
    best: Array  # (T, nv) torques of the bodies that were found
    noise: Array  # (T, nv, nv) covariance of what noise of motion and torques adds
    drawn: Array  # (N, T, nv) torques of the bodies that were drawn

    @property
    def off(self) -> Array:
        """How far the best are off (T, nv)."""
        return self.later.recording.torque - self.best

    @property
    def variance(self) -> Array:
        """What is to be expected of that, squared (T, nv)."""
        return np.diagonal(self.noise, axis1=1, axis2=2) + self.drawn.var(axis=0)


def forecast(recorded: Arm, found: Found, drawn: Drawn) -> list[Forecast]:
    """Return what is forecast of each recording, along the motion as it was measured."""
    return [
        _of(recorded.model, motion.later, found, drawn, index)
        for index, motion in enumerate(recorded.motions)
        if motion.later is not None
    ]


def _of(model: mujoco.MjModel, later: Derived, found: Found, drawn: Drawn, index: int) -> Forecast:
    states, torque = later.recording
    parameters, others = found.estimate.parameters, found.estimate.others
    rows = regressor(model, *states)
    bodies = (np.vstack([parameters, drawn.bodies]) @ rows.T).reshape(-1, *torque.shape)
    numbers = np.concatenate([others[None], drawn.others])[:, None]
    torques = bodies + later.signs * numbers[..., 0] + numbers[..., 1 + index]
    slopes = arm.slopes(arm.with_parameters(model, parameters), states)
    noise = slopes * later.noise.states.ravel() ** 2 @ np.swapaxes(slopes, 1, 2)
    return Forecast(later, torques[0], noise + np.diag(later.noise.torque**2), torques[1:])


def summarize(recorded: Arm, forecasts: Sequence[Forecast]) -> dict[str, dict[str, float]]:
    """Return how far joints' forecasts are off, rms: in N m (or N), and in what is expected."""
    if not forecasts:
        return {}
    names = scene.names(recorded.model, 'joint')
    square = np.concatenate([one.off for one in forecasts]) ** 2
    variance = np.concatenate([one.variance for one in forecasts])
    error, share = (np.sqrt(np.mean(x, axis=0)).tolist() for x in (square, square / variance))
    return {
        'held_out_error': dict(zip(names, error, strict=True)),
        'held_out_in_noise': dict(zip(names, share, strict=True)),
    }


def futures(recorded: Arm, forecasts: Sequence[Forecast], seed: int) -> list[HeldOutForecast]:
    """Return forecasts to be drawn, each with noise, for what was measured has it, too."""
    model, rng, found = recorded.model, np.random.default_rng(seed), []
    what = [
        (name, matching.joint_units(model, joint)['force'])
        for joint, name in enumerate(scene.names(model, 'joint'))
    ]
    for one in forecasts:
        normal = rng.standard_normal((*one.drawn.shape, 1))
        noisy = one.drawn + (np.linalg.cholesky(one.noise) @ normal)[..., 0]
        time = 0.5 * one.later.window_s + one.later.step_s * np.arange(len(one.best))
        found.append(HeldOutForecast(time, what, one.later.recording.torque, noisy))
    return found
