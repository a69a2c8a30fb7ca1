"""Tracked objects of a task, found in its scene."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.belief.blocks import Block, BlockEntry
from emppi_ros.core.errors import ConfigError, SceneError, unknown
from emppi_ros.model import scene
from emppi_ros.tasks.schema import TrackedObject

Array = npt.NDArray[np.float64]


class BoundObject(NamedTuple):
    """A tracked object and its free joint's place in the model."""

    settings: TrackedObject
    qpos: int  # of the first of 7
    qvel: int  # of the first of 6


class JointedObject(NamedTuple):
    """A tracked object that hangs on one joint, and where it is when that joint is at 0."""

    settings: TrackedObject
    body: int
    joint: int
    qpos: int
    qvel: int
    position: Array  # (3,) m, in the world
    rotation: Array  # (3, 3)


def bind_free(model: mujoco.MjModel, name: str, settings: TrackedObject) -> BoundObject:
    """Find an object's free joint; SceneError if it has none."""
    body = located(f'objects: {name}: body', scene.find, model, 'body', settings.body)
    joint = model.body_jntadr[body]
    if joint < 0 or model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_FREE.value:
        raise SceneError(f'objects: {name}: body {settings.body!r} has no free joint')
    return BoundObject(settings, int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint]))


def bind_jointed(model: mujoco.MjModel, name: str, settings: TrackedObject) -> JointedObject:
    """Find an object's one joint; SceneError unless it hangs by it on what does not move."""
    body = located(f'objects: {name}: body', scene.find, model, 'body', settings.body)
    joint = model.body_jntadr[body]
    if model.body_jntnum[body] != 1 or not scene.is_scalar(model, joint):
        raise SceneError(f'objects: {name}: body {settings.body!r} has not one hinge or slide')
    if model.body_weldid[model.body_parentid[body]] != 0:
        raise SceneError(f'objects: {name}: what body {settings.body!r} hangs on moves itself')
    data = mujoco.MjData(model)
    place = int(model.jnt_qposadr[joint])
    data.qpos[:] = model.qpos0
    data.qpos[place] = 0.0
    mujoco.mj_kinematics(model, data)
    rotation = data.xmat[body].reshape(3, 3).copy()
    dof = int(model.jnt_dofadr[joint])
    return JointedObject(settings, body, int(joint), place, dof, data.xpos[body].copy(), rotation)


def bind_blocks(
    model: mujoco.MjModel,
    entries: Sequence[BlockEntry],
    parameters: Sequence[str],
    objects: Mapping[str, BoundObject | JointedObject],
) -> tuple[Block, ...]:
    """Find what the blocks of a belief name; ConfigError unless each parameter is in one."""
    bound, taken = [], []
    for i, entry in enumerate(entries):
        dofs: list[int] = []
        for name in entry.parameters:
            if name not in parameters:
                raise ConfigError(
                    f'belief: blocks[{i}]: parameters: {unknown("parameter", name, parameters)}'
                )
        for name in entry.by:
            if name in objects:
                item = objects[name]
                dofs += range(item.qvel, item.qvel + (6 if isinstance(item, BoundObject) else 1))
            else:
                where = f'belief: blocks[{i}]: by: {name!r} is none of objects'
                joint = located(where, scene.find_scalar, model, name)
                dofs.append(int(model.jnt_dofadr[joint]))
        taken += entry.parameters
        bound.append(Block(tuple(parameters.index(n) for n in entry.parameters), tuple(dofs)))
    for name in parameters if entries else ():
        if taken.count(name) != 1:
            raise ConfigError(
                f'belief: blocks: parameter {name!r} is in {taken.count(name)} blocks, expected 1'
            )
    return tuple(bound)


def located(where: str, function: Any, *arguments: Any) -> Any:
    """Return what a function returns; its errors say where in the task they come from."""
    try:
        return function(*arguments)
    except (ConfigError, SceneError) as error:
        raise type(error)(f'{where}: {error}') from None
