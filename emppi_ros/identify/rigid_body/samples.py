"""Samples of recordings: the end of each held out, and what is left joined."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.noise import MIN_NOISE_SAMPLES
from emppi_ros.identify.common.signals import MIN_SAMPLES
from emppi_ros.identify.rigid_body.derivatives import Derived, choose, derive
from emppi_ros.identify.rigid_body.recording import Noise, Recording

Array = npt.NDArray[np.float64]


class Samples(NamedTuple):
    """What was measured at even times, and the noise that sensors show on clocks of their own."""

    position: Array  # (n, nv)
    torque: Array  # (n, nv)
    white: tuple[Array, Array]  # (nv,) and (nv,), standard deviations: to interpolate hides some


def split(
    sample: Callable[[slice], Samples], count: int, step: float, held_out: float
) -> tuple[Derived, Derived | None]:
    """
    Return what is learned from of `count` samples, and what is held out, their end.

    Neither knows of the other, but for the window. IdentificationError if one is too short.
    """
    end = count - int(held_out * count)
    if end < MIN_SAMPLES:
        raise IdentificationError(
            f'{end} samples are not held out, expected {MIN_SAMPLES}: hold out less, or record '
            'longer'
        )
    known = sample(slice(end))
    half = choose(known.position, known.white[0], step)

    def derived(part: Samples) -> Derived:
        return derive(part.position, part.torque, step, half, part.white)

    if end == count:
        return derived(known), None
    fewest = max(2 * half + 1, MIN_NOISE_SAMPLES)
    if count - end < fewest:
        raise IdentificationError(
            f'{(count - end) * step:.3g} s are held out, less than the window of '
            f'{fewest * step:.3g} s that accelerations need: hold out more, or nothing'
        )
    return derived(known), derived(sample(slice(end, None)))


def join(parts: Sequence[Derived]) -> tuple[Recording, Noise, Array]:
    """
    Return the samples of R recordings, each with its own noise, and what else torques have.

    That are (n, nv, 1 + R) signs of dry friction, which is the same in all, and an offset each.
    """
    counts = [len(part.recording.torque) for part in parts]
    noises = [part.noise.of_each(count) for part, count in zip(parts, counts, strict=True)]
    signs = np.concatenate([part.signs for part in parts])
    own = np.repeat(np.eye(len(parts)), counts, axis=0)
    offsets = np.broadcast_to(own[:, None], (*signs.shape, len(parts)))
    return (
        Recording(*_joined([part.recording for part in parts])),
        Noise(*_joined(noises)),
        np.concatenate([signs[:, :, None], offsets], axis=2),
    )


def _joined(pairs: Sequence[Recording] | Sequence[Noise]) -> tuple[Array, Array]:
    states, torques = zip(*pairs, strict=True)
    return np.concatenate(states, axis=1), np.concatenate(torques)
