"""
A tracked body that hangs on one joint: from its pose to that joint's position, and back.

Where axis, pivot or even type of the joint are uncertain, one measured pose is another joint
position in each of M models: the one that explains it best.
"""

from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.objects import JointedObject
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]


class Articulation(NamedTuple):
    """Where a body is when its joint is at 0, and how each of M models moves it; world frame."""

    position: Array  # (3,) m
    rotation: Array  # (3, 3)
    axis: Array  # (M, 3), unit vectors
    pivot: Array  # (M, 3) m
    hinge: npt.NDArray[np.bool_]  # (M,); else it slides


def of(item: JointedObject, axis: Array, place: Array, hinge: npt.NDArray) -> Articulation:
    """Return the articulation by joints with axes and places (M, 3) in the body's own frame."""
    rotation = item.rotation
    pivot = item.position + place @ rotation.T
    return Articulation(item.position, rotation, axis @ rotation.T, pivot, np.asarray(hinge, bool))


def poses(joints: Articulation, q: Array) -> tuple[Array, Array]:
    """Return positions (M, 3) and rotations (M, 3, 3) of the body at joint positions (M,)."""
    turn = Rotation.from_rotvec(joints.axis * np.where(joints.hinge, q, 0.0)[:, None]).as_matrix()
    arm = joints.position - joints.pivot
    turned = joints.pivot + np.einsum('mij,mj->mi', turn, arm)
    slid = joints.position + joints.axis * q[:, None]
    return np.where(joints.hinge[:, None], turned, slid), turn @ joints.rotation


def fit(item: JointedObject, joints: Articulation, seen: Track) -> tuple[Array, Array]:
    """
    Return the joint positions and velocities (M,) that fit a tracked motion best.

    Least squares of position and rotation error, each over its tracker's variance. For a hinge
    both are sinusoids of the angle (a rotation error e counts 2 - 2 cos e, e^2 where it is
    small), so that the best one is known in closed form.
    """
    axis = joints.axis
    near, far = 1.0 / item.settings.rotation_sd_rad**2, 1.0 / item.settings.position_sd_m**2
    slid = axis @ (seen.position - joints.position)
    arm, seen_arm = joints.position - joints.pivot, seen.position - joints.pivot
    level = arm - axis * np.einsum('mi,mi->m', axis, arm)[:, None]
    turn = seen.rotation.as_matrix() @ joints.rotation.T
    skew = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    sine = 2.0 * far * np.einsum('mi,mi->m', np.cross(axis, arm), seen_arm) + near * axis @ skew
    along = np.einsum('mi,ij,mj->m', axis, turn, axis)
    cosine = 2.0 * far * np.einsum('mi,mi->m', level, seen_arm) + near * (np.trace(turn) - along)
    lever = np.cross(axis, seen_arm)
    spin = far * lever @ seen.velocity + near * axis @ seen.angular_velocity
    spin /= far * np.einsum('mi,mi->m', lever, lever) + near
    return (
        np.where(joints.hinge, np.arctan2(sine, cosine), slid),
        np.where(joints.hinge, spin, axis @ seen.velocity),
    )


def residuals(joints: Articulation, q: Array, seen: Track) -> tuple[Array, Array]:
    """Return what differs from a tracked pose: positions [m], rotation vectors [rad], (M, 3)."""
    position, rotation = poses(joints, q)
    turn = Rotation.from_matrix(rotation) * seen.rotation.inv()
    return position - seen.position, turn.as_rotvec()


def of_models(ensemble: Ensemble, item: JointedObject) -> Articulation:
    """Return the articulation by each model of an ensemble."""
    return of(item, *ensemble.joint(item.joint))


def spread(task: Task, ensemble: Ensemble, state: State, seen: Mapping[str, Track]) -> State:
    """Return a state (nq,) as each model sees it, (M, nq), if jointed objects were seen."""
    if not seen:
        return state
    qpos, qvel = (np.tile(row, (ensemble.models, 1)) for row in state)
    for name, track in seen.items():
        item = task.jointed[name]
        joints = of_models(ensemble, item)
        qpos[:, item.qpos], qvel[:, item.qvel] = fit(item, joints, track)
    return State(qpos, qvel)


def nominal(model: mujoco.MjModel, item: JointedObject) -> Articulation:
    """Return the articulation by a single model, M = 1."""
    hinge = model.jnt_type[[item.joint]] == mujoco.mjtJoint.mjJNT_HINGE.value
    return of(item, model.jnt_axis[[item.joint]], model.jnt_pos[[item.joint]], hinge)
