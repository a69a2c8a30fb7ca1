"""Arm models with arbitrary inertial parameters, and their inverse dynamics by MuJoCo."""

from collections.abc import Collection
import copy
from pathlib import Path

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body.regressor import (
    ARMATURE,
    BODY_PARAMETERS,
    FRICTION,
)
from emppi_ros.model import mjcf_security

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


def with_parameters(model: mujoco.MjModel, parameters: Array) -> mujoco.MjModel:
    """
    Return a copy with other parameters (12 B,), in the order of `regressor`.

    Inconsistent parameters are allowed for `motion_torques`, but not for `torque_jacobian`.
    """
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
