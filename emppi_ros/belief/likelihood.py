"""
How likely a measurement is under each model: a Gaussian with diagonal variance (eq. 10).

Each model predicts from the measured previous state, under the command that was really
applied, to the time of the new measurement. What is compared, and how closely it can be
expected to fit, is the task's `likelihood` in units of each quantity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.config import positive
from emppi_ros.core.errors import ConfigError
from emppi_ros.model.ensemble import State

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LikelihoodConfig:
    """Standard deviation of prediction minus measurement; null leaves a quantity out."""

    joint_position_sd: float | None = positive(None, doc='rad or m')
    joint_velocity_sd: float | None = positive(None, doc='rad/s or m/s')
    object_position_sd_m: float | None = positive(None, doc='m, per axis')
    object_rotation_sd_rad: float | None = positive(None, doc='rad, per axis')
    dof: float | None = positive(
        None, doc="degrees of freedom of Student's t in place of a Gaussian: outliers count less"
    )

    def __post_init__(self) -> None:
        """Something must be compared."""
        sds = [name for name in self.__dataclass_fields__ if name != 'dof']
        if all(getattr(self, name) is None for name in sds):
            raise ConfigError(f'all of {", ".join(sds)} are null: nothing to learn from')

    def log_density(self, deviations: Array) -> Array:
        """Return the log density of deviations in units of their sd, up to a constant."""
        if self.dof is None:
            return -0.5 * deviations**2
        return -0.5 * (self.dof + 1.0) * np.log1p(deviations**2 / self.dof)


def residuals(model: mujoco.MjModel, predicted: State, measured: State) -> Array:
    """
    Return (M, nv) differences prediction minus measurement in the tangent space.

    For a free joint that is position [m] and rotation vector [rad].
    """
    out = np.empty_like(predicted.qvel)
    for qpos, difference in zip(predicted.qpos, out, strict=True):
        mujoco.mj_differentiatePos(model, difference, 1.0, measured.qpos, qpos)
    return out


class PoseError(NamedTuple):
    """Predicted less measured pose of a body that hangs on a joint with one degree of freedom."""

    dof: int
    position: Array  # (M, 3) m
    rotation: Array  # (M, 3) rad


class Deviation(NamedTuple):
    """Predicted less measured values of one kind, in units of their standard deviation."""

    quantity: str
    dofs: npt.NDArray[np.intp] | int  # one per value, or one for all
    values: Array  # (M, n)


def deviations(
    config: LikelihoodConfig,
    model: mujoco.MjModel,
    predicted: State,
    measured: State,
    jointed: Sequence[PoseError] = (),
) -> list[Deviation]:
    """
    Return all that is compared; what is not finite in it is of models that diverged.

    Of bodies in `jointed` the pose is compared, not the joint, which nobody measures.
    """
    position = residuals(model, predicted, measured)  # (M, nv)
    velocity = predicted.qvel - measured.qvel
    free = _free_dofs(model)
    free[[one.dof for one in jointed]] = -1
    found = []
    for quantity, kind, values, sd in (
        ('joint_position', 0, position, config.joint_position_sd),
        ('joint_velocity', 0, velocity, config.joint_velocity_sd),
        ('object_position', 1, position, config.object_position_sd_m),
        ('object_rotation', 2, position, config.object_rotation_sd_rad),
    ):
        dofs = np.flatnonzero(free == kind)
        if sd is not None and len(dofs):
            found.append(Deviation(quantity, dofs, values[:, dofs] / sd))
    for one in jointed:
        for quantity, values, sd in (
            ('object_position', one.position, config.object_position_sd_m),
            ('object_rotation', one.rotation, config.object_rotation_sd_rad),
        ):
            if sd is not None:
                found.append(Deviation(quantity, one.dof, values / sd))
    return found


def log_likelihoods(
    config: LikelihoodConfig, predicted: State, found: Sequence[Deviation]
) -> Array:
    """
    Return what each degree of freedom adds to log p(measured | theta_m), (M, nv).

    All are up to a common constant, and -inf for a model whose prediction is not finite.
    """
    total = np.zeros_like(predicted.qvel)
    for one in found:
        density = config.log_density(one.values)
        total[:, one.dofs] += density.sum(axis=1) if isinstance(one.dofs, int) else density
    finite = np.isfinite(predicted.qpos).all(axis=1) & np.isfinite(predicted.qvel).all(axis=1)
    finite &= np.isfinite(total).all(axis=1)
    return np.where(finite[:, None], total, -np.inf)


def _free_dofs(model: mujoco.MjModel) -> npt.NDArray[np.int64]:
    """Return for each degree of freedom: 0 scalar joint, 1 object position, 2 object rotation."""
    kinds = np.zeros(model.nv, dtype=np.int64)
    for joint in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE.value):
        start = model.jnt_dofadr[joint]
        kinds[start : start + 6] = [1, 1, 1, 2, 2, 2]
    return kinds
