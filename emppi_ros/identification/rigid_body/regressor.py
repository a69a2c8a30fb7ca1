"""
Regressor of a robot: joint torques as a linear function of inertial parameters.

Newton-Euler equations about the origin of a link's frame, in that frame (An, Atkeson and
Hollerbach 1988): with linear acceleration a of the origin (gravity subtracted), angular velocity w
and angular acceleration dw, the force is m a + dw x h + w x (w x h) and the moment is I dw + w x I
w + h x a. Jacobians map both to joint torques. MuJoCo computes motion and Jacobians; the masses of
its model have no effect.
"""

from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body.physical_consistency import (
    ARMATURE,
    BODY_PARAMETERS,
    FRICTION,
    pseudo_inertia,
)

_CROSS = np.array([[[0, 0, 0], [0, 0, -1], [0, 1, 0]],
                   [[0, 0, 1], [0, 0, 0], [-1, 0, 0]],
                   [[0, -1, 0], [1, 0, 0], [0, 0, 0]]], dtype=np.float64)  # fmt: skip
_INERTIA_BASIS = np.stack(  # of the entries xx, xy, xz, yy, yz, zz
    [np.trace(s) * np.eye(3) - s for s in (pseudo_inertia(e)[:3, :3] for e in np.eye(10)[4:])]
)


def regressor(model: mujoco.MjModel, qpos: Array, qvel: Array, qacc: Array) -> Array:
    """
    Return the regressor (n nv, 12 B) of states (n, nv); each row is for the torque of a joint.

    The model is a fixed-base arm of hinges and slides with B bodies. The columns of each body are
    in the order of `physical_consistency`; friction and armature of a body are those of its joint,
    zero without one. IdentificationError if shapes do not match, or the arm has other joints, or
    several on a body.
    """
    if model.nq != model.nv or np.any(model.body_jntnum > 1):
        raise IdentificationError('expected a fixed base, and at most one hinge or slide per body')
    if not qpos.shape == qvel.shape == qacc.shape == (len(qpos), model.nv):
        raise IdentificationError(
            f'qpos {qpos.shape}, qvel {qvel.shape} and qacc {qacc.shape} do not match: '
            f'expected (n, {model.nv}) each'
        )
    rows = np.zeros((len(qpos), model.nv, model.nbody - 1, BODY_PARAMETERS))
    for body, motion in enumerate(_body_motions(model, qpos, qvel, qacc), start=1):
        rows[:, :, body - 1, :10] = _body_regressor(motion)
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


class _BodyMotion(NamedTuple):
    """Motion of a body in n states, and how the joints move it."""

    velocity: Array  # (n, 6) angular and linear, in the body's frame
    acceleration: Array  # (n, 6) likewise; gravity is subtracted
    turn: Array  # (n, 3, 3) rotation from the body's frame to the world's
    linear: Array  # (n, 3, nv) Jacobian of the frame's origin, in the world's frame
    angular: Array  # (n, 3, nv) Jacobian of the frame's rotation, likewise


def _body_motions(
    model: mujoco.MjModel, qpos: Array, qvel: Array, qacc: Array
) -> list[_BodyMotion]:
    """Return the motion of each body except the world in states (n, nv)."""
    data, kind = mujoco.MjData(model), mujoco.mjtObj.mjOBJ_XBODY
    shapes = (6,), (6,), (3, 3), (3, model.nv), (3, model.nv)
    sizes = [(len(qpos), *shape) for shape in shapes]
    motions = [_BodyMotion(*map(np.empty, sizes)) for _ in range(1, model.nbody)]
    for i, (position, velocity, acceleration) in enumerate(zip(qpos, qvel, qacc, strict=True)):
        data.qpos[:], data.qvel[:] = position, velocity
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        data.qacc[:] = acceleration
        mujoco.mj_rnePostConstraint(model, data)
        for body, motion in enumerate(motions, start=1):
            mujoco.mj_objectVelocity(model, data, kind, body, motion.velocity[i], 1)
            mujoco.mj_objectAcceleration(model, data, kind, body, motion.acceleration[i], 1)
            mujoco.mj_jacBody(model, data, motion.linear[i], motion.angular[i], body)
            motion.turn[i] = data.xmat[body].reshape(3, 3)
    return motions


def _body_regressor(motion: _BodyMotion) -> Array:
    """Return the contribution (n, nv, 10) of a body's inertial parameters to the torques."""
    spin, turning = motion.velocity[:, :3], motion.acceleration[:, :3]
    moving = motion.acceleration[:, 3:]
    cross = np.tensordot(spin, _CROSS, 1)
    force, moment = np.zeros((2, len(spin), 3, 10))
    force[:, :, 0] = moving
    force[:, :, 1:4] = np.tensordot(turning, _CROSS, 1) + cross @ cross
    moment[:, :, 1:4] = -np.tensordot(moving, _CROSS, 1)
    inertial = np.tensordot(spin, _INERTIA_BASIS, (1, 2)) @ np.swapaxes(cross, 1, 2)
    inertial += np.tensordot(turning, _INERTIA_BASIS, (1, 2))
    moment[:, :, 4:] = np.swapaxes(inertial, 1, 2)
    back = np.swapaxes(motion.turn, 1, 2)
    torques = np.swapaxes(back @ motion.linear, 1, 2) @ force
    return torques + np.swapaxes(back @ motion.angular, 1, 2) @ moment
