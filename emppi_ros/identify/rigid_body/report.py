"""What was found of an arm's bodies, in words and as a prior's file; and whether it fits."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common import matching, prior_output
from emppi_ros.identify.common.figures import HeldOutForecast
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.prior_output import knowledge_level
from emppi_ros.identify.rigid_body import arm, body_posterior, composite_bodies
from emppi_ros.identify.rigid_body.inference import RigidBodyEstimate
from emppi_ros.identify.rigid_body.motion_samples import DifferentiatedMotion
from emppi_ros.identify.rigid_body.recordings import RecordedArm
from emppi_ros.identify.rigid_body.regressor import regressor
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_ADVICE = (
    'record a motion that moves every joint at once, over much of its range, with accelerations '
    'of both signs (`emppi excite` makes such motions)'
)


class PosteriorDraws(NamedTuple):
    """What may as well be true."""

    bodies: Array  # (N, 11 B)
    others: Array  # (N, nv, e) what else torques have

    def values(self, found: RigidBodyEstimate) -> Array:
        """Return the parameters (N, P)."""
        return composite_bodies.parameter_values(
            found.named, found.known, self.bodies, self.others[:, :, 0]
        )


def draw(found: RigidBodyEstimate, spread: float, count: int, seed: int) -> PosteriorDraws:
    """Return bodies that can be, as likely as they are."""
    information = found.estimate.normal.information / spread**2
    score = found.estimate.normal.score / spread**2
    rng = np.random.default_rng(seed)
    drawn = body_posterior.sample_bodies(
        information, score, found.everyday, found.known, count, rng
    )
    return PosteriorDraws(drawn, found.estimate.normal.others.draw(drawn, spread, rng))


def summarize(
    plant: Plant, recorded: RecordedArm, found: RigidBodyEstimate, theta: Array
) -> dict[str, Any]:
    """Return each parameter with its sd, from draws (n, P), the bodies, and how it went."""
    mode, dry = found.estimate.parameters[None], found.estimate.others[None, :, 0]
    best = composite_bodies.parameter_values(found.named, found.known, mode, dry)[0]
    sd, scales = theta.std(axis=0), plant.scales
    shares = sd / np.hypot(sd, scales)  # as if its scale had been known before
    rows = {
        unknown.name: {
            'value': float(value),
            'sd': float(error),
            'unit': unknown.unit,
            'knowledge': knowledge_level(share),
        }
        for unknown, value, error, share in zip(plant.unknowns, best, sd, shares, strict=True)
    }
    names = scene.names(recorded.model, 'joint')
    left = np.sqrt(np.mean(found.estimate.left**2, axis=0))
    counts = [len(motion.known.recording.torque) for motion in recorded.motions]
    factors = np.sqrt(np.average(found.factors**2, axis=0, weights=counts))
    summary = {
        'parameters': rows,
        'bodies': {
            name: body._asdict()
            for name, body in composite_bodies.body_inertials(
                found.named, found.known, found.estimate.parameters
            )
        },
        'friction': dict(zip(names, found.estimate.parameters[10::11].tolist(), strict=True)),
        'dry_friction': dict(zip(names, found.estimate.others[:, 0].tolist(), strict=True)),
        'recordings': {
            motion.name: {
                'samples': count,
                'held_out': len(motion.later.recording.torque) if motion.later else 0,
                'window_s': motion.known.window_s,
                'torque_lag_s': lag,
                'left_in_noise': float(np.sqrt(np.mean(own**2))),
                'offset': dict(zip(names, offset.tolist(), strict=True)),
            }
            for motion, count, lag, own, offset in zip(
                recorded.motions,
                counts,
                found.lags_s,
                found.factors,
                found.estimate.others[:, 1:].T,
                strict=True,
            )
        },
        'turns': found.estimate.turns,
        'torque_left': dict(zip(names, left.tolist(), strict=True)),
        'left_in_noise': dict(zip(names, factors.tolist(), strict=True)),
    }
    return summary | {'notes': found.note} if found.note else summary


def check(plant: Plant, summary: dict[str, Any], theta: Array) -> None:
    """Raise IdentificationError if nothing shows, or what does is beyond its bounds."""
    rows = summary['parameters']
    unseen = [name for name, row in rows.items() if row['knowledge'] == 'unexcited']
    if len(unseen) == len(rows):
        raise IdentificationError(
            f'unexciting: this motion does not show {", ".join(unseen)}: {_ADVICE}'
        )
    for unknown, column in zip(plant.unknowns, theta.T, strict=True):
        value, sd = rows[unknown.name]['value'], rows[unknown.name]['sd']
        if unknown.name not in unseen and not np.any(
            (column > unknown.lower) & (column < unknown.upper)
        ):
            raise IdentificationError(
                f'{unknown.name}: found {value:.4g} (sd {sd:.2g}) {unknown.unit}, which is not '
                f'within {unknown.lower:g} and {unknown.upper:g}: check what the scene says of '
                'the bodies that it is welded to, and its bounds'
            )


def within_bounds(plant: Plant, kept: list[int], theta: Array) -> Array:
    """Return the draws (m, K) of parameters that are kept, within their bounds."""
    low, high = (bound[kept] for bound in plant.bounds)
    inside = theta[:, kept][np.all((theta[:, kept] > low) & (theta[:, kept] < high), axis=1)]
    return prior_output.first_samples(inside)


class TorqueForecast(NamedTuple):
    """What of T samples was measured, and what is forecast."""

    later: DifferentiatedMotion  # what was held out
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


def forecast(
    recorded: RecordedArm, found: RigidBodyEstimate, drawn: PosteriorDraws
) -> list[TorqueForecast]:
    """Return what is forecast of each recording, along the motion as it was measured."""
    return [
        _forecast_recording(recorded.model, motion.later, found, drawn, index)
        for index, motion in enumerate(recorded.motions)
        if motion.later is not None
    ]


def _forecast_recording(
    model: mujoco.MjModel,
    later: DifferentiatedMotion,
    found: RigidBodyEstimate,
    drawn: PosteriorDraws,
    index: int,
) -> TorqueForecast:
    states, torque = later.recording
    parameters, others = found.estimate.parameters, found.estimate.others
    rows = regressor(model, *states)
    bodies = (np.vstack([parameters, drawn.bodies]) @ rows.T).reshape(-1, *torque.shape)
    numbers = np.concatenate([others[None], drawn.others])[:, None]
    torques = bodies + later.signs * numbers[..., 0] + numbers[..., 1 + index]
    slopes = arm.torque_jacobian(arm.with_parameters(model, parameters), states)
    noise = slopes * later.noise.states.ravel() ** 2 @ np.swapaxes(slopes, 1, 2)
    return TorqueForecast(later, torques[0], noise + np.diag(later.noise.torque**2), torques[1:])


def summarize_forecasts(
    recorded: RecordedArm, forecasts: Sequence[TorqueForecast]
) -> dict[str, dict[str, float]]:
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


def futures(
    recorded: RecordedArm, forecasts: Sequence[TorqueForecast], seed: int
) -> list[HeldOutForecast]:
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
