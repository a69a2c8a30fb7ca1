"""
Residuals of discrete inverse dynamics and of observations, and their derivatives.

A state is a configuration. Velocities are differences of successive ones, as MuJoCo's
semi-implicit steps have it: v[k] leads from q[k] to q[k+1]. So the velocities need no residual of
their own; the residual of the dynamics is the impulse that each step lacks (eq. 3.6).
"""

from collections.abc import Iterator
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states.stribeck import StribeckFriction, stribeck_friction
from emppi_ros.model import scene
from emppi_ros.recordings.motion import Motion, delay_rows, difference, difference_jacobians

_NEAR = 0.005  # of the range of a joint: closer to its end it may touch the end stop
_STEP = 1e-6  # rad, rad/s, ... for derivatives: the default of MuJoCo


class Residuals(NamedTuple):
    """The weighted residuals."""

    observed: Array  # (N, nv)
    impulses: Array  # (N - 2, nv)

    @property
    def cost(self) -> float:
        """The sum of squares."""
        return float(np.sum(self.observed**2) + np.sum(self.impulses**2))


class Jacobian(NamedTuple):
    """The non-zero blocks of the derivatives of the residuals."""

    observed: Array  # (N, nv, nv), by the same configuration
    impulses: tuple[Array, Array, Array]  # (N - 2, nv, nv) by q[k], q[k+1], q[k+2]
    unknowns: Array  # (N - 2, nv, P), of impulses: observations do not depend on them


def evaluate(plant: Plant, motion: Motion, weight: float, theta: Array, qpos: Array) -> Residuals:
    """Return the residuals of a trajectory (N, nq); `weight` is that of squared impulses."""
    deviation = difference(plant.model, motion.qpos, qpos)
    forces = forces_known(plant.model, motion) * _forces(plant, motion, theta, qpos)
    impulses = np.sqrt(weight) * plant.model.opt.timestep * forces
    return Residuals(np.sqrt(motion.weights) * deviation, impulses)


def linearize(
    plant: Plant, motion: Motion, weight: float, theta: Array, qpos: Array, modelled: bool = False
) -> Jacobian:
    """
    Return the derivatives of the residuals; the arguments are those of `evaluate`.

    Those by the unknowns are at the accelerations of the trajectory, or with `modelled` at those
    that the model has, which leave no residual: a common factor of all forces, which scales the
    residual, then has no derivative, and no information.
    """
    h, nv = plant.model.opt.timestep, plant.model.nv
    derivatives = np.zeros((3, motion.steps - 2, nv, nv))
    for k, (model, data, stribeck) in enumerate(_place(plant, motion, theta, qpos)):
        more = None if stribeck is None else stribeck.by_velocity(model, data)
        mujoco.mjd_inverseFD(model, data, _STEP, True, *derivatives[:, k], *[None] * 4)
        derivatives[1, k] += 0.0 if more is None else more
    by_q, by_v, by_a = derivatives.transpose(0, 1, 3, 2)  # MuJoCo's are transposed
    by_start, by_end = difference_jacobians(plant.model, qpos[:-1], qpos[1:])
    before, after = slice(None, -1), slice(1, None)  # steps into q[k+1], and out of it
    blocks = (
        by_v @ by_start[before] / h - by_a @ by_start[before] / h**2,
        by_q + by_v @ by_end[before] / h + by_a @ (by_start[after] - by_end[before]) / h**2,
        by_a @ by_end[after] / h**2,
    )
    size = np.sqrt(weight) * h * forces_known(plant.model, motion)[:, :, None]
    observed = difference_jacobians(plant.model, motion.qpos, qpos)[1]
    return Jacobian(
        np.sqrt(motion.weights)[:, :, None] * observed,
        (size * blocks[0], size * blocks[1], size * blocks[2]),
        size * _by_unknowns(plant, motion, theta, qpos, by_a if modelled else None),
    )


