"""
Stribeck friction: dry friction that is larger at rest than in motion (eq. 4.1).

MuJoCo's dry friction is constant. It is set before each step, to that at the velocity with which
the step begins, so that MuJoCo still decides whether a joint sticks.
"""

from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.plant import Plant
from emppi_ros.model import scene
from emppi_ros.model.fields import STRIBECK

_STEP = 1e-6  # of the friction, for derivatives


class StribeckFriction(NamedTuple):
    """Dry friction moving + excess exp(-|v| / speed) of n joints."""

    dofs: npt.NDArray[np.intp]  # (n,)
    moving: Array  # (n,) N or N m
    excess: Array  # (n,) N or N m
    speed: Array  # (n,) m/s or rad/s

    def write(self, model: mujoco.MjModel, qvel: Array) -> None:
        """Set the friction at velocities (nv,)."""
        model.dof_frictionloss[self.dofs] = self.moving + self._decayed(qvel)

    def by_velocity(self, model: mujoco.MjModel, data: mujoco.MjData) -> Array:
        """Return what derivatives of inverse dynamics by velocities (nv, force nv) lack."""
        rows = np.zeros((model.nv, model.nv))
        mujoco.mj_inverse(model, data)
        base, friction = data.qfrc_inverse.copy(), model.dof_frictionloss[self.dofs]
        slopes = -self._decayed(data.qvel) * np.sign(data.qvel[self.dofs]) / self.speed
        for dof, value, slope in zip(self.dofs, friction, slopes, strict=True):
            if slope:
                model.dof_frictionloss[dof] = value * (1.0 + _STEP)
                mujoco.mj_inverse(model, data)
                rows[dof] = slope * (data.qfrc_inverse - base) / (value * _STEP)
                model.dof_frictionloss[dof] = value
        return rows

    def _decayed(self, qvel: Array) -> Array:
        return self.excess * np.exp(-np.abs(qvel[self.dofs]) / self.speed)


def stribeck_friction(
    plant: Plant, model: mujoco.MjModel, theta: Array
) -> StribeckFriction | None:
    """Return the friction of a plant, and of its model, with parameters (P,); None without any."""
    values = {(p.field, p.of): theta[i] for i, p in enumerate(plant.parameters)}
    joints = [p.of for p in plant.parameters if p.field == STRIBECK[0]]
    if not joints:
        return None
    dofs = np.array([model.jnt_dofadr[scene.find(model, 'joint', joint)] for joint in joints])
    excess, speed = (np.array([values[field, of] for of in joints]) for field in STRIBECK)
    return StribeckFriction(dofs, model.dof_frictionloss[dofs].copy(), excess, speed)
