"""Bodies that explain a recording; and whether any do."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.errors import IdentificationError
from emppi_ros.identify.consistency import COUNT
from emppi_ros.identify.rigid import arm, estimate, named
from emppi_ros.identify.rigid.bodies import Everyday, Known
from emppi_ros.identify.rigid.estimate import Estimate
from emppi_ros.identify.rigid.lag import lag
from emppi_ros.identify.rigid.named import Named
from emppi_ros.identify.rigid.recorded import Arm
from emppi_ros.identify.states.plant import Plant
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_UNEXPLAINED = 0.2  # of what a torque varies by
_ERRORS = 4.0  # standard errors of a mean square: more is no accident
_LIKE, _TIMES = 0.8, 5.0  # torques that are alike, but for a factor as large
_LATE_S, _MOSTLY = 0.01, 0.5  # as of velocities; else it is something else that torques lack
_RANK = 1e-8  # of the largest: what no motion shows
_FAR = 10.0  # standard deviations from any body that can be


class Found(NamedTuple):
    """Bodies, and what is known of them."""

    named: Named
    known: Known
    estimate: Estimate
    factors: Array  # (nv,) by which torques are off more than by their noise
    lag_s: float  # of torques behind the motion
    everyday: Everyday


def find(plant: Plant, recorded: Arm, links: bool) -> Found:
    """Return the bodies that explain a recording; IdentificationError if none do."""
    of = named.find(plant.parameters, recorded.model, recorded.parts, links)
    known, everyday = named.known(recorded.model, of), Everyday()
    _check_units(recorded)
    motion, noise, signs, _, step = recorded.derived
    extra = np.stack([signs, np.ones(signs.shape)], axis=2)
    first = estimate.fit(recorded.model, motion, noise, everyday, known, extra)
    variance = np.diagonal(first.covariance, axis1=1, axis2=2).mean(axis=0)
    square = np.mean(first.left**2, axis=0)
    _check_possible(of, known, first)
    late, share = lag(recorded.model, motion.states, extra, known.free, first, step)
    if abs(late) > _LATE_S and share > _MOSTLY:
        raise IdentificationError(
            f'unsynchronised: torques come {late:.3g} s behind the motion that they make: record '
            'both on one clock, and without filters that lag'
        )
    _check_left(recorded, square, variance)
    factors = np.sqrt(np.maximum(square / variance, 1.0))
    more = noise._replace(torque=noise.torque * factors)
    last = estimate.fit(recorded.model, motion, more, everyday, known, extra)
    return Found(of, known, last, factors, late, everyday)


def _check_units(recorded: Arm) -> None:
    """Raise if torques are those of the scene times a large or a negative number."""
    model, (states, torque) = recorded.model, recorded.derived.recording
    needed = arm.torques(model, states)
    for j, name in enumerate(scene.names(model, 'joint')):
        product = float(torque[:, j] @ needed[:, j])
        size = float(needed[:, j] @ needed[:, j])
        alike = product / np.sqrt(size * float(torque[:, j] @ torque[:, j]))
        ratio = product / size
        if abs(alike) > _LIKE and not 1.0 / _TIMES < ratio < _TIMES:
            raise IdentificationError(
                f'joint {name!r}: torques are {ratio:.3g} times what the model needs: check '
                + ('their sign' if ratio < 0.0 else 'units, or the gear')
            )


def _check_left(recorded: Arm, square: Array, variance: Array) -> None:
    """Raise if bodies leave more of a joint's torque than noise does."""
    torque = recorded.derived.recording.torque
    slack = 1.0 + _ERRORS * np.sqrt(2.0 / len(torque))
    for j, name in enumerate(scene.names(recorded.model, 'joint')):
        lacking = np.sqrt(max(square[j] - slack * variance[j], 0.0))
        if lacking > _UNEXPLAINED * torque[:, j].std():
            raise IdentificationError(
                f'joint {name!r}: the model does not match: bodies that can be leave '
                f'{lacking:.3g} N m (or N) of torques that vary by {torque[:, j].std():.3g} '
                '(rms): check that torques are those at the links, with gravity in them, their '
                'signs and clock, that nothing was touched, and what is welded to the links'
            )


def _check_possible(of: Named, known: Known, found: Estimate) -> None:
    """Raise if it is the bodies' being possible that keeps torques from being explained."""
    free, block = known.free, np.ix_(known.free, known.free)
    matrix = found.normal.information[block]
    unit = 1.0 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    pull = (found.normal.score - found.normal.information @ found.parameters)[free]
    move = unit * np.linalg.lstsq(matrix * np.outer(unit, unit), unit * pull, rcond=_RANK)[0]
    gain = float(pull @ move)  # by which squares fall where anything is allowed
    left = found.left[:, :, None]
    squares = float(np.sum(left * np.linalg.solve(found.covariance, left)))
    if gain < max(_FAR**2, 0.5 * (squares - left.size)):
        return
    best = found.parameters - known.fixed
    best[free] += move
    for whole, part in of.bodies.items():
        mass = best[whole * COUNT]
        others = of.others[whole]
        if mass < 0.0 and others:
            raise IdentificationError(
                f'body {part.name!r}: nothing is left for it: best were {mass:.3g} kg, with '
                f'{sum(p.own[0] for p in others):.4g} kg of what it is welded to, as the scene '
                f'has it: {", ".join(p.name for p in others)}: check these'
            )
    raise IdentificationError(
        'no bodies that can be explain these torques: bodies that cannot be explain '
        f'{100.0 * gain / squares:.0f} % of what is left: check {_of(of)} in the scene, and '
        'units, signs and clocks of the recording'
    )


def _of(of: Named) -> str:
    parts = [part.name for others in of.others.values() for part in others]
    return ', '.join(parts) or 'the links'
