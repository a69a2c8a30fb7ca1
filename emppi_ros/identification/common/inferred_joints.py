"""
Errors of joints that were inferred from tracks, for the intervals of identified parameters.

A scene of `emppi articulate` says how well the place of each joint is known
(`tracking/jointed_parts`). Places are consider parameters (Schmidt 1966): they are not estimated,
but their covariance adds to that of the estimates.
"""

from collections.abc import Sequence
import copy

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import to_quaternion, to_rotation
from emppi_ros.model import scene
from emppi_ros.model.parameters import Parameter
from emppi_ros.tracking import jointed_parts

_JOINT_PLACES = ('jnt_pos', 'jnt_axis', 'jnt_articulation', 'jnt_type')  # fields
_LEAST = 1e-9  # of the largest variance of a joint, in m^2 and rad^2: rounding


def displaced_models(
    model: mujoco.MjModel, parameters: Sequence[Parameter]
) -> list[tuple[mujoco.MjModel, mujoco.MjModel]]:
    """
    Return two models for each principal direction of the covariance of a joint's place.

    In these the joint is one standard deviation ahead, and behind. There are none for joints whose
    places are exact, or among the unknown parameters. SceneError if a covariance in the model has
    another size than (12, 12).
    """
    models, estimated = [], set[int]()
    for parameter in parameters:
        if parameter.field == 'body_pos':
            estimated.add(scene.find(model, 'body', parameter.of))
        elif parameter.field in _JOINT_PLACES:
            estimated.add(int(model.jnt_bodyid[scene.find(model, 'joint', parameter.of)]))
    for body, covariance in jointed_parts.joint_covariances(model).items():
        variances, directions = np.linalg.eigh(covariance)
        for variance, direction in zip(variances, directions.T, strict=True):
            if variance > _LEAST * variances[-1] and body not in estimated:
                motions = np.sqrt(variance) * direction
                ahead, behind = (_displaced(model, body, sign * motions) for sign in (1.0, -1.0))
                models.append((ahead, behind))
    return models


def _displaced(model: mujoco.MjModel, body: int, motions: Array) -> mujoco.MjModel:
    """
    Return the model after two small motions (12,), positions then rotations, of a body's joint.

    The first is of the joint in the frame of the parent, the second of the body on its joint.
    """
    changed = copy.copy(model)
    by_joint, on_joint = (Rotation.from_rotvec(motions[at : at + 3]) for at in (3, 9))
    rotation = to_rotation(model.body_quat[body])
    changed.body_pos[body] = by_joint.apply(model.body_pos[body] + rotation.apply(motions[6:9]))
    changed.body_pos[body] += motions[:3]
    changed.body_quat[body] = to_quaternion(by_joint * rotation * on_joint)
    joints = model.jnt_bodyid == body
    back = on_joint.inv()
    changed.jnt_pos[joints] = back.apply(model.jnt_pos[joints] - motions[6:9])
    changed.jnt_axis[joints] = back.apply(model.jnt_axis[joints])
    mujoco.mj_setConst(changed, mujoco.MjData(changed))
    return changed
