"""
Inertial parameters of bodies, and the regressor: joint torques as a linear function of them.

A body has 12 parameters in its link's frame: mass m, h = m c (c the center of mass), the inertia I
about the frame's origin (xx, xy, xz, yy, yz, zz), viscous friction and rotor inertia (armature) of
its joint. The pseudo-inertia [[S, h], [h', m]], S = tr(I) / 2 - I, is positive definite exactly
for physically consistent ones (Wensing et al. 2018).

Newton-Euler equations in a link's frame (An, Atkeson and Hollerbach 1988): with linear
acceleration a of the origin (gravity subtracted), angular velocity w and angular acceleration dw,
the force is m a + dw x h + w x (w x h) and the moment is I dw + w x I w + h x a. MuJoCo computes
motion and Jacobians; the masses of its model have no effect.
"""

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array

BODY_PARAMETERS = 12  # parameters of a body
FRICTION, ARMATURE = 10, 11  # indices of those of its joint
_ROWS, _COLUMNS = np.triu_indices(3)  # of the six independent entries of the inertia
_CROSS = np.array([[[0, 0, 0], [0, 0, -1], [0, 1, 0]],
                   [[0, 0, 1], [0, 0, 0], [-1, 0, 0]],
                   [[0, -1, 0], [1, 0, 0], [0, 0, 0]]], dtype=np.float64)  # fmt: skip
_INERTIA_BASIS = np.zeros((6, 3, 3))  # of the entries xx, xy, xz, yy, yz, zz
_INERTIA_BASIS[range(6), _ROWS, _COLUMNS] = _INERTIA_BASIS[range(6), _COLUMNS, _ROWS] = 1.0


def pseudo_inertia(actual: Array) -> Array:
    """Return the pseudo-inertia (4, 4) of parameters (12,) or (10,) of a body."""
    inertia = np.empty((3, 3))
    inertia[_ROWS, _COLUMNS] = inertia[_COLUMNS, _ROWS] = actual[4:10]
    full = np.empty((4, 4))
    full[:3, :3] = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    full[:3, 3] = full[3, :3] = actual[1:4]
    full[3, 3] = actual[0]
    return full


def from_pseudo_inertia(full: Array) -> Array:
    """Return the inertial parameters (10,) of a pseudo-inertia (4, 4)."""
    inertia = np.trace(full[:3, :3]) * np.eye(3) - full[:3, :3]
    return np.concatenate([[full[3, 3]], full[:3, 3], inertia[_ROWS, _COLUMNS]])


def regressor(model: mujoco.MjModel, qpos: Array, qvel: Array, qacc: Array) -> Array:
    """
    Return the regressor (n nv, 12 B) of states (n, nv); each row is for the torque of a joint.

    The model is a fixed-base arm of hinges and slides with B bodies, each with at most one joint,
    as `arm.load` checks. Without a joint, the columns of friction and armature are zero.
    """
    rows = np.zeros((len(qpos), model.nv, model.nbody - 1, BODY_PARAMETERS))
    velocity, acceleration = np.empty((2, model.nbody, len(qpos), 6))  # angular and linear
    linear, angular = np.empty((2, model.nbody, len(qpos), 3, model.nv))  # Jacobians
    turn = np.empty((len(qpos), model.nbody, 3, 3))  # from the body's frame to the world's
    data, kind = mujoco.MjData(model), mujoco.mjtObj.mjOBJ_XBODY
    for i, state in enumerate(zip(qpos, qvel, qacc, strict=True)):
        data.qpos[:], data.qvel[:], wanted = state
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        data.qacc[:] = wanted
        mujoco.mj_rnePostConstraint(model, data)
        turn[i] = data.xmat.reshape(-1, 3, 3)
        for body in range(1, model.nbody):
            mujoco.mj_objectVelocity(model, data, kind, body, velocity[body, i], 1)
            mujoco.mj_objectAcceleration(model, data, kind, body, acceleration[body, i], 1)
            mujoco.mj_jacBody(model, data, linear[body, i], angular[body, i], body)
    for body in range(1, model.nbody):
        force, moment = _force_and_moment(velocity[body, :, :3], acceleration[body])
        back = np.swapaxes(turn[:, body], 1, 2)
        torques = np.swapaxes(back @ linear[body], 1, 2) @ force
        rows[:, :, body - 1, :10] = torques + np.swapaxes(back @ angular[body], 1, 2) @ moment
        if model.body_jntnum[body]:
            dof = model.body_dofadr[body]
            rows[:, dof, body - 1, FRICTION] = qvel[:, dof]
            rows[:, dof, body - 1, ARMATURE] = qacc[:, dof]
    return rows.reshape(len(qpos) * model.nv, -1)


def model_parameters(model: mujoco.MjModel) -> Array:
    """Return the parameters (12 B,) of a model, in the regressor's order."""
    rows = np.zeros((model.nbody - 1, BODY_PARAMETERS))
    for body in range(1, model.nbody):
        entries = np.empty(9)
        mujoco.mju_quat2Mat(entries, model.body_iquat[body])
        turn = entries.reshape(3, 3)
        mass, centre = model.body_mass[body], model.body_ipos[body]
        inertia = turn @ np.diag(model.body_inertia[body]) @ turn.T
        inertia += mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
        rows[body - 1, :10] = [mass, *(mass * centre), *inertia[np.triu_indices(3)]]
        if model.body_jntnum[body]:
            dof = model.body_dofadr[body]
            rows[body - 1, FRICTION] = np.ravel(model.dof_damping[dof])[0]
            rows[body - 1, ARMATURE] = np.ravel(model.dof_armature[dof])[0]
    return rows.ravel()


def _force_and_moment(spin: Array, acceleration: Array) -> tuple[Array, Array]:
    """Return both (n, 3, 10) by inertial parameters, for angular velocities and accelerations."""
    turning, moving = acceleration[:, :3], acceleration[:, 3:]
    cross = np.tensordot(spin, _CROSS, 1)
    force, moment = np.zeros((2, len(spin), 3, 10))
    force[:, :, 0] = moving
    force[:, :, 1:4] = np.tensordot(turning, _CROSS, 1) + cross @ cross
    moment[:, :, 1:4] = -np.tensordot(moving, _CROSS, 1)
    inertial = np.tensordot(spin, _INERTIA_BASIS, (1, 2)) @ np.swapaxes(cross, 1, 2)
    inertial += np.tensordot(turning, _INERTIA_BASIS, (1, 2))
    moment[:, :, 4:] = np.swapaxes(inertial, 1, 2)
    return force, moment
