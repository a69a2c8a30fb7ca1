"""
The bodies of a scene as links that one joint each connects, as in a URDF and in `/tf`.

A MuJoCo body may have several joints, and a joint's anchor may lie anywhere; a joint of a URDF
turns its link about the link's own origin. Links without geometry are inserted where needed.
"""

from collections.abc import Collection
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import IDENTITY, Pose
from emppi_ros.model import scene

FIXED, HINGE, SLIDE, FREE = 'fixed', 'hinge', 'slide', 'free'
_TYPES = {
    scene.HINGE: HINGE,
    scene.SLIDE: SLIDE,
    mujoco.mjtJoint.mjJNT_BALL.value: FREE,  # a URDF has no ball joint
}


class Link(NamedTuple):
    """A link, and the joint between its parent and it."""

    name: str  # of the frame
    parent: int  # index; -1 for the root, which is the first link
    bodies: tuple[int, ...]  # whose geometry it has; empty for an inserted link
    kind: str  # of the joint
    joint: int  # of the model; -1 for fixed links and for free ones whose pose is measured
    axis: Array  # (3,) unit vector in the frame of the link
    origin: Pose  # in the parent at joint position 0; of a free link its pose in the model


_NO_AXIS = np.array([1.0, 0.0, 0.0])
_AT_ORIGIN = [0, 0, 0, 1, 0, 0, 0]  # position and quaternion


def link_tree(
    model: mujoco.MjModel, root: str, prefix: str = '', measured: Collection[int] = ()
) -> list[Link]:
    """
    Return the links of a scene, parents first.

    The first one is the world and has the name `root`. A body of that name that is fixed at the
    world's origin is the same link; elsewhere it is called `NAME_body`. `prefix` is put before
    all other names. Bodies in `measured` are connected to the root by free links.
    """
    places: dict[int, int] = {0: 0}  # of bodies among the links
    merged = [0]
    links: list[Link] = []
    taken = {root}
    names = scene.names(model, 'body')
    data = scene.kinematics(model, model.qpos0)
    for body in range(1, model.nbody):
        origin = Pose(model.body_pos[body].copy(), model.body_quat[body].copy())
        parent = places[int(model.body_parentid[body])]
        fixed = not model.body_jntnum[body] and model.body_mocapid[body] < 0
        at_world = np.allclose([*origin.position, *origin.quaternion], _AT_ORIGIN, atol=1e-9)
        if names[body] == root and parent == 0 and fixed and at_world:
            places[body] = 0
            merged.append(body)
            continue
        name = prefix + (names[body] or f'body{body}')
        name = f'{name}_body' if name in taken else name
        taken.add(name)
        if body in measured:
            at = Pose(data.xpos[body].copy(), data.xquat[body].copy())
            links.append(Link(name, 0, (body,), FREE, -1, _NO_AXIS, at))
        else:
            links += _chain(model, body, name, origin, parent, len(links) + 1)
        places[body] = len(links)
    first = Link(root, -1, tuple(merged), FIXED, -1, _NO_AXIS, IDENTITY)
    return [first, *links]


def link_poses(model: mujoco.MjModel, links: list[Link], qpos: Array) -> list[Pose]:
    """Return the pose of each link in its parent, in a configuration (nq,)."""
    return [_link_pose(model, link, qpos) for link in links]


def _chain(
    model: mujoco.MjModel, body: int, name: str, origin: Pose, parent: int, index: int
) -> list[Link]:
    """Return the links from a body's parent to the body, one for each joint; the body's last."""
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    if count and model.jnt_type[first] == scene.FREE:
        return [Link(name, parent, (body,), FREE, first, _NO_AXIS, origin)]
    chain: list[Link] = []
    for joint in range(first, first + count):
        kind, axis = _TYPES[int(model.jnt_type[joint])], model.jnt_axis[joint].copy()
        anchor = np.zeros(3) if kind == SLIDE else model.jnt_pos[joint].copy()
        zero = _motion(kind, axis, -float(model.qpos0[model.jnt_qposadr[joint]]))
        origin = origin @ Pose(anchor, IDENTITY.quaternion) @ zero
        last = joint == first + count - 1 and not anchor.any()
        label = name if last else f'{name}_{scene.names(model, "joint")[joint] or joint}'
        bodies = (body,) if last else ()
        chain.append(Link(label, parent, bodies, kind, joint, axis, origin))
        parent, index = index, index + 1
        origin = Pose(-anchor, IDENTITY.quaternion)
    if not chain or not chain[-1].bodies:
        chain.append(Link(name, parent, (body,), FIXED, -1, _NO_AXIS, origin))
    return chain


def _motion(kind: str, axis: Array, q: float) -> Pose:
    """Return the pose after a motion of a joint by q; of a ball joint or free one none."""
    if kind == SLIDE:
        return Pose(q * axis, IDENTITY.quaternion)
    turn = np.array(IDENTITY.quaternion)
    if kind == HINGE:
        mujoco.mju_axisAngle2Quat(turn, axis, q)
    return Pose(np.zeros(3), turn)


def _link_pose(model: mujoco.MjModel, link: Link, qpos: Array) -> Pose:
    """Return the pose of a link in its parent, in a configuration (nq,)."""
    if link.joint < 0:
        return link.origin
    q = qpos[model.jnt_qposadr[link.joint] :]
    if link.kind != FREE:
        return link.origin @ _motion(link.kind, link.axis, float(q[0]))
    if model.jnt_type[link.joint] == scene.FREE:
        return Pose(q[:3].copy(), q[3:7] / np.linalg.norm(q[3:7]))
    return link.origin @ Pose(np.zeros(3), q[:4] / np.linalg.norm(q[:4]))
