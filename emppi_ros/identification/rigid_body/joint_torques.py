"""
What the torque of a joint has besides bodies, viscous friction and rotor: dry friction and offset.

Dry friction is s(v) (c + d exp(-(v / u)^2)), for the sign s of the velocity v: Coulomb friction c
and Stribeck friction d (Armstrong-Helouvry, Dupont and Canudas de Wit 1994), which is negative in
harmonic drives. For the Stribeck velocity u, values are tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.config import key
from emppi_ros.identification import methods
from emppi_ros.identification.rigid_body.motion_samples import DifferentiatedMotion
from emppi_ros.identification.rigid_body.torque_fit import TorqueFit, linear_columns
from emppi_ros.recordings.noise import correlation_time

DRY, STRIBECK, OFFSETS = 0, 1, 2  # columns of shapes and coefficients; one offset per recording
_SPEEDS = (0.02, 0.04, 0.08, 0.15, 0.3)  # Stribeck velocities, relative to the largest speed
_MIN_GAIN = 10.0  # of chi-squared per new parameter, in units of the residual
_RANK = 1e-8  # relative to the largest: smaller ones are unexcited


@dataclass(frozen=True)
class RigidBodyOptions:
    """Options of the method `rigid-body`."""

    links: Literal['known', 'unknown'] = key(
        'known', doc='whether bodies without a parameter are as in the scene, or unknown as well'
    )
    friction: Literal['stribeck', 'coulomb', 'viscous', 'none'] = key(
        'stribeck',
        doc='unknown friction of each joint: Stribeck friction (where the data show it) with all '
        'of coulomb, dry friction with viscous, viscous friction, or none',
    )
    armature: Literal['unknown', 'known'] = key(
        'unknown',
        doc='whether the inertia of rotors is unknown; known: efforts do not contain its torque, '
        "and commands that of the scene's",
    )
    offset: Literal['unknown', 'none'] = key(
        'unknown', doc='whether the torque of each joint has an unknown offset in each recording'
    )
    spread: float = methods.spread()

    @property
    def dry(self) -> bool:
        """Whether dry friction is unknown."""
        return self.friction in ('stribeck', 'coulomb')


def shapes(
    parts: Sequence[DifferentiatedMotion], options: RigidBodyOptions, stribeck: Array
) -> Array:
    """Return shapes (n, nv, 2 + R) of non-inertial torques; `stribeck` (nv,) may have zeros."""
    count = len(parts)
    rows = [shapes_of(part, options, stribeck, i, count) for i, part in enumerate(parts)]
    return np.concatenate(rows)


def shapes_of(
    part: DifferentiatedMotion, options: RigidBodyOptions, stribeck: Array, index: int, count: int
) -> Array:
    """Return the shapes (n, nv, 2 + count) of a part of the recording at an index."""
    shapes = np.zeros((*part.signs.shape, 2 + count))
    shapes[:, :, DRY] = part.signs * options.dry
    near_rest = np.exp(-((part.samples.states[1] / np.where(stribeck, stribeck, 1.0)) ** 2))
    shapes[:, :, STRIBECK] = shapes[:, :, DRY] * near_rest * (stribeck > 0.0)
    shapes[:, :, OFFSETS + index] = options.offset == 'unknown'
    return shapes


def choose_stribeck(
    model: mujoco.MjModel,
    parts: Sequence[DifferentiatedMotion],
    options: RigidBodyOptions,
    free: Bools,
    fit: TorqueFit,
) -> Array:
    """
    Return the Stribeck velocity (nv,) of each joint, 0 where the residuals of a fit show none.

    A column of Stribeck friction is added to the linearized fit of one joint at a time. It is
    kept if chi-squared decreases by more than two parameters would by chance, counted in units of
    the residual and of its correlation time, so that other errors of the model do not pass for it.
    """
    nv = model.nv
    chosen = np.zeros(nv)
    if options.friction != 'stribeck':
        return chosen
    rows = linear_columns(model, fit.states, shapes(parts, options, chosen), free)
    weight = 1.0 / np.sqrt(np.diagonal(fit.covariance, axis1=1, axis2=2))
    rows *= weight.ravel()[:, None]
    rows /= np.maximum(np.linalg.norm(rows, axis=0), np.finfo(float).tiny)
    basis, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    basis = basis[:, sizes > _RANK * sizes[0]]
    white = weight * fit.residuals
    rest = white.ravel() - basis @ (basis.T @ white.ravel())
    by_joint = rest.reshape(-1, nv)
    fastest = np.max(np.abs(fit.states[1]), axis=0)
    for joint in range(nv):
        unit = float(np.mean(by_joint[:, joint] ** 2)) * correlation_time(by_joint[:, joint])
        best = 2.0 * _MIN_GAIN * unit
        for share in _SPEEDS:
            speed = np.zeros(nv)
            speed[joint] = share * fastest[joint]
            column = np.zeros_like(white)
            column[:, joint] = shapes(parts, options, speed)[:, joint, STRIBECK]
            new = (weight * column).ravel()
            new -= basis @ (basis.T @ new)
            gain = float(new @ rest) ** 2 / max(float(new @ new), np.finfo(float).tiny)
            if gain > best:
                best, chosen[joint] = gain, speed[joint]
    return chosen
