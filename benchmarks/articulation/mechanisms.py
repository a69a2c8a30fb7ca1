"""
Mechanisms with random geometry and motion, and the tracks that a noisy tracker reports.

`compare` says how an inferred tree differs from the mechanism that moved.
"""

from collections.abc import Callable
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.articulation import tracks
from emppi_ros.articulation.joint_models import AXIAL
from emppi_ros.articulation.topology import WORLD, KinematicTree, TreeJoint
from emppi_ros.articulation.tracks import Noise, Tracks
from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import to_quaternion

RATE_HZ, FRAMES = 30.0, 150
OUTLIER_M = 0.3  # largest shift of an outlier, along each axis
_HEAD = '<mujoco><compiler autolimits="true"/><worldbody>'
_TAIL = '</worldbody></mujoco>'
_KINDS = {mujoco.mjtJoint.mjJNT_FREE: 'free', mujoco.mjtJoint.mjJNT_SLIDE: 'prismatic'}


class Mechanism(NamedTuple):
    """A model, and a motion of its joints: qpos (T, nq)."""

    model: mujoco.MjModel
    qpos: Array
    pitch: float = 0.0  # of the screw whose translation is the joint `thread` [m/rad]


def _smooth(rng: np.random.Generator, low: float, high: float) -> Array:
    """Return a smooth random motion (T,) between two bounds, that comes close to both."""
    time = np.arange(FRAMES) / FRAMES
    rates, phases = rng.uniform(0.5, 2.5, 3), rng.uniform(0.0, 2.0 * np.pi, 3)
    wave = np.sin(2.0 * np.pi * np.outer(time, rates) + phases).sum(axis=1)
    return low + (high - low) * (wave - wave.min()) / np.ptp(wave)


def _once(low: float, high: float, begin: int = 0, end: int = FRAMES) -> Array:
    """Return a motion (T,) from one bound to another between two frames, smooth at both."""
    share = np.clip((np.arange(FRAMES) - begin) / max(end - begin - 1, 1), 0.0, 1.0)
    return low + (high - low) * (3.0 * share**2 - 2.0 * share**3)


def _unit(rng: np.random.Generator, about: Array, spread: float) -> Array:
    """Return a random unit vector about another one."""
    vector = about + spread * rng.standard_normal(3)
    return vector / np.linalg.norm(vector)


def _text(vector: Array) -> str:
    return ' '.join(f'{value:.9g}' for value in vector)


def _body(name: str, place: Array, rng: np.random.Generator, joint: str, inner: str = '') -> str:
    """Return a body with a random orientation of its frame."""
    turn = to_quaternion(Rotation.random(random_state=rng))
    return (
        f'<body name="{name}" pos="{_text(place)}" quat="{_text(turn)}">{joint}'
        f'<geom size="0.02"/>{inner}</body>'
    )


def _hinge(name: str, rng: np.random.Generator, reach: float = 0.2) -> str:
    axis, place = _unit(rng, np.zeros(3), 1.0), _unit(rng, np.zeros(3), 1.0) * reach
    return f'<joint name="{name}" type="hinge" axis="{_text(axis)}" pos="{_text(place)}"/>'


def _slide(name: str, rng: np.random.Generator) -> str:
    return f'<joint name="{name}" type="slide" axis="{_text(_unit(rng, np.zeros(3), 1.0))}"/>'


