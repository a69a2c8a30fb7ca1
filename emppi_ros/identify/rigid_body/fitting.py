"""Bodies that explain recordings of an arm."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import named_errors
from emppi_ros.identify.rigid_body import checks, estimate, named
from emppi_ros.identify.rigid_body.bodies import Everyday, Known
from emppi_ros.identify.rigid_body.derivatives import Derived
from emppi_ros.identify.rigid_body.estimate import Estimate
from emppi_ros.identify.rigid_body.lag import lag
from emppi_ros.identify.rigid_body.named import Named
from emppi_ros.identify.rigid_body.recorded import Arm
from emppi_ros.identify.rigid_body.samples import join

Array = npt.NDArray[np.float64]
_WELL = (
    'that torques are those at the links, with gravity in them, their signs and clock, that '
    'nothing was touched, and what is welded to the links'
)
_ALIKE = 'that the same was held as in the other recordings, each of which is explained alone'


class Found(NamedTuple):
    """Bodies, and what is known of them."""

    named: Named
    known: Known
    estimate: Estimate  # of all recordings, one after the other
    factors: Array  # (R, nv) by which torques of each are off more than by their noise
    lags_s: tuple[float, ...]  # of each, of torques behind the motion
    everyday: Everyday
    note: str  # where recordings do not agree


def find(plant: Plant, recorded: Arm, links: bool) -> Found:
    """
    Return the bodies that explain all recordings; IdentificationError if none do.

    Each must be explained alone first, so that an error has its name.
    """
    of = named.find(plant.parameters, recorded.model, recorded.parts, links)
    known, everyday = named.known(recorded.model, of), Everyday()
    model, motions, parts = recorded.model, recorded.motions, [m.known for m in recorded.motions]
    alone, lags = [], []
    for motion in motions:
        with named_errors(motion.name):
            checks.units(model, motion.known.recording)
            one = _fit(model, [motion.known], everyday, known)
            checks.possible(of, known, one)
            lags.append(_lag(model, motion.known, known, one))
            checks.left(model, motion.known.recording.torque, one.left, one.covariance, _WELL)
            alone.append(one)
    first, note = alone[0], ''
    if len(motions) > 1:
        first = _fit(model, parts, everyday, known)
        note = checks.disagreement(alone, first, np.count_nonzero(known.free) + model.nv)
        if not note:
            checks.possible(of, known, first)
    factors = []
    for motion, (left, covariance) in zip(motions, _split(first, parts), strict=True):
        with named_errors(motion.name):
            checks.left(model, motion.known.recording.torque, left, covariance, _ALIKE)
        square, variance = checks.squares(left, covariance)
        factors.append(np.sqrt(np.maximum(square / variance, 1.0)))
    more = [
        part._replace(noise=part.noise._replace(torque=part.noise.torque * factor))
        for part, factor in zip(parts, factors, strict=True)
    ]
    last = _fit(model, more, everyday, known)
    return Found(of, known, last, np.array(factors), tuple(lags), everyday, note)


def _split(found: Estimate, parts: Sequence[Derived]) -> list[tuple[Array, Array]]:
    """Return what is left of the torques of each recording, and its covariances."""
    ends = np.cumsum([len(part.recording.torque) for part in parts])[:-1]
    return list(zip(np.split(found.left, ends), np.split(found.covariance, ends), strict=True))


def _fit(
    model: mujoco.MjModel, parts: Sequence[Derived], everyday: Everyday, known: Known
) -> Estimate:
    motion, noise, extra = join(parts)
    return estimate.fit(model, motion, noise, everyday, known, extra)


def _lag(model: mujoco.MjModel, part: Derived, known: Known, found: Estimate) -> float:
    """Return by how much torques are late, in s; IdentificationError if that is too much."""
    motion, _, extra = join([part])
    late, share = lag(model, motion.states, extra, known.free, found, part.step_s)
    checks.late(late, share)
    return late
