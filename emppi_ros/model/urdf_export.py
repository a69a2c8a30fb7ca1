"""
Export a scene as URDF, for displays such as rviz, Foxglove and Rerun.

The links are those of `link_tree`. Shapes that a URDF does not have are approximated: a capsule
is a cylinder between two spheres, an ellipsoid a capsule, a plane a thin box. Contact geometry
is left out: the URDF is for displays, not for planning. As rviz shows a link in one colour, each
further colour of a link is a link of its own, fixed to it.
"""

from collections.abc import Mapping, Sequence
import math
from pathlib import Path
from typing import NamedTuple
import warnings
import xml.etree.ElementTree as ET

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.config import UNBOUNDED
from emppi_ros.core.pose import IDENTITY, Pose
from emppi_ros.model import scene
from emppi_ros.model.link_tree import FIXED, FREE, HINGE, Link

_SHOWN_GROUPS = 3  # of geoms: 0 to 2, as in MuJoCo's viewer
_PLANE_M = 0.001  # thickness
_GEOM = mujoco.mjtGeom


class UrdfLimits(NamedTuple):
    """Limits of a joint in a URDF, in rad or m, rad/s or m/s, and Nm or N."""

    lower: float
    upper: float
    velocity: float = UNBOUNDED
    effort: float = UNBOUNDED


class _Geometry(NamedTuple):
    """A URDF geometry, and its pose in the frame of the geom."""

    tag: str
    attributes: dict[str, str]
    pose: Pose


def to_urdf(
    model: mujoco.MjModel,
    links: Sequence[Link],
    name: str,
    limits: Mapping[str, UrdfLimits] | None = None,
) -> str:
    """Return a scene as URDF; `limits` replaces those of the model by joint name."""
    robot = ET.Element('robot', name=name)
    for i, link in enumerate(links):
        item = ET.SubElement(robot, 'link', name=link.name)
        if i > 0 and link.bodies:  # a display warns of a root with mass
            _add_inertial(item, model, link.bodies[0])
        for place, geoms in looks(model, link).items():
            if place != link.name:
                item = ET.SubElement(robot, 'link', name=place)
                joint = ET.SubElement(robot, 'joint', name=f'{place}_fixed', type='fixed')
                ET.SubElement(joint, 'parent', link=link.name)
                ET.SubElement(joint, 'child', link=place)
            for geom in geoms:
                _add_visuals(item, model, geom)
    taken: set[str] = set()
    for link in links[1:]:
        joint = _add_joint(robot, model, link, links[link.parent].name, limits or {})
        if joint.get('name') in taken:  # a fixed link whose body is called like a joint
            joint.set('name', f'{joint.get("name")}_fixed')
        taken.add(str(joint.get('name')))
    ET.indent(robot)
    return f'{ET.tostring(robot, encoding="unicode")}\n'


def looks(model: mujoco.MjModel, link: Link) -> dict[str, list[int]]:
    """Return the shown geoms of a link by colour: by the names of itself and of fixed links."""
    by_color: dict[bytes, list[int]] = {}
    for geom in np.flatnonzero(np.isin(model.geom_bodyid, link.bodies)).tolist():
        color = _color(model, geom)
        if model.geom_group[geom] < _SHOWN_GROUPS and color[3] > 0.0:
            by_color.setdefault(color.tobytes(), []).append(geom)
    names = [link.name, *(f'{link.name}_color{i}' for i in range(2, len(by_color) + 1))]
    return dict(zip(names, by_color.values(), strict=False))


def _color(model: mujoco.MjModel, geom: int) -> Array:
    material = int(model.geom_matid[geom])
    rgba = model.geom_rgba[geom] if material < 0 else model.mat_rgba[material]
    return np.round(rgba.astype(np.float64), 6)


def _add_joint(
    robot: ET.Element,
    model: mujoco.MjModel,
    link: Link,
    parent: str,
    limits: Mapping[str, UrdfLimits],
) -> ET.Element:
    name = scene.names(model, 'joint')[link.joint] if link.joint >= 0 else ''
    name = name or f'{link.name}_joint'
    bounds = limits.get(name, UrdfLimits(-math.inf, math.inf))
    if name not in limits and link.joint >= 0 and model.jnt_limited[link.joint]:
        bounds = UrdfLimits(*model.jnt_range[link.joint].tolist())
    kind = {FIXED: 'fixed', FREE: 'floating', HINGE: 'revolute'}.get(link.kind, 'prismatic')
    if kind == 'revolute' and not (math.isfinite(bounds.lower) and math.isfinite(bounds.upper)):
        kind = 'continuous'
    joint = ET.SubElement(robot, 'joint', name=name, type=kind)
    _add_origin(joint, link.origin)
    ET.SubElement(joint, 'parent', link=parent)
    ET.SubElement(joint, 'child', link=link.name)
    if kind in ('revolute', 'continuous', 'prismatic'):
        ET.SubElement(joint, 'axis', xyz=_text(link.axis))
        written = {'velocity': bounds.velocity, 'effort': bounds.effort}
        if kind != 'continuous':
            written |= {'lower': bounds.lower, 'upper': bounds.upper}
        for key, value in written.items():
            written[key] = min(max(float(value), -UNBOUNDED), UNBOUNDED)
        ET.SubElement(joint, 'limit', {key: repr(value) for key, value in written.items()})
    return joint


