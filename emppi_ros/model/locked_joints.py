"""Lock joints of a scene: their bodies become rigid parts of their parents."""

from collections.abc import Collection, Mapping

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.core.errors import SceneError
from emppi_ros.model import scene

_JOINT = mujoco.mjtObj.mjOBJ_JOINT.value
_TOLERANCE = 1e-9  # m, and of rotation matrices
_IN_JOINTS = mujoco.mjtTrn.mjTRN_JOINT.value, mujoco.mjtTrn.mjTRN_JOINTINPARENT.value


def lock(
    spec: mujoco.MjSpec, model: mujoco.MjModel, positions: Mapping[int, float]
) -> mujoco.MjModel:
    """
    Return the model of a scene whose joints (id -> position [rad or m]) are rigid.

    `model` is that of `spec`, which changes. Actuators, tendons, equality constraints and sensors
    of these joints are removed. SceneError if such a tendon or constraint moves other joints, too.
    """
    qpos = model.qpos0.copy()
    for joint, position in positions.items():
        qpos[model.jnt_qposadr[joint]] = position
    before = scene.kinematics(model, qpos)
    for body in {int(model.jnt_bodyid[joint]) for joint in positions}:
        first = model.body_jntadr[body]
        others = set(range(first, first + model.body_jntnum[body])) - positions.keys()
        if others:
            raise SceneError(
                f'joint {_name(model, others.pop())!r} is measured, and other joints of the same '
                'body are not: name all of them in `joints` of the robot'
            )
        _place(spec.bodies[body], model, before, body)
    parts: list[object] = [
        part
        for kind, ids in _coupled(model, positions).items()
        for part in (getattr(spec, kind)[i] for i in ids)
    ]
    for part in [*parts, *(spec.joints[joint] for joint in positions)]:
        spec.delete(part)
    locked = spec.compile()
    _check_poses(model, before, locked)
    return locked


def tendon_joints(model: mujoco.MjModel, tendon: int) -> set[int]:
    """Return the joints of a fixed tendon; an empty set for a spatial one."""
    rows = slice(model.tendon_adr[tendon], model.tendon_adr[tendon] + model.tendon_num[tendon])
    are_joints = model.wrap_type[rows] == mujoco.mjtWrap.mjWRAP_JOINT.value
    return set(model.wrap_objid[rows][are_joints].tolist())


def driven_joints(model: mujoco.MjModel, actuator: int) -> set[int]:
    """Return the joints that an actuator drives, directly or by a fixed tendon."""
    kind, target = model.actuator_trntype[actuator], int(model.actuator_trnid[actuator, 0])
    if kind in _IN_JOINTS:
        return {target}
    return tendon_joints(model, target) if kind == mujoco.mjtTrn.mjTRN_TENDON.value else set()


def _place(body: mujoco.MjsBody, model: mujoco.MjModel, data: mujoco.MjData, index: int) -> None:
    """Write a body's present pose in its parent as that of its frame."""
    parent = int(model.body_parentid[index])
    turn = Rotation.from_matrix(data.xmat[parent].reshape(3, 3)).inv()
    body.pos = turn.apply(data.xpos[index] - data.xpos[parent])
    rotation = turn * Rotation.from_matrix(data.xmat[index].reshape(3, 3))
    body.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
    body.quat = rotation.as_quat(scalar_first=True)


def _coupled(model: mujoco.MjModel, joints: Collection[int]) -> dict[str, list[int]]:
    """Return the parts of a scene, by kind, that act on these joints only."""
    tendons = [
        tendon
        for tendon in range(model.ntendon)
        if _only(model, tendon_joints(model, tendon), joints, f'tendon {tendon}')
    ]
    actuators = []
    for actuator in range(model.nu):
        kind, target = model.actuator_trntype[actuator], model.actuator_trnid[actuator, 0]
        by_tendon = kind == mujoco.mjtTrn.mjTRN_TENDON.value and target in tendons
        if by_tendon or (kind in _IN_JOINTS and target in joints):
            actuators.append(actuator)
    equalities = [i for i in range(model.neq) if _is_rigid(model, i, joints, tendons)]
    gone = {
        _JOINT: joints,
        mujoco.mjtObj.mjOBJ_TENDON.value: tendons,
        mujoco.mjtObj.mjOBJ_ACTUATOR.value: actuators,
    }
    sensors = [
        i
        for i in range(model.nsensor)
        if model.sensor_objid[i] in gone.get(int(model.sensor_objtype[i]), ())
    ]
    return {
        'sensors': sensors, 'actuators': actuators, 'equalities': equalities, 'tendons': tendons,
    }  # fmt: skip


def _is_rigid(
    model: mujoco.MjModel, equality: int, joints: Collection[int], tendons: Collection[int]
) -> bool:
    """Return whether an equality constraint acts on locked joints only."""
    kind = model.eq_type[equality]
    pair = {int(model.eq_obj1id[equality]), int(model.eq_obj2id[equality])}
    if kind == mujoco.mjtEq.mjEQ_JOINT.value:
        return _only(model, pair - {-1}, joints, f'equality constraint {equality}')
    if kind == mujoco.mjtEq.mjEQ_TENDON.value:
        return bool(pair - {-1} <= set(tendons))
    if kind not in (mujoco.mjtEq.mjEQ_CONNECT.value, mujoco.mjtEq.mjEQ_WELD.value):
        return False
    if model.eq_objtype[equality] == mujoco.mjtObj.mjOBJ_SITE.value:
        pair = {int(model.site_bodyid[site]) for site in pair}
    return len({_rigid_body(model, body, joints) for body in pair}) == 1


def _rigid_body(model: mujoco.MjModel, body: int, joints: Collection[int]) -> int:
    """Return the body that carries another one rigidly once the joints are locked."""
    while body and all(
        joint in joints
        for joint in range(
            model.body_jntadr[body], model.body_jntadr[body] + model.body_jntnum[body]
        )
    ):
        body = int(model.body_parentid[body])
    return body


def _only(
    model: mujoco.MjModel, coupled: Collection[int], joints: Collection[int], part: str
) -> bool:
    """Return whether all joints of a part are locked, false if none; SceneError if some are."""
    locked = [joint for joint in coupled if joint in joints]
    if locked and len(locked) < len(coupled):
        free = next(joint for joint in coupled if joint not in joints)
        raise SceneError(
            f'{part} couples joint {_name(model, locked[0])!r}, which neither the robot measures '
            f'nor a command moves, with {_name(model, free)!r}: name both or none of them in '
            '`joints` of the robot'
        )
    return bool(locked)


def _check_poses(model: mujoco.MjModel, before: mujoco.MjData, locked: mujoco.MjModel) -> None:
    """Raise SceneError if a body is elsewhere after its joints were locked."""
    after = scene.kinematics(locked, locked.qpos0)
    for i, name in enumerate(scene.names(model, 'body')):
        j = mujoco.mj_name2id(locked, mujoco.mjtObj.mjOBJ_BODY, name) if name else -1
        if j >= 0 and not (
            np.allclose(before.xpos[i], after.xpos[j], atol=_TOLERANCE)
            and np.allclose(before.xmat[i], after.xmat[j], atol=_TOLERANCE)
        ):
            raise SceneError(
                f'body {name!r}: its joints cannot be held, since it lies in a <frame>; remove '
                'the frame, or the body with `scene_without`'
            )


def _name(model: mujoco.MjModel, joint: int) -> str:
    return scene.names(model, 'joint')[joint]
