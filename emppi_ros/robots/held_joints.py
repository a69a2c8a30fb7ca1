"""Joints and actuators of a scene that no command of the robot moves, such as a gripper's."""

from collections.abc import Collection

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import SceneError, prefix_errors
from emppi_ros.model import scene
from emppi_ros.model.locked_joints import driven_joints
from emppi_ros.robots.robot import Robot, commanded_actuators

_FIXED, _AFFINE = mujoco.mjtGain.mjGAIN_FIXED.value, mujoco.mjtGain.mjGAIN_AFFINE.value


def find(robot: Robot, model: mujoco.MjModel, tracked: Collection[str]) -> dict[int, float]:
    """
    Return the joints to lock, by id, and their positions [rad or m].

    These are the joints in `held` of the robot, and hinges and slides that nobody measures and
    that sit on the same link of the robot, or in the same tree of bodies, as an actuator that no
    command drives. Their position is that of `held`, else of the first keyframe, else of qpos0,
    within their range. `tracked` are the bodies of objects.
    """
    try:
        free = _free_actuators(robot, model)
        measured = {scene.find(model, 'joint', name) for name in robot.joints}
    except SceneError:
        return {}  # `bind` raises it, with its place in the files
    held = {
        prefix_errors('robot: held', scene.find_scalar, model, name): position
        for name, position in robot.held.items()
    }
    bodies = scene.names(model, 'body')  # what is not among them is refused later
    measured |= {
        int(model.body_jntadr[bodies.index(body)]) for body in tracked if body and body in bodies
    }
    if wrong := measured & held.keys():
        name = scene.names(model, 'joint')[wrong.pop()]
        raise SceneError(f'robot: held: {name!r} is measured: remove it here or from `joints`')
    driven = {joint for actuator in free for joint in driven_joints(model, actuator)}
    links = {int(model.jnt_bodyid[scene.find(model, 'joint', name)]) for name in robot.joints}
    groups = {_group(model, joint, links) for joint in driven - measured}
    qpos = scene.start(model)
    for joint in range(model.njnt):
        if joint in measured or joint in held or not scene.is_scalar(model, joint):
            continue
        if _group(model, joint, links) in groups:
            held[joint] = float(qpos[model.jnt_qposadr[joint]])
    return held


def hold_actuators(robot: Robot, model: mujoco.MjModel, qpos: Array) -> dict[str, float]:
    """
    Make actuators that no command drives exert the force of a constant control, in place.

    The control, which is returned by actuator, is that of the first keyframe, else what holds the
    pose `qpos` (nq,): the present length for a position servo, 0 for others. Afterwards their
    entries of `ctrl` have no effect.
    """
    if not (free := _free_actuators(robot, model)):
        return {}
    lengths, held = _lengths(model, qpos), {}
    for actuator in free:
        gain, bias = model.actuator_gainprm[actuator], model.actuator_biasprm[actuator]
        if model.actuator_gaintype[actuator] not in (_FIXED, _AFFINE):
            continue  # a muscle, without a control at rest
        if model.nkey:
            control = float(model.key_ctrl[0, actuator])
        else:  # gain * control + bias = 0
            servo = bias[1] != 0.0 and gain[0] != 0.0
            control = -(bias[0] + bias[1] * lengths[actuator]) / gain[0] if servo else 0.0
        if model.actuator_ctrllimited[actuator]:
            control = float(np.clip(control, *model.actuator_ctrlrange[actuator]))
        terms = 1 if model.actuator_gaintype[actuator] == _FIXED else 3
        if model.actuator_biastype[actuator] != mujoco.mjtBias.mjBIAS_AFFINE.value:
            model.actuator_biastype[actuator] = mujoco.mjtBias.mjBIAS_AFFINE.value
            bias[:] = 0.0
        bias[:terms] += control * gain[:terms]
        gain[:] = 0.0
        model.actuator_gaintype[actuator] = _FIXED
        held[scene.names(model, 'actuator')[actuator] or f'actuator {actuator}'] = control
    return held


def _free_actuators(robot: Robot, model: mujoco.MjModel) -> list[int]:
    """Return the actuators that no command drives; SceneError as of `commanded_actuators`."""
    commanded = commanded_actuators(robot, model)
    return [actuator for actuator in range(model.nu) if actuator not in commanded]


def _lengths(model: mujoco.MjModel, qpos: Array) -> Array:
    """Return the lengths of all actuators (nu,) [rad or m] in a pose (nq,)."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_fwdPosition(model, data)
    return np.array(data.actuator_length)


def _group(model: mujoco.MjModel, joint: int, links: Collection[int]) -> tuple[str, int]:
    """Return the link of the robot that carries a joint, else the root of its tree."""
    body = int(model.jnt_bodyid[joint])
    root = int(model.body_rootid[body])
    while body and body not in links:
        body = int(model.body_parentid[body])
    return ('link', body) if body else ('tree', root)
