"""
Joint positions from tracked poses, for bodies on one joint such as doors and drawers.

If axis, pivot or type of the joint are uncertain, a measured pose corresponds to a different joint
position in each of M models: the one that fits best.
"""

from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array, Bools
from emppi_ros.model import uncertain_joints
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.uncertain_joints import UncertainJoint
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.objects import JointedObject
from emppi_ros.tasks.task import Task


class Articulation(NamedTuple):
    """Pose of a body at joint position 0, and its joint in each of M models; world frame."""

    position: Array  # (3,) m
    rotation: Array  # (3, 3)
    axis: Array  # (M, 3), unit vectors
    pivot: Array  # (M, 3) m
    hinge: Bools  # (M,); else a slide


def from_joints(item: JointedObject, axis: Array, position: Array, hinge: Bools) -> Articulation:
    """Return the articulation for joint axes and positions (M, 3) in the frame of the body."""
    turn = item.rotation.T
    pivot = item.position + position @ turn
    return Articulation(item.position, item.rotation, axis @ turn, pivot, hinge)


def poses(joints: Articulation, q: Array) -> tuple[Array, Array]:
    """Return positions (M, 3) and rotations (M, 3, 3) of the body at joint positions q (M,)."""
    turn = Rotation.from_rotvec(joints.axis * np.where(joints.hinge, q, 0.0)[:, None]).as_matrix()
    arm = joints.position - joints.pivot
    turned = joints.pivot + np.einsum('mij,mj->mi', turn, arm)
    slid = joints.position + joints.axis * q[:, None]
    return np.where(joints.hinge[:, None], turned, slid), turn @ joints.rotation


def fit(item: JointedObject, joints: Articulation, track: Track) -> tuple[Array, Array]:
    """
    Return the joint positions and velocities (M,) that best fit a tracked motion.

    The fit minimizes squared position and rotation errors, weighted by the variances of the
    tracker. A rotation error e is weighted as 2 - 2 cos(e), which is e^2 for small e; the cost of
    a hinge is then a sinusoid of its angle, with a closed-form minimum.
    """
    axis = joints.axis
    near, far = 1.0 / item.settings.rotation_sd_rad**2, 1.0 / item.settings.position_sd_m**2
    slid = axis @ (track.position - joints.position)
    arm, tracked_arm = joints.position - joints.pivot, track.position - joints.pivot
    level = arm - axis * np.einsum('mi,mi->m', axis, arm)[:, None]
    turn = track.rotation.as_matrix() @ joints.rotation.T
    skew = np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
    sine = 2.0 * far * np.einsum('mi,mi->m', np.cross(axis, arm), tracked_arm) + near * axis @ skew
    along = np.einsum('mi,ij,mj->m', axis, turn, axis)
    cosine = 2.0 * far * np.einsum('mi,mi->m', level, tracked_arm) + near * (
        np.trace(turn) - along
    )
    lever = np.cross(axis, tracked_arm)
    spin = far * lever @ track.velocity + near * axis @ track.angular_velocity
    spin /= far * np.einsum('mi,mi->m', lever, lever) + near
    return (
        np.where(joints.hinge, np.arctan2(sine, cosine), slid),
        np.where(joints.hinge, spin, axis @ track.velocity),
    )


def residuals(joints: Articulation, q: Array, track: Track) -> tuple[Array, Array]:
    """Return errors to a tracked pose: positions [m] and rotation vectors [rad], (M, 3)."""
    position, rotation = poses(joints, q)
    turn = Rotation.from_matrix(rotation) * track.rotation.inv()
    return position - track.position, turn.as_rotvec()


def for_parameters(
    task: Task, joint: UncertainJoint, item: JointedObject, theta: Array
) -> Articulation:
    """Return the articulation of an object on an uncertain joint, for parameters theta (M, P)."""
    motion = uncertain_joints.motion(task.model, task.parameters, joint, theta)
    return from_joints(item, *motion)


def fit_state(task: Task, ensemble: Ensemble, state: State, tracks: Mapping[str, Track]) -> State:
    """Fit jointed objects to their tracks in each model: (nq,) -> (M, nq); unchanged if none."""
    if not tracks:
        return state
    qpos, qvel = (np.tile(row, (ensemble.models, 1)) for row in state)
    for name, track in tracks.items():
        item = task.jointed[name]
        joints = from_joints(item, *ensemble.joint_axes(item.joint))
        qpos[:, item.qpos], qvel[:, item.qvel] = fit(item, joints, track)
    return State(qpos, qvel)


def for_model(model: mujoco.MjModel, item: JointedObject) -> Articulation:
    """Return the articulation of an object in a single model, with M = 1."""
    hinge = model.jnt_type[[item.joint]] == mujoco.mjtJoint.mjJNT_HINGE.value
    return from_joints(item, model.jnt_axis[[item.joint]], model.jnt_pos[[item.joint]], hinge)