def _model(body: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(_HEAD + body + _TAIL)


def _place(rng: np.random.Generator) -> Array:
    return rng.uniform([0.5, -0.3, 0.2], [1.0, 0.3, 0.8])


def _links(rng: np.random.Generator, base: str) -> str:
    """Return three links in a chain, the first with a given joint."""
    step = [_unit(rng, np.zeros(3), 1.0) * 0.3 for _ in range(2)]
    third = _body('link3', step[1], rng, _hinge('joint3', rng))
    second = _body('link2', step[0], rng, _hinge('joint2', rng), third)
    return _body('link1', _place(rng), rng, base, second)


def chain(rng: np.random.Generator) -> Mechanism:
    """Return three links on hinges with random axes."""
    model = _model(_links(rng, _hinge('joint1', rng)))
    return Mechanism(model, np.column_stack([_smooth(rng, -1.2, 1.2) for _ in range(3)]))


def floating_chain(rng: np.random.Generator) -> Mechanism:
    """Return three links on two hinges, the first of which moves freely."""
    model = _model(_links(rng, '<freejoint name="base"/>'))
    place = np.column_stack([_smooth(rng, -0.2, 0.2) for _ in range(3)]) + model.qpos0[:3]
    turn = np.column_stack([_smooth(rng, -0.8, 0.8) for _ in range(3)])
    quaternion = Rotation.from_rotvec(turn).as_quat()[:, [3, 0, 1, 2]]
    joints = np.column_stack([_smooth(rng, -1.2, 1.2) for _ in range(2)])
    return Mechanism(model, np.hstack([place, quaternion, joints]))


def cartpole(rng: np.random.Generator) -> Mechanism:
    """Return a cart on a rail, and a pole on it."""
    pole = _body('pole', _unit(rng, np.zeros(3), 1.0) * 0.25, rng, _hinge('hinge', rng, 0.25))
    model = _model(_body('cart', _place(rng), rng, _slide('rail', rng), pole))
    return Mechanism(model, np.column_stack([_smooth(rng, -0.3, 0.3), _smooth(rng, -1.5, 1.5)]))


def _cabinet(rng: np.random.Generator) -> mujoco.MjModel:
    drawer = _body('drawer', _unit(rng, np.zeros(3), 1.0) * 0.3, rng, _slide('slide', rng))
    door = _body('door', _unit(rng, np.zeros(3), 1.0) * 0.3, rng, _hinge('hinge', rng, 0.3))
    return _model(_body('cabinet', _place(rng), rng, '', drawer + door))


def cabinet_together(rng: np.random.Generator) -> Mechanism:
    """Return a cabinet whose drawer and door open at the same time."""
    return Mechanism(_cabinet(rng), np.column_stack([_once(0.0, 0.3), _once(0.0, 1.2)]))


def cabinet_in_turn(rng: np.random.Generator) -> Mechanism:
    """Return a cabinet whose drawer opens, and then its door."""
    half = FRAMES // 2
    motion = np.column_stack([_once(0.0, 0.3, 0, half), _once(0.0, 1.2, half)])
    return Mechanism(_cabinet(rng), motion)


def jar(rng: np.random.Generator, pitch: float = 0.004) -> Mechanism:
    """Return a jar that stands, and whose lid turns by one and a half turns."""
    axis = _text(_unit(rng, np.zeros(3), 1.0))
    joints = (
        f'<joint name="turn" type="hinge" axis="{axis}"/>'
        f'<joint name="thread" type="slide" axis="{axis}"/>'
    )
    lid = _body('lid', np.array([0.0, 0.0, 0.12]), rng, joints)
    model = _model(_body('jar', _place(rng), rng, '', lid))
    turn = _once(0.0, 3.0 * np.pi)
    return Mechanism(model, np.column_stack([turn, pitch * turn]), pitch)


def short_drawer(rng: np.random.Generator) -> Mechanism:
    """Return a drawer that opens by 10 mm."""
    model = _model(_body('drawer', _place(rng), rng, _slide('slide', rng)))
    return Mechanism(model, _once(0.0, 0.01)[:, None])


def short_door(rng: np.random.Generator) -> Mechanism:
    """Return a door that opens by 3 degrees."""
    model = _model(_body('door', _place(rng), rng, _hinge('hinge', rng, 0.3)))
    return Mechanism(model, _once(0.0, float(np.radians(3.0)))[:, None])


MECHANISMS: dict[str, Callable[[np.random.Generator], Mechanism]] = {
    'chain': chain,
    'cartpole': cartpole,
    'cabinet-together': cabinet_together,
    'cabinet-in-turn': cabinet_in_turn,
    'floating-chain': floating_chain,
    'jar': jar,
    'short-drawer': short_drawer,
    'short-door': short_door,
}


def poses(mechanism: Mechanism) -> dict[str, tuple[Array, Array]]:
    """Return positions (T, 3) and quaternions wxyz (T, 4) of all bodies, by `mj_kinematics`."""
    model, data = mechanism.model, mujoco.MjData(mechanism.model)
    names = [model.body(i).name for i in range(1, model.nbody)]
    by_name = {name: (np.empty((FRAMES, 3)), np.empty((FRAMES, 4))) for name in names}
    for frame, qpos in enumerate(mechanism.qpos):
        data.qpos = qpos
        mujoco.mj_kinematics(model, data)
        for name, (position, quaternion) in by_name.items():
            position[frame], quaternion[frame] = data.body(name).xpos, data.body(name).xquat
    return by_name


def track(mechanism: Mechanism, noise: Noise, outliers: float, rng: np.random.Generator) -> Tracks:
    """Return tracks with noise; a share of `outliers` of the poses of each part is wrong."""
    parts = []
    for name, (position, quaternion) in poses(mechanism).items():
        count = len(position)
        rotation = Rotation.from_quat(quaternion[:, [1, 2, 3, 0]])
        turned = noise.rotation_sd_rad * rng.standard_normal((count, 3))
        seen = position + noise.position_sd_m * rng.standard_normal((count, 3))
        wrong = rng.random(count) < outliers
        seen[wrong] += rng.uniform(-OUTLIER_M, OUTLIER_M, (int(wrong.sum()), 3))
        measured = (Rotation.from_rotvec(turned) * rotation).as_quat()
        if wrong.any():
            measured[wrong] = Rotation.random(int(wrong.sum()), random_state=rng).as_quat()
        parts.append(tracks.from_arrays(name, seen, measured[:, [3, 0, 1, 2]], noise=noise))
    return Tracks(np.arange(FRAMES) / RATE_HZ, tuple(parts))


class TrueJoint(NamedTuple):
    """A joint of the model, with axis and pivot in the world at the first frame."""

    parent: str
    child: str
    kind: str
    axis: Array
    pivot: Array


class TreeComparison(NamedTuple):
    """How an inferred tree differs from the truth."""

    # whether the same parts are joined, bodies that are welded together taken for one
    topology: bool
    kinds: bool  # whether the types of all joints are right
    undecided: bool  # whether a type is undecided, and all others are right
    # errors of the axes, and of the places of hinges and screws across their axes
    axis_rad: tuple[float, ...]
    pivot_m: tuple[float, ...]


def joints(mechanism: Mechanism) -> list[TrueJoint]:
    """Return the joints of a mechanism; bodies without one are welded (static)."""
    model, data = mechanism.model, mujoco.MjData(mechanism.model)
    data.qpos = mechanism.qpos[0]
    mujoco.mj_kinematics(model, data)
    result = []
    for body in range(1, model.nbody):
        parent = model.body(int(model.body_parentid[body])).name or WORLD
        name = model.body(body).name
        first = int(model.body_jntadr[body])
        if first < 0:
            result.append(TrueJoint(parent, name, 'static', np.zeros(3), np.zeros(3)))
            continue
        kind = _KINDS.get(mujoco.mjtJoint(model.jnt_type[first]), 'revolute')
        if mechanism.pitch and model.body_jntnum[body] > 1:
            kind = 'screw'
        axis, pivot = data.xaxis[first].copy(), data.xanchor[first].copy()
        result.append(TrueJoint(parent, name, kind, axis, pivot))
    return result


def compare(tree: KinematicTree, mechanism: Mechanism) -> TreeComparison:
    """Return how an inferred tree differs from the mechanism that moved."""
    true = joints(mechanism)
    welded = {joint.child: joint.parent for joint in true if joint.kind == 'static'}

    def weld(name: str) -> str:
        """Return the part that a part is welded to, or itself."""
        while name in welded:
            name = welded[name]
        return name

    # a free joint on the world says that nothing holds a part: which part has it is arbitrary
    expected = {
        frozenset((weld(joint.parent), weld(joint.child))): joint
        for joint in true
        if joint.kind not in ('static', 'free')
    }
    inferred = {
        frozenset((weld(joint.parent), weld(joint.child))): joint
        for joint in tree.joints
        if joint.kind not in ('static', 'free') and weld(joint.parent) != weld(joint.child)
    }
    free = sum(joint.kind == 'free' for joint in true) == sum(
        joint.kind == 'free' for joint in tree.joints
    )
    inner = [joint for joint in tree.joints if weld(joint.parent) == weld(joint.child)]
    topology = free and set(expected) == set(inferred) and all(
        joint.kind in ('static', 'undecided') for joint in inner
    )  # fmt: skip
    if not topology:
        return TreeComparison(False, False, False, (), ())
    pairs = [(joint, inferred[edge]) for edge, joint in expected.items()]
    right = [a.kind == b.kind for a, b in pairs] + [joint.kind == 'static' for joint in inner]
    open_ = [b.kind == 'undecided' for _, b in pairs] + [joint.kind != 'static' for joint in inner]
    axes, pivots = [], []
    for joint, inferred_joint in pairs:
        if joint.kind == inferred_joint.kind:
            axis, pivot = errors(mechanism, joint, inferred_joint)
            axes.append(axis)
            pivots += [pivot] if joint.kind != 'prismatic' else []
    allowed = all(r or o for r, o in zip(right, open_, strict=True))
    return TreeComparison(True, all(right), allowed and any(open_), tuple(axes), tuple(pivots))


def errors(mechanism: Mechanism, true: TrueJoint, inferred: TreeJoint) -> tuple[float, float]:
    """
    Return the angle between the axes, and the distance of the inferred axis from the true one.

    Both in the frame of the inferred parent; the distance is that of the point on the true axis
    that is nearest to the child.
    """
    assert inferred.model is not None and inferred.kind in AXIAL  # the kinds are the same
    data = mujoco.MjData(mechanism.model)
    data.qpos = mechanism.qpos[0]
    mujoco.mj_kinematics(mechanism.model, data)
    rotation, origin = np.eye(3), np.zeros(3)
    if inferred.parent != WORLD:
        rotation = data.body(inferred.parent).xmat.reshape(3, 3)
        origin = data.body(inferred.parent).xpos
    child = data.body(inferred.child).xpos
    point = true.pivot + true.axis * float(true.axis @ (child - true.pivot))
    axis, point = rotation.T @ true.axis, rotation.T @ (point - origin)
    across = np.cross(point - inferred.model.frame.position, inferred.model.axis)
    sine = np.linalg.norm(np.cross(axis, inferred.model.axis))
    angle = np.arctan2(sine, abs(float(axis @ inferred.model.axis)))
    return float(angle), float(np.linalg.norm(across))