def _add_inertial(item: ET.Element, model: mujoco.MjModel, body: int) -> None:
    mass = float(model.body_mass[body])
    if mass <= 0.0:
        return
    inertial = ET.SubElement(item, 'inertial')
    _add_origin(inertial, Pose(model.body_ipos[body], model.body_iquat[body]))
    ET.SubElement(inertial, 'mass', value=repr(mass))
    xx, yy, zz = (repr(value) for value in model.body_inertia[body].tolist())
    ET.SubElement(inertial, 'inertia', ixx=xx, iyy=yy, izz=zz, ixy='0', ixz='0', iyz='0')


def _add_visuals(item: ET.Element, model: mujoco.MjModel, geom: int) -> None:
    pose = Pose(model.geom_pos[geom], model.geom_quat[geom])
    for shape in _shapes(model, geom):
        visual = ET.SubElement(item, 'visual')
        _add_origin(visual, pose @ shape.pose)
        geometry = ET.SubElement(visual, 'geometry')
        ET.SubElement(geometry, shape.tag, shape.attributes)
        look = ET.SubElement(visual, 'material', name=f'geom{geom}')
        ET.SubElement(look, 'color', rgba=_text(_color(model, geom)))


def _shapes(model: mujoco.MjModel, geom: int) -> list[_Geometry]:
    """Return the URDF geometries of a geom; none for an unbounded plane or a height field."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == _GEOM.mjGEOM_PLANE.value and size[0] > 0.0 and size[1] > 0.0:
        half = np.array([size[0], size[1], 0.5 * _PLANE_M])
        return [_box(half, np.array([0.0, 0.0, -0.5 * _PLANE_M]))]
    if kind == _GEOM.mjGEOM_SPHERE.value:
        return [_ball(size[0], np.zeros(3))]
    if kind == _GEOM.mjGEOM_CYLINDER.value:
        return [_rod(size[0], size[1], IDENTITY.quaternion)]
    if kind == _GEOM.mjGEOM_CAPSULE.value:
        return _pill(size[0], size[1], IDENTITY.quaternion)
    if kind == _GEOM.mjGEOM_ELLIPSOID.value:  # a capsule along the longest axis
        longest = int(np.argmax(size))
        radius = math.sqrt(np.prod(np.delete(size, longest)))
        turn = np.empty(4)
        mujoco.mju_quatZ2Vec(turn, np.eye(3)[longest])
        return _pill(radius, size[longest] - radius, turn)
    if kind == _GEOM.mjGEOM_BOX.value:
        return [_box(size, np.zeros(3))]
    return [_mesh(model, geom)] if kind == _GEOM.mjGEOM_MESH.value else []


def _mesh(model: mujoco.MjModel, geom: int) -> _Geometry:
    """Return the file of a mesh, or a box around a mesh without one."""
    mesh = int(model.geom_dataid[geom])
    start = int(model.mesh_pathadr[mesh])
    name = '' if start < 0 else bytes(model.paths[start:]).split(b'\0', 1)[0].decode()
    if not Path(name).is_file():
        return _box(model.geom_aabb[geom, 3:], model.geom_aabb[geom, :3])
    uri, scale = Path(name).resolve().as_uri(), _text(model.mesh_scale[mesh])
    # the compiler moved the mesh to its principal axes: undo that
    moved = Pose(model.mesh_pos[mesh], model.mesh_quat[mesh])
    return _Geometry('mesh', {'filename': uri, 'scale': scale}, moved.inverse())


def _box(half: Array, centre: Array) -> _Geometry:
    return _Geometry('box', {'size': _text(2.0 * half)}, Pose(centre, IDENTITY.quaternion))


def _ball(radius: float, centre: Array) -> _Geometry:
    pose = Pose(centre, IDENTITY.quaternion)
    return _Geometry('sphere', {'radius': repr(float(radius))}, pose)


def _rod(radius: float, half: float, turn: Array) -> _Geometry:
    size = {'radius': repr(float(radius)), 'length': repr(2.0 * float(half))}
    return _Geometry('cylinder', size, Pose(np.zeros(3), turn))


def _pill(radius: float, half: float, turn: Array) -> list[_Geometry]:
    """Return a cylinder of a half length along z, turned, between two spheres."""
    tip = np.empty(3)
    mujoco.mju_rotVecQuat(tip, np.array([0.0, 0.0, half]), turn)
    return [_rod(radius, half, turn), _ball(radius, tip), _ball(radius, -tip)]


def _add_origin(item: ET.Element, pose: Pose) -> None:
    with warnings.catch_warnings(action='ignore'):  # roll and yaw turn about one axis: yaw is 0
        rpy = pose.rotation.as_euler('xyz')
    ET.SubElement(item, 'origin', xyz=_text(pose.position), rpy=_text(rpy))


def _text(values: Sequence[float] | Array) -> str:
    return ' '.join(repr(float(value)) for value in values)