def forces_known(model: mujoco.MjModel, motion: Motion) -> Bools:
    """
    Return at which steps the model has all forces on each degree of freedom (N - 2, nv).

    It does not at an end stop, whose stiffness is uncertain and whose impacts the time steps do
    not resolve, nor between two recordings. Observations count there, impulses do not.
    """
    result = np.ones((motion.steps - 2, model.nv), dtype=bool)
    for begin in motion.begins[1:]:
        result[begin - 2 : begin] = False
    for joint in np.flatnonzero(model.jnt_limited).tolist():
        if not scene.is_scalar(model, joint):
            continue
        low, high = model.jnt_range[joint]
        near = model.jnt_margin[joint] + _NEAR * (high - low)
        q = motion.qpos[:, model.jnt_qposadr[joint]]
        there = (q < low + near) | (q > high - near)
        tree = model.dof_treeid == model.dof_treeid[model.jnt_dofadr[joint]]
        result[np.ix_(there[:-2] | there[1:-1] | there[2:], tree)] = False
    return result


def commands(plant: Plant, motion: Motion, theta: Array) -> Array:
    """Return the controls (N, nu) that act on a plant with parameters (P,), after its delay."""
    if plant.delay is None:
        return motion.ctrl
    return delay_rows(motion.ctrl, motion.begins, plant.delay(theta) / plant.model.opt.timestep)


def rates(model: mujoco.MjModel, qpos: Array) -> tuple[Array, Array]:
    """Return velocities (N - 1, nv) and accelerations (N - 2, nv) of configurations (N, nq)."""
    v = difference(model, qpos[:-1], qpos[1:]) / model.opt.timestep
    return v, (v[1:] - v[:-1]) / model.opt.timestep


def _forces(
    plant: Plant, motion: Motion, theta: Array, qpos: Array, change: Array | float = 0.0
) -> Array:
    """
    Return the generalised forces (N - 2, nv) that the motion needs beyond the modelled ones.

    `change` (N - 2, nv) is added to its accelerations.
    """
    result = np.empty((motion.steps - 2, plant.model.nv))
    changes = np.broadcast_to(change, result.shape)
    steps = _place(plant, motion, theta, qpos)
    for row, (model, data, _), added in zip(result, steps, changes, strict=True):
        data.qacc[:] += added
        mujoco.mj_inverse(model, data)
        mujoco.mj_fwdActuation(model, data)
        row[:] = data.qfrc_inverse - data.qfrc_actuator
    return result - motion.applied[1:-1]


def _place(
    plant: Plant, motion: Motion, theta: Array, qpos: Array
) -> Iterator[tuple[mujoco.MjModel, mujoco.MjData, StribeckFriction | None]]:
    """Yield the model, without end stops, and its states at all steps but first and last."""
    model = plant.at(theta)
    model.jnt_limited[[scene.is_scalar(model, joint) for joint in range(model.njnt)]] = 0
    v, a = rates(model, qpos)
    data, ctrl = mujoco.MjData(model), commands(plant, motion, theta)
    stribeck = stribeck_friction(plant, model, theta)
    rows = zip(qpos[1:-1], v[:-1], a, ctrl[1:-1], strict=True)
    for data.qpos[:], data.qvel[:], data.qacc[:], data.ctrl[:] in rows:
        if stribeck is not None:
            stribeck.write(model, data.qvel)
        yield model, data, stribeck


def _by_unknowns(
    plant: Plant, motion: Motion, theta: Array, qpos: Array, inertia: Array | None
) -> Array:
    """Return the derivatives (N - 2, nv, P) of forces by the parameters; see `linearize`."""
    base = _forces(plant, motion, theta, qpos)
    added: Array | float = 0.0
    if inertia is not None:
        added = -np.asarray(np.linalg.solve(inertia, base[:, :, None]), np.float64)[:, :, 0]
        base = _forces(plant, motion, theta, qpos, added)
    columns = np.empty((*base.shape, len(theta)))
    for index in range(len(theta)):
        other, change = plant.perturbed(theta, index)
        columns[:, :, index] = (_forces(plant, motion, other, qpos, added) - base) / change
    return columns
