"""
Which bodies of a scene are one: a hand or a payload that is welded to a link moves as its part.

Only their sum shows in torques. Of a body that is to be found, the others in the same sum are
taken as the scene has them.
"""

from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body.consistency import from_pseudo_inertia, pseudo_inertia
from emppi_ros.identify.rigid_body.regressor import parameters
from emppi_ros.model import scene

Array = npt.NDArray[np.float64]


class Part(NamedTuple):
    """A body of the scene, as a part of an arm's body."""

    name: str
    whole: int  # the arm's body, from 0
    pose: Array  # (4, 4) in the frame of the arm's body
    own: Array  # (10,) its parameters in that frame


def parts(model: mujoco.MjModel) -> list[Part]:
    """
    Return the parts of an arm's bodies, in a model in which nothing is fused.

    What is welded to the world is none. IdentificationError if a body has several joints.
    """
    if np.any(model.body_jntnum > 1):
        body = scene.names(model, 'body')[int(np.argmax(model.body_jntnum > 1))]
        raise IdentificationError(
            f'body {body!r} has {model.body_jntnum.max()} joints: expected one hinge or slide '
            'each: give each joint a body of its own'
        )
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    poses = np.tile(np.eye(4), (model.nbody, 1, 1))
    poses[:, :3, :3], poses[:, :3, 3] = data.xmat.reshape(-1, 3, 3), data.xpos
    rows = np.vstack([np.zeros(11), parameters(model).reshape(-1, 11)])
    found = []
    for body, name in enumerate(scene.names(model, 'body')):
        root = int(model.body_weldid[body])
        if root:
            pose = np.linalg.inv(poses[root]) @ poses[body]
            whole = int(model.dof_jntid[model.body_dofadr[root]])
            found.append(Part(name, whole, pose, moved(rows[body, :10], pose)))
    return found


def moved(body: Array, pose: Array) -> Array:
    """Return the parameters (10,) of a body, seen from where its frame has a pose (4, 4)."""
    return from_pseudo_inertia(pose @ pseudo_inertia(body) @ pose.T)
