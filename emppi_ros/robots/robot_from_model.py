"""Describe the robot of a compiled model: joints, command, home and limits."""

from collections import Counter

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import UNBOUNDED
from emppi_ros.core.errors import SceneError
from emppi_ros.model import scene
from emppi_ros.robots.robot import JointLimits, PositionLimits, Robot, command_of

_FASTEST = 100.0  # rad/s or m/s, of joints whose model has no limit of velocity
_RISE_S = 0.05  # from rest to the limit of velocity
_JOINT = mujoco.mjtTrn.mjTRN_JOINT.value


def describe(
    model: mujoco.MjModel,
    qpos: Array,
    name: str,
    arm_only: bool = False,
) -> Robot:
    """
    Return the robot of a model whose home is `qpos` (nq,).

    It is commanded through all actuators of the kind that most of them have: positions, velocities
    or efforts; others are held (see `held_joints`). All hinges and slides are measured, or with
    `arm_only` those that are commanded, without tools, whose joints are coupled. Limits are those
    of joints and controls; those of velocity, unless it is commanded, and of acceleration hardly
    bind.
    SceneError if the model has no actuators, or lacks a name or a range of controls.
    """
    if not model.nu:
        raise SceneError('model: has no actuators')
    kinds = [command_of(model, actuator) for actuator in range(model.nu)]
    direct = [k for k, t in zip(kinds, model.actuator_trntype, strict=True) if t == _JOINT]
    command = Counter((direct if arm_only else kinds) or ['']).most_common(1)[0][0]
    driven = [
        (actuator, _target(model, actuator))
        for actuator in range(model.nu)
        if kinds[actuator] == command
    ]
    if arm_only:
        tools = {-1, *_coupled(model)}
        driven = [(actuator, joint) for actuator, joint in driven if joint not in tools]
    if not driven:
        raise SceneError('model: no actuator drives a single joint')
    names = scene.names(model, 'joint')
    joints = [j for j in range(model.njnt) if scene.is_scalar(model, j)]
    if arm_only:
        joints = [j for j in joints if j in {joint for _, joint in driven}]
    for joint in joints:
        if not names[joint]:
            raise SceneError(f'model: joint {joint} needs a name')
    commanded = [_name(model, actuator, joint) for actuator, joint in driven]
    control = np.array([_control_range(model, command, *pair) for pair in driven])
    ranges = [_range(model, joint) for _, joint in driven]
    lower, upper = np.array(ranges).T
    if command == 'position':
        lower, upper = np.maximum(lower, control[:, 0]), np.minimum(upper, control[:, 1])
    else:  # a joint may start beyond the range of its soft limit
        at = np.array([qpos[model.jnt_qposadr[j]] if j >= 0 else 0.0 for _, j in driven])
        lower, upper = np.minimum(lower, at), np.maximum(upper, at)
    largest = np.abs(control).min(axis=1)  # on either side of zero
    fastest = largest if command == 'velocity' else np.full(len(driven), _FASTEST)
    return Robot(
        name=name,
        joints=tuple(names[j] for j in joints),
        commanded=tuple(commanded),
        command=command,
        home=tuple(qpos[model.jnt_qposadr[joints]].tolist()),
        limits=JointLimits(
            PositionLimits(tuple(lower.tolist()), tuple(upper.tolist())),
            tuple(fastest.tolist()),
            tuple((fastest / _RISE_S).tolist()),
            effort=tuple(largest.tolist()) if command == 'effort' else (),
        ),
        dynamics_factor=1.0,
    )


def _coupled(model: mujoco.MjModel) -> set[int]:
    """Return the joints that equality constraints couple with others, as fingers of grippers."""
    rows = (model.eq_type == mujoco.mjtEq.mjEQ_JOINT.value) & (model.eq_obj2id >= 0)
    return {*model.eq_obj1id[rows].tolist(), *model.eq_obj2id[rows].tolist()}


def _target(model: mujoco.MjModel, actuator: int) -> int:
    """Return the joint that an actuator drives, alone; -1 for tendons, sites and bodies."""
    if model.actuator_trntype[actuator] != _JOINT:
        return -1
    joint = int(model.actuator_trnid[actuator, 0])
    return joint if scene.is_scalar(model, joint) else -1


def _name(model: mujoco.MjModel, actuator: int, joint: int) -> str:
    """Return the name of what an actuator drives: its joint, else the actuator's own."""
    kind, index = ('actuator', actuator) if joint < 0 else ('joint', joint)
    name = scene.names(model, kind)[index]
    if not name:
        raise SceneError(f'model: {kind} {index} needs a name')
    return name


def _range(model: mujoco.MjModel, joint: int) -> tuple[float, float]:
    """Return the range of a joint [rad or m]; a wide one if it has none."""
    if joint < 0 or not model.jnt_limited[joint]:
        return -UNBOUNDED, UNBOUNDED
    low, high = model.jnt_range[joint].tolist()
    return low, high


def _control_range(
    model: mujoco.MjModel, command: str, actuator: int, joint: int
) -> tuple[float, float]:
    """Return the range of an actuator's control; a servo of position takes that of its joint."""
    if model.actuator_ctrllimited[actuator]:
        low, high = model.actuator_ctrlrange[actuator].tolist()
        return low, high
    if command == 'position':
        return _range(model, joint)
    name = scene.names(model, 'actuator')[actuator] or f'of {_name(model, actuator, joint)!r}'
    raise SceneError(f'model: actuator {name!r} needs a ctrlrange')
