"""Compare an inferred tree with the model that moved."""

from typing import NamedTuple

import mujoco
import numpy as np

from benchmarks.articulation.mechanisms import Mechanism
from emppi_ros.articulation.joint_models import AXIAL
from emppi_ros.articulation.topology import WORLD, KinematicTree, TreeJoint
from emppi_ros.core.arrays import Array

_KINDS = {mujoco.mjtJoint.mjJNT_FREE: 'free', mujoco.mjtJoint.mjJNT_SLIDE: 'prismatic'}


class TrueJoint(NamedTuple):
    """A joint of the model, with axis and pivot in the world at the first frame."""

    parent: str
    child: str
    kind: str
    axis: Array
    pivot: Array


class TreeComparison(NamedTuple):
    """
    How an inferred tree differs from the truth.

    Attributes
    ----------
    topology : bool
        Whether the same parts are joined, bodies that are welded together taken for one.
    kinds : bool
        Whether the types of all joints are right.
    undecided : bool
        Whether a type is undecided, and all others are right.
    axis_rad, pivot_m : tuple of float
        Errors of the axes, and of the places of hinges and screws across their axes.

    """

    topology: bool
    kinds: bool
    undecided: bool
    axis_rad: tuple[float, ...]
    pivot_m: tuple[float, ...]


def joints(mechanism: Mechanism) -> list[TrueJoint]:
    """Return the joints of a mechanism; bodies without one are welded (static)."""
    model, data = mechanism.model, mujoco.MjData(mechanism.model)
    data.qpos = mechanism.qpos[0]
    mujoco.mj_kinematics(model, data)
    found = []
    for body in range(1, model.nbody):
        parent = model.body(int(model.body_parentid[body])).name or WORLD
        name = model.body(body).name
        first = int(model.body_jntadr[body])
        if first < 0:
            found.append(TrueJoint(parent, name, 'static', np.zeros(3), np.zeros(3)))
            continue
        kind = _KINDS.get(mujoco.mjtJoint(model.jnt_type[first]), 'revolute')
        if mechanism.pitch and model.body_jntnum[body] > 1:
            kind = 'screw'
        axis, pivot = data.xaxis[first].copy(), data.xanchor[first].copy()
        found.append(TrueJoint(parent, name, kind, axis, pivot))
    return found


def compare(tree: KinematicTree, mechanism: Mechanism) -> TreeComparison:
    """Return how an inferred tree differs from the mechanism that moved."""
    true = joints(mechanism)
    weld = _groups([(one.parent, one.child) for one in true if one.kind == 'static'])
    # a free joint on the world says that nothing holds a part: which part has it is arbitrary
    expected = {
        frozenset((weld(one.parent), weld(one.child))): one
        for one in true
        if one.kind not in ('static', 'free')
    }
    inferred = {
        frozenset((weld(one.parent), weld(one.child))): one
        for one in tree.joints
        if one.kind not in ('static', 'free') and weld(one.parent) != weld(one.child)
    }
    free = sum(one.kind == 'free' for one in true) == sum(
        one.kind == 'free' for one in tree.joints
    )
    inner = [one for one in tree.joints if weld(one.parent) == weld(one.child)]
    topology = free and set(expected) == set(inferred) and all(
        one.kind in ('static', 'undecided') for one in inner
    )  # fmt: skip
    if not topology:
        return TreeComparison(False, False, False, (), ())
    pairs = [(one, inferred[edge]) for edge, one in expected.items()]
    right = [a.kind == b.kind for a, b in pairs] + [one.kind == 'static' for one in inner]
    open_ = [b.kind == 'undecided' for _, b in pairs] + [one.kind != 'static' for one in inner]
    axes, pivots = [], []
    for one, found in pairs:
        if one.kind == found.kind:
            axis, pivot = errors(mechanism, one, found)
            axes.append(axis)
            pivots += [pivot] if one.kind != 'prismatic' else []
    allowed = all(r or o for r, o in zip(right, open_, strict=True))
    return TreeComparison(True, all(right), allowed and any(open_), tuple(axes), tuple(pivots))


def errors(mechanism: Mechanism, true: TrueJoint, found: TreeJoint) -> tuple[float, float]:
    """
    Return the angle between the axes, and the distance of the inferred axis from the true one.

    Both in the frame of the inferred parent; the distance is that of the point on the true axis
    that is nearest to the child.
    """
    assert found.model is not None and found.kind in AXIAL  # the kinds are the same
    data = mujoco.MjData(mechanism.model)
    data.qpos = mechanism.qpos[0]
    mujoco.mj_kinematics(mechanism.model, data)
    rotation, origin = np.eye(3), np.zeros(3)
    if found.parent != WORLD:
        rotation = data.body(found.parent).xmat.reshape(3, 3)
        origin = data.body(found.parent).xpos
    child = data.body(found.child).xpos
    point = true.pivot + true.axis * float(true.axis @ (child - true.pivot))
    axis, point = rotation.T @ true.axis, rotation.T @ (point - origin)
    across = np.cross(point - found.model.frame.position, found.model.axis)
    sine = np.linalg.norm(np.cross(axis, found.model.axis))
    angle = np.arctan2(sine, abs(float(axis @ found.model.axis)))
    return float(angle), float(np.linalg.norm(across))


class _Groups(dict[str, str]):
    """Names by the first name of their group."""

    def __call__(self, name: str) -> str:
        while name in self:
            name = self[name]
        return name


def _groups(pairs: list[tuple[str, str]]) -> _Groups:
    result = _Groups()
    for first, second in pairs:
        a, b = result(first), result(second)
        if a != b:
            result[b] = a
    return result
