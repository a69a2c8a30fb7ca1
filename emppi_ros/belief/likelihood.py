"""
Likelihood of a measurement under each model: Gaussian with diagonal variance (eq. 10).

Each model predicts from the previous measured state, under the applied command, to the time of
the new measurement. `belief: likelihood` of the task selects the quantities to compare and their
standard deviations.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model.ensemble import State
from emppi_ros.tasks.belief_config import LikelihoodConfig

Array = npt.NDArray[np.float64]


def residuals(model: mujoco.MjModel, predicted: State, measured: State) -> Array:
    """
    Return prediction minus measurement (M, nv) in the tangent space of qpos.

    For a free joint these are position [m] and rotation vector [rad].
    """
    out = np.empty_like(predicted.qvel)
    for qpos, difference in zip(predicted.qpos, out, strict=True):
        mujoco.mj_differentiatePos(model, difference, 1.0, measured.qpos, qpos)
    return out


class PoseResidual(NamedTuple):
    """Predicted minus measured pose of a body on a joint with one degree of freedom."""

    dof: int
    position: Array  # (M, 3) m
    rotation: Array  # (M, 3) rad


class Deviation(NamedTuple):
    """Predicted minus measured values of one quantity, in units of their standard deviation."""

    quantity: str
    dofs: npt.NDArray[np.intp] | int  # index of each value, or one for all
    values: Array  # (M, n)


def deviations(
    config: LikelihoodConfig,
    model: mujoco.MjModel,
    predicted: State,
    measured: State,
    jointed: Sequence[PoseResidual] = (),
) -> list[Deviation]:
    """
    Return the deviation of each quantity; values of diverged models are not finite.

    For bodies in `jointed` the pose is compared instead of the joint, which is not measured.
    """
    position = residuals(model, predicted, measured)  # (M, nv)
    velocity = predicted.qvel - measured.qvel
    free = _free_dofs(model)
    free[[one.dof for one in jointed]] = -1
    result = []
    for quantity, kind, values, sd in (
        ('joint_position', 0, position, config.joint_position_sd),
        ('joint_velocity', 0, velocity, config.joint_velocity_sd),
        ('object_position', 1, position, config.object_position_sd_m),
        ('object_rotation', 2, position, config.object_rotation_sd_rad),
    ):
        dofs = np.flatnonzero(free == kind)
        if sd is not None and len(dofs):
            result.append(Deviation(quantity, dofs, values[:, dofs] / sd))
    for one in jointed:
        for quantity, values, sd in (
            ('object_position', one.position, config.object_position_sd_m),
            ('object_rotation', one.rotation, config.object_rotation_sd_rad),
        ):
            if sd is not None:
                result.append(Deviation(quantity, one.dof, values / sd))
    return result


def dofs_of(deviations: Sequence[Deviation]) -> npt.NDArray[np.intp]:
    """Return the degree of freedom of each of N values (N,), in the order of `deviations`."""
    parts = [np.broadcast_to(one.dofs, one.values.shape[1]) for one in deviations]
    return np.concatenate(parts)


def log_likelihoods(
    config: LikelihoodConfig,
    predicted: State,
    deviations: Sequence[Deviation],
    variance: Array | None = None,
) -> Array:
    """
    Return the contribution of each degree of freedom to log p(measured | theta_m), (M, nv).

    It is up to a constant, and -inf for models whose prediction is not finite. `variance`
    (N,) is the learned one of all values, in the order of `deviations` and in units of the
    configured one; without it, the scale is 1.
    """
    total = np.zeros_like(predicted.qvel)
    start = 0
    for one in deviations:
        values, end = one.values, start + one.values.shape[1]
        if variance is None:
            density = log_density(config, values)
        else:
            scale = np.sqrt(variance[start:end])
            density = _t_density(values / scale, config.learned_dof)
        start = end
        total[:, one.dofs] += density.sum(axis=1) if isinstance(one.dofs, int) else density
    rows = np.hstack([predicted.qpos, predicted.qvel, total])
    finite = np.all(np.isfinite(rows), axis=1)
    return np.where(finite[:, None], total, -np.inf)


def _t_density(values: Array, dof: float) -> Array:
    """Return the log density of Student's t at normalized values, up to a constant."""
    return -0.5 * (dof + 1.0) * np.log1p(values**2 / dof)


def _free_dofs(model: mujoco.MjModel) -> npt.NDArray[np.int64]:
    """Return the kind of each degree of freedom: 0 joint, 1 object position, 2 rotation."""
    kinds = np.zeros(model.nv, dtype=np.int64)
    for joint in np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE.value):
        start = model.jnt_dofadr[joint]
        kinds[start : start + 6] = [1, 1, 1, 2, 2, 2]
    return kinds


def log_density(config: LikelihoodConfig, deviations: Array) -> Array:
    """Return the log density of deviations in units of their sd, up to a constant."""
    if config.dof is None:
        return -0.5 * deviations**2
    return _t_density(deviations, config.dof)
