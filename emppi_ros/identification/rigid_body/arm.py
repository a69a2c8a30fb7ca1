"""
Arm models, their inverse dynamics, and the regressor: torques as a linear function of the bodies.

A body has 12 parameters in its link's frame: mass m, h = m c (c the center of mass), the inertia I
about the frame's origin (xx, xy, xz, yy, yz, zz), viscous friction and rotor inertia (armature) of
its joint. The pseudo-inertia [[S, h], [h', m]], S = tr(I) / 2 - I, is positive definite exactly
for physically consistent ones (Wensing et al. 2018).

Newton-Euler equations in a link's frame (An, Atkeson and Hollerbach 1988): with linear
acceleration a of the origin (gravity subtracted), angular velocity w and angular acceleration dw,
the force is m a + dw x h + w x (w x h) and the moment is I dw + w x I w + h x a. MuJoCo computes
motion and Jacobians; the masses of its model have no effect.
"""

from collections.abc import Collection
import copy
from pathlib import Path

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.model import mjcf_security

BODY_PARAMETERS = 12  # parameters of a body
FRICTION, ARMATURE = 10, 11  # indices of those of its joint
_ROWS, _COLUMNS = np.triu_indices(3)  # of the six independent entries of the inertia
_CROSS = np.array([[[0, 0, 0], [0, 0, -1], [0, 1, 0]],
                   [[0, 0, 1], [0, 0, 0], [-1, 0, 0]],
                   [[0, -1, 0], [1, 0, 0], [0, 0, 0]]], dtype=np.float64)  # fmt: skip
_INERTIA_BASIS = np.zeros((6, 3, 3))  # of the entries xx, xy, xz, yy, yz, zz
_INERTIA_BASIS[range(6), _ROWS, _COLUMNS] = _INERTIA_BASIS[range(6), _COLUMNS, _ROWS] = 1.0
_MIN_MASS = 1e-9  # kg: the center of a smaller mass is lost in rounding
_DIFFERENCE_STEP = 1e-6


def load_spec(path: Path, root: Path | None = None, joints: Collection[str] = ()) -> mujoco.MjSpec:
    """Load a scene and remove everything that neither belongs to the arm nor is static."""
    mjcf_security.check(path, root)
    spec = mujoco.MjSpec.from_file(str(path))
    # elements that refer to a body prevent fusing it
    for of in (spec.keys, spec.sensors, spec.actuators, spec.equalities, spec.tendons):
        for item in list(of):
            spec.delete(item)
    for of in (spec.excludes, spec.pairs, spec.cameras, spec.lights, spec.tuples):
        for item in list(of):
            spec.delete(item)
    for body in list(spec.worldbody.bodies):
        moving = body.find_all('joint')
        free = any(joint.type == mujoco.mjtJoint.mjJNT_FREE for joint in moving)
        other = body.mocap or (moving and not any(joint.name in joints for joint in moving))
        if free or (joints and other):
            spec.delete(body)
    return spec


def load(
    path: Path, root: Path | None = None, joints: Collection[str] = (), fuse: bool = True
) -> mujoco.MjModel:
    """
    Return the model of an arm with one body per joint: welded bodies are fused with their link.

    Rotor inertia, dry friction, gravity compensation, actuators and limits are removed, so that
    torques are those of links and viscous friction, as measured at the links. Free bodies are
    removed, and with `joints` given, all that does not hang on these. Files are searched in the
    folder of `path`, or in `root`. With `fuse` false, welded bodies stay separate.
    IdentificationError if a body has not exactly one joint, as the regressor assumes.
    """
    spec = load_spec(path, root, joints)
    for body in spec.bodies:
        body.gravcomp = 0.0  # bodies with different gravcomp are not fused
    spec.compiler.fusestatic = fuse
    spec.option.density = spec.option.viscosity = 0.0
    model = spec.compile()
    for body in range(1, model.nbody) if fuse else ():
        if model.body_dofnum[body] != 1:
            raise IdentificationError(
                f'body {model.body(body).name!r} has {model.body_dofnum[body]} degrees of '
                'freedom, expected 1: each hinge or slide of an arm needs a body of its own; '
                'remove scene elements that refer to welded bodies'
            )
    model.dof_armature[:] = 0.0
    model.dof_frictionloss[:] = 0.0
    off = mujoco.mjtDisableBit
    for flag in (off.mjDSBL_CONSTRAINT, off.mjDSBL_ACTUATION, off.mjDSBL_AUTORESET):
        model.opt.disableflags |= flag.value
    return model


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


def with_parameters(model: mujoco.MjModel, parameters: Array) -> mujoco.MjModel:
    """Return a copy with parameters (12 B,); `torque_jacobian` needs consistent ones."""
    changed = copy.deepcopy(model)
    for body, row in enumerate(parameters.reshape(-1, BODY_PARAMETERS), 1):
        mass = row[0] if abs(row[0]) > _MIN_MASS else _MIN_MASS
        centre = row[1:4] / mass
        inertia = np.zeros((3, 3))
        inertia[np.triu_indices(3)] = row[4:10]
        inertia += np.triu(inertia, 1).T
        inertia -= mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
        moments, axes = np.linalg.eigh(inertia)
        axes[:, 0] *= np.sign(np.linalg.det(axes))
        changed.body_mass[body] = mass
        changed.body_ipos[body] = centre
        changed.body_inertia[body] = moments
        mujoco.mju_mat2Quat(changed.body_iquat[body], axes.ravel())
        if model.body_jntnum[body]:
            changed.dof_damping[model.body_dofadr[body]] = row[FRICTION]
            changed.dof_armature[model.body_dofadr[body]] = row[ARMATURE]
    changed.body_sameframe[:] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE.value
    return changed


def motion_torques(model: mujoco.MjModel, states: Array) -> Array:
    """Return the torques (n, nv) of a motion (3, n, nv), viscous friction and rotors included."""
    data, torques = mujoco.MjData(model), np.empty((len(states[0]), model.nv))
    for torque, *state in zip(torques, *states, strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = state
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        mujoco.mj_passive(model, data)
        mujoco.mj_rne(model, data, 1, torque)  # not mj_inverse: parameters may be inconsistent
        torque[:] = torque - data.qfrc_passive + model.dof_armature * state[2]
    return torques


def torque_jacobian(model: mujoco.MjModel, states: Array) -> Array:
    """Return derivatives (n, nv, 3 nv) of torques by positions, velocities, accelerations."""
    data, nv = mujoco.MjData(model), model.nv
    jacobians = np.empty((states.shape[1], 3, nv, nv))  # MuJoCo has the variable on the first axis
    for row, state in zip(jacobians, np.swapaxes(states, 0, 1), strict=True):
        data.qpos[:], data.qvel[:], data.qacc[:] = state
        mujoco.mj_inverse(model, data)
        mujoco.mjd_inverseFD(model, data, _DIFFERENCE_STEP, 0, *row, None, None, None, None)
    return np.moveaxis(jacobians, 3, 1).reshape(-1, nv, 3 * nv)


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
