"""Tracked objects of a task, bound to its model."""

from collections.abc import Mapping, Sequence
import re
from typing import NamedTuple

import mujoco

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ConfigError, SceneError, prefix_errors, unknown
from emppi_ros.model import scene
from emppi_ros.tasks.schema import BlockConfig, TrackedObjectConfig

_TOPIC = re.compile('[A-Za-z][0-9A-Za-z]*(_[0-9A-Za-z]+)*_?')  # as ROS 2 allows


class Block(NamedTuple):
    """Indices of a block's parameters, and of the degrees of freedom that weight them."""

    parameters: tuple[int, ...]
    dofs: tuple[int, ...]


class FreeObject(NamedTuple):
    """A tracked object with a free joint."""

    settings: TrackedObjectConfig
    qpos: int  # address of its position and quaternion wxyz (7 values)
    qvel: int  # address of its linear and angular velocity (6 values)

    def body(self, model: mujoco.MjModel) -> int:
        """Return the index of its body."""
        return int(model.dof_bodyid[self.qvel])


class JointedObject(NamedTuple):
    """A tracked object on one hinge or slide, such as a door, and its pose at joint position 0."""

    settings: TrackedObjectConfig
    body: int
    joint: int
    qpos: int
    qvel: int
    position: Array  # (3,) m, in the world
    rotation: Array  # (3, 3)


TrackedObject = FreeObject | JointedObject


def topic_name(body: str) -> str:
    """Return the name of a body as that of an object, whose poses have a topic of this name."""
    name = re.sub('[^0-9A-Za-z]+', '_', body).strip('_')
    return name if name[:1].isalpha() else f'object_{name}'


def bind_object(model: mujoco.MjModel, name: str, settings: TrackedObjectConfig) -> TrackedObject:
    """Return an object; SceneError unless its joint is free, or the only one from the world."""
    where = f'objects: {name}'
    if not _TOPIC.fullmatch(name):
        raise ConfigError(
            f'{where}: its poses arrive on tracking/{name}, which is no name of a topic: use '
            'letters, digits and single underscores, beginning with a letter'
        )
    body = prefix_errors(f'{where}: body', scene.find, model, 'body', settings.body)
    joint, is_free = int(model.body_jntadr[body]), settings.motion != 'jointed'
    if is_free and (joint < 0 or model.jnt_type[joint] != scene.FREE):
        raise SceneError(f'{where}: body {settings.body!r} has no free joint')
    if not is_free and (model.body_jntnum[body] != 1 or not scene.is_scalar(model, joint)):
        raise SceneError(f'{where}: body {settings.body!r} must have one joint, a hinge or slide')
    place, dof = int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
    if is_free:
        return FreeObject(settings, place, dof)
    if model.body_weldid[model.body_parentid[body]] != 0:
        raise SceneError(f'{where}: the parent of body {settings.body!r} moves')
    qpos = model.qpos0.copy()
    qpos[place] = 0.0
    data = scene.kinematics(model, qpos)
    position, rotation = data.xpos[body].copy(), data.xmat[body].reshape(3, 3).copy()
    return JointedObject(settings, body, joint, place, dof, position, rotation)


def bind_blocks(
    model: mujoco.MjModel,
    entries: Sequence[BlockConfig],
    parameters: Sequence[str],
    objects: Mapping[str, TrackedObject],
) -> tuple[Block, ...]:
    """Return the blocks of a belief, by default one; ConfigError if a parameter is not in one."""
    if not entries:
        return (Block(tuple(range(len(parameters))), tuple(range(model.nv))),)
    bound: list[Block] = []
    assigned: list[str] = []
    for i, entry in enumerate(entries):
        where = f'belief: blocks[{i}]'
        dofs: list[int] = []
        for name in entry.parameters:
            if name not in parameters:
                known = unknown('parameter', name, parameters)
                raise ConfigError(f'{where}: parameters: {known}')
        for name in entry.by:
            if name in objects:
                item = objects[name]
                dofs += range(item.qvel, item.qvel + (6 if isinstance(item, FreeObject) else 1))
            else:
                missing = f'{where}: by: {name!r} is not one of `objects`'
                joint = prefix_errors(missing, scene.find_scalar, model, name)
                dofs.append(int(model.jnt_dofadr[joint]))
        assigned += entry.parameters
        bound.append(Block(tuple(parameters.index(n) for n in entry.parameters), tuple(dofs)))
    for name in parameters:
        if (count := assigned.count(name)) != 1:
            where = f'belief: blocks: parameter {name!r}'
            raise ConfigError(f'{where} is in {count} blocks, expected 1')
    return tuple(bound)
