"""
Errors of joints that were inferred from tracks, for the intervals of identified parameters.

A scene of `emppi articulate` says how well the place of each joint is known
(`tracking/jointed_parts`). Identification takes the joints to be there, and its estimates change
with them: places are consider parameters (Schmidt 1966), which are not estimated, but whose
covariance adds to that of the estimates. Here are the models to differentiate by.
"""

from collections.abc import Iterable, Sequence
import copy
from typing import NamedTuple

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


class DisplacedModels(NamedTuple):
    """Models with a joint one standard deviation ahead and behind, along a principal direction."""

    ahead: mujoco.MjModel
    behind: mujoco.MjModel


def displaced_models(
    model: mujoco.MjModel, parameters: Sequence[Parameter]
) -> list[DisplacedModels]:
    """
    Return models for each principal direction of the covariance of a joint's place.

    There are none for joints whose places are exact, or among the unknown parameters. SceneError
    if a covariance in the model has another size than (12, 12).
    """
    models, estimated = [], set(_placed_bodies(model, parameters))
    for body, covariance in jointed_parts.joint_covariances(model).items():
        if body in estimated:
            continue
        variances, directions = np.linalg.eigh(covariance)
        for variance, direction in zip(variances, directions.T, strict=True):
            if variance > _LEAST * variances[-1]:
                motions = np.sqrt(variance) * direction
                pair = (_displaced(model, body, sign * motions) for sign in (1.0, -1.0))
                models.append(DisplacedModels(*pair))
    return models


def _placed_bodies(model: mujoco.MjModel, parameters: Sequence[Parameter]) -> Iterable[int]:
    """Yield the bodies whose joints have unknown places."""
    for parameter in parameters:
        if parameter.field == 'body_pos':
            yield scene.find(model, 'body', parameter.of)
        elif parameter.field in _JOINT_PLACES:
            yield int(model.jnt_bodyid[scene.find(model, 'joint', parameter.of)])


def _displaced(model: mujoco.MjModel, body: int, motions: Array) -> mujoco.MjModel:
    """
    Return the model after two small motions (12,) of a body's joint.

    The first is of the joint, in the frame of the parent, the second of the body on its joint, in
    the frame of the body: positions, then rotations.
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
