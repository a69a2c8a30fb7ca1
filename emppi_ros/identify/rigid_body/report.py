"""What was found of an arm's bodies, in words and as a prior's file; and whether it fits."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common import prior_output
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.prior_output import knowledge_level
from emppi_ros.identify.rigid_body import named, posterior
from emppi_ros.identify.rigid_body.fitting import Found
from emppi_ros.identify.rigid_body.recorded import Arm
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_ADVICE = (
    'record a motion that moves every joint at once, over much of its range, with accelerations '
    'of both signs (`emppi excite` makes such motions)'
)


class Drawn(NamedTuple):
    """What may as well be true."""

    bodies: Array  # (N, 11 B)
    others: Array  # (N, nv, e) what else torques have

    def values(self, found: Found) -> Array:
        """Return the parameters (N, P)."""
        return named.values(found.named, found.known, self.bodies, self.others[:, :, 0])


def draw(found: Found, spread: float, count: int, seed: int) -> Drawn:
    """Return bodies that can be, as likely as they are."""
    information = found.estimate.normal.information / spread**2
    score = found.estimate.normal.score / spread**2
    rng = np.random.default_rng(seed)
    drawn = posterior.draw(information, score, found.everyday, found.known, count, rng)
    return Drawn(drawn, found.estimate.normal.others.draw(drawn, spread, rng))


def summarize(plant: Plant, recorded: Arm, found: Found, theta: Array) -> dict[str, Any]:
    """Return each parameter with its sd, from draws (n, P), the bodies, and how it went."""
    mode, dry = found.estimate.parameters[None], found.estimate.others[None, :, 0]
    best = named.values(found.named, found.known, mode, dry)[0]
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
            for name, body in named.bodies(found.named, found.known, found.estimate.parameters)
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


def within(plant: Plant, kept: list[int], theta: Array) -> Array:
    """Return the draws (m, K) of parameters that are kept, within their bounds."""
    low, high = (bound[kept] for bound in plant.bounds)
    inside = theta[:, kept][np.all((theta[:, kept] > low) & (theta[:, kept] < high), axis=1)]
    return prior_output.first_samples(inside)
