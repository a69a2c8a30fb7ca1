"""Whether bodies that can be explain a recording; errors say what may be wrong with it."""

from collections.abc import Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body import arm
from emppi_ros.identify.rigid_body.bodies import Known
from emppi_ros.identify.rigid_body.consistency import COUNT
from emppi_ros.identify.rigid_body.estimate import Estimate
from emppi_ros.identify.rigid_body.named import Named
from emppi_ros.identify.rigid_body.recording import Recording
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]
_UNEXPLAINED = 0.2  # of what a torque varies by
_ERRORS = 4.0  # standard errors of a mean square: more is no accident
_LIKE, _TIMES = 0.8, 5.0  # torques that are alike, but for a factor as large
_LATE_S, _MOSTLY = 0.01, 0.5  # as of velocities; else it is something else that torques lack
_RANK = 1e-8  # of the largest: what no motion shows
_FAR = 10.0  # standard deviations from any body that can be, or from what others say


def units(model: mujoco.MjModel, recording: Recording) -> None:
    """Raise if torques are those of the scene times a large or a negative number."""
    states, torque = recording
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


def late(lag_s: float, share: float) -> None:
    """Raise if a lag of torques explains most of what is left of them."""
    if abs(lag_s) > _LATE_S and share > _MOSTLY:
        raise IdentificationError(
            f'unsynchronised: torques come {lag_s:.3g} s behind the motion that they make: record '
            f'both on one clock, and without filters that lag, or give --lag {-lag_s:.2g}'
        )


def left(model: mujoco.MjModel, torque: Array, found: Array, covariance: Array, why: str) -> None:
    """Raise if bodies leave more (n, nv) of a joint's torque than noise (n, nv, nv) does."""
    square, variance = squares(found, covariance)
    slack = 1.0 + _ERRORS * np.sqrt(2.0 / len(torque))
    for j, name in enumerate(scene.names(model, 'joint')):
        lacking = np.sqrt(max(square[j] - slack * variance[j], 0.0))
        if lacking > _UNEXPLAINED * torque[:, j].std():
            raise IdentificationError(
                f'joint {name!r}: the model does not match: bodies that can be leave '
                f'{lacking:.3g} N m (or N) of torques that vary by {torque[:, j].std():.3g} '
                f'(rms): check {why}'
            )


def squares(found: Array, covariance: Array) -> tuple[Array, Array]:
    """Return each joint's (nv,) mean square of what is left, and of noise."""
    variance = np.diagonal(covariance, axis1=1, axis2=2).mean(axis=0)
    return np.mean(found**2, axis=0), variance


def disagreement(alone: Sequence[Estimate], together: Estimate, numbers: int) -> str:
    """
    Return in words that recordings do not agree, if they do not.

    Each was explained alone, by `numbers` that are now the same for all: if they agree, squares
    rise by no more than so many for each but one, give or take.
    """
    before, after = sum(_chi_squared(one) for one in alone), _chi_squared(together)
    size = together.left.size
    gain = after - before - (len(alone) - 1) * numbers
    if gain < max(_FAR**2, 0.5 * (after - size)):
        return ''
    return (
        f'recordings do not agree: together they leave {np.sqrt(after / size):.3g} times what '
        f'noise does, and each alone {np.sqrt(before / size):.3g} times: was the same held in '
        'all of them, and did the arm warm up in between?'
    )


def _chi_squared(found: Estimate) -> float:
    """Return the squares of what is left, in units of its noise."""
    white = np.linalg.solve(found.covariance, found.left[:, :, None])
    return float(np.sum(found.left[:, :, None] * white))


def possible(of: Named, known: Known, found: Estimate) -> None:
    """Raise if it is the bodies' being possible that keeps torques from being explained."""
    free, block = known.free, np.ix_(known.free, known.free)
    matrix = found.normal.information[block]
    unit = 1.0 / np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    pull = (found.normal.score - found.normal.information @ found.parameters)[free]
    move = unit * np.linalg.lstsq(matrix * np.outer(unit, unit), unit * pull, rcond=_RANK)[0]
    gain = float(pull @ move)  # by which squares fall where anything is allowed
    before = _chi_squared(found)
    if gain < max(_FAR**2, 0.5 * (before - found.left.size)):
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
        f'{100.0 * gain / before:.0f} % of what is left: check {_of(of)} in the scene, and '
        'units, signs and clocks of the recording'
    )


def _of(of: Named) -> str:
    parts = [part.name for others in of.others.values() for part in others]
    return ', '.join(parts) or 'the links'
