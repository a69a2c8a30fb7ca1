"""
Parts on the joints of a model, with the uncertainty of where the joints are.

A model that `emppi articulate` inferred says how well each joint is known, as a numeric
`<part>_covariance`: the upper triangle of the covariance (12, 12) of two small motions. The first
is of the joint, as a twist in the frame of the parent at its origin, and the second of the part on
its joint, likewise in the frame of the part. Without such a numeric, joints are exact.
"""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.polynomial import Polynomial

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import SceneError, unknown
from emppi_ros.core.pose import Poses
from emppi_ros.model import scene
from emppi_ros.tracking import equations, renderer

COVARIANCE = '_covariance'  # appended to a part's name
_SIZE = 12


class JointedPoses(NamedTuple):
    """
    Poses of the parts at positions of the joints.

    Attributes
    ----------
    poses : Poses
        Poses of the B parts.
    jacobian : (B, 6, k) array
        Displacements of the parts, position and rotation, by the coordinates.
    covariance : (6 B, 6 B) array
        Of the displacements, because joints are not where the model says.

    """

    poses: Poses
    jacobian: Array
    covariance: Array


class JointedParts:
    """
    Parts on joints: hinges, slides, balls and free joints, and joints that others couple.

    Coordinates (k,) are the degrees of freedom of joints that are not coupled to others.
    """

    def __init__(self, model: mujoco.MjModel, names: Sequence[str]) -> None:
        """Find the bodies of the parts; SceneError if one is missing, or loops are closed."""
        known = scene.names(model, 'body')
        for name in names:
            if name not in known[1:]:
                raise SceneError(unknown('body', name, known[1:]))
        self.model, self._bodies = model, [known.index(name) for name in names]
        self._couplings = _couplings(model)
        driven = {one.dof for one in self._couplings}
        self.free = np.array([i for i in range(model.nv) if i not in driven], int)
        if not len(self.free):
            raise SceneError('no joint moves: expected at least one degree of freedom')
        self._known = joint_covariances(model)

    def places(self, qpos: Array) -> JointedPoses:
        """Return the poses of the parts at positions of joints (nq,)."""
        data = scene.kinematics(self.model, qpos)
        poses = renderer.body_poses(data, self._bodies)
        full = np.zeros((len(self._bodies), 6, self.model.nv))
        for part, body in enumerate(self._bodies):
            mujoco.mj_jacBody(self.model, data, full[part, :3], full[part, 3:], body)
        covariance = np.zeros((6 * len(self._bodies), 6 * len(self._bodies)))
        for body, matrix in self._known.items():
            slopes = self._slopes(data, poses, body)
            covariance += slopes @ matrix @ slopes.T
        return JointedPoses(poses, full @ self._basis(qpos), covariance)

    def moved(self, qpos: Array, step: Array) -> Array:
        """Return the positions of joints (nq,) after a step of the coordinates (k,)."""
        full = np.zeros(self.model.nv)
        full[self.free] = step
        result = qpos.copy()
        mujoco.mj_integratePos(self.model, result, full, 1.0)
        for one in self._couplings:
            away = one.polynomial(result[one.by_address] - one.by_zero)
            result[one.address] = one.zero + away
        return result

    def step_between(self, before: Array, after: Array) -> Array:
        """Return the step of the coordinates (k,) from one position of joints to another."""
        full = np.zeros(self.model.nv)
        mujoco.mj_differentiatePos(self.model, full, 1.0, before, after)
        return full[self.free]

    def _basis(self, qpos: Array) -> Array:
        """Return the motion of all joints (nv, k) by the coordinates."""
        full = np.zeros((self.model.nv, len(self.free)))
        full[self.free, np.arange(len(self.free))] = 1.0
        for one in self._couplings:
            slope = one.polynomial.deriv()(qpos[one.by_address] - one.by_zero)
            full[one.dof] = slope * full[one.by_dof]
        return full

    def _slopes(self, data: mujoco.MjData, poses: Poses, body: int) -> Array:
        """Return displacements (6 B, 12) of all parts by the two motions of a body's joint."""
        result = np.zeros((len(self._bodies), 6, _SIZE))
        for column, frame in ((0, int(self.model.body_parentid[body])), (6, body)):
            axes = np.kron(np.eye(2), data.xmat[frame].reshape(3, 3))
            for part, own in enumerate(self._bodies):
                if _is_on(self.model, own, body):
                    arm = data.xpos[frame] - poses.position[part]
                    result[part, :, column : column + 6] = equations.centred(arm, 1.0) @ axes
        return result.reshape(-1, _SIZE)


class _Coupling(NamedTuple):
    """A scalar joint whose position is a polynomial of that of another one."""

    address: int
    dof: int
    zero: float
    by_address: int
    by_dof: int
    by_zero: float
    polynomial: Polynomial


def _couplings(model: mujoco.MjModel) -> list[_Coupling]:
    """Return the couplings of joints; SceneError for other equalities, which close loops."""
    found = []
    for index in np.flatnonzero(model.eq_active0):
        if model.eq_type[index] != mujoco.mjtEq.mjEQ_JOINT or model.eq_obj2id[index] < 0:
            kind = mujoco.mjtEq(model.eq_type[index]).name
            raise SceneError(
                f'equality {index}: found {kind}, expected one that couples two joints'
            )
        own, other = int(model.eq_obj1id[index]), int(model.eq_obj2id[index])
        address, by_address = (int(model.jnt_qposadr[one]) for one in (own, other))
        found.append(
            _Coupling(
                address, int(model.jnt_dofadr[own]), float(model.qpos0[address]),
                by_address, int(model.jnt_dofadr[other]), float(model.qpos0[by_address]),
                Polynomial(model.eq_data[index, :5]),
            )
        )  # fmt: skip
    if chained := {one.dof for one in found} & {one.by_dof for one in found}:
        joint = model.joint(int(model.dof_jntid[min(chained)])).name
        raise SceneError(f'joint {joint!r}: it is coupled to a joint, and another one to it')
    return found


def joint_covariances(model: mujoco.MjModel) -> dict[int, Array]:
    """Return the covariances (12, 12) of joints by their bodies; SceneError if one is wrong."""
    found = {}
    for index in range(model.nnumeric):
        name = model.numeric(index).name
        part = name.removesuffix(COVARIANCE)
        if part == name:
            continue
        start, size = int(model.numeric_adr[index]), int(model.numeric_size[index])
        values = model.numeric_data[start : start + size]
        rows, columns = np.triu_indices(_SIZE)
        if size != len(rows):
            raise SceneError(f'numeric {name!r}: found {size} numbers, expected {len(rows)}')
        matrix = np.zeros((_SIZE, _SIZE))
        matrix[rows, columns] = matrix[columns, rows] = values
        found[scene.find(model, 'body', part)] = matrix
    return found


def covariance_numbers(matrix: Array) -> list[float]:
    """Return what a numeric of a model has for a covariance (12, 12)."""
    numbers: list[float] = matrix[np.triu_indices(_SIZE)].tolist()
    return numbers


def _is_on(model: mujoco.MjModel, body: int, ancestor: int) -> bool:
    """Return whether a body is another one, or is held by it."""
    while body not in (0, ancestor):
        body = int(model.body_parentid[body])
    return body == ancestor
