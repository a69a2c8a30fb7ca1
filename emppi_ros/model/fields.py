"""
Fields of a MuJoCo model that can be uncertain parameters. Register new ones in `FIELDS`.

A field reads its value from one model, and writes values into the models of a batch. Writing
keeps each model consistent: the inertia scales with the mass, and the feedback of a servo with
its gain. Fields `NOT_IN_MODEL` are in no MuJoCo model: `command_delay` shifts the commands that a
model gets, and Stribeck friction changes from step to step, which only inverse dynamics allow.
"""

from collections.abc import Callable
import math
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from emppi_ros.core.arrays import Array
from emppi_ros.model import scene

_HINGE_ABOVE = 0.5  # between 0, a slide, and 1, a hinge
_ZERO, _ANY = -1e-12, -math.inf  # floors
Expand = Callable[[str], npt.NDArray[Any]]  # field name -> (n, ...) writable values per simulation
Reader = Callable[[mujoco.MjModel, int, int], float]  # (model, index, element) -> value
# (expand, nominal model, index, element, values (n,))
Writer = Callable[[Expand, mujoco.MjModel, int, int, Array], None]


class Access(NamedTuple):
    """How to read and write a field."""

    read: Reader
    write: Writer


class Field(NamedTuple):
    """A field of a MuJoCo model, or of its inputs, that can be uncertain."""

    kind: str  # of the object in `of`: body, geom, joint, tendon or actuator; '' without one
    unit: str  # '' if it has none
    doc: str
    size: int = 1  # elements per object; 1 for a scalar
    floor: float = _ZERO  # values must be above
    ceiling: float = math.inf  # values must be at most
    bends: bool = False  # couples axes of a body: it must not be compiled as simple
    access: Access | None = None  # None: the field of the same name, element by element


def _elements(name: str) -> Access:
    """Access an MjModel field at the row of an object, or at the degrees of freedom of a joint."""

    def rows(model: mujoco.MjModel, index: int) -> npt.NDArray[np.intp]:
        return (
            np.flatnonzero(model.dof_jntid == index) if name[:4] == 'dof_' else np.array([index])
        )

    def read(model: mujoco.MjModel, index: int, element: int) -> float:
        return float(np.ravel(getattr(model, name)[rows(model, index)[0]])[element])

    def write(
        expand: Expand, model: mujoco.MjModel, index: int, element: int, values: Array
    ) -> None:
        place = (slice(None), rows(model, index), element)[: expand(name).ndim]
        expand(name)[place] = values[:, None]

    return Access(read, write)


def access(name: str) -> Access:
    """Return how to read and write a field of `FIELDS`."""
    return FIELDS[name].access or _elements(name)


def _set_mass(expand: Expand, model: mujoco.MjModel, index: int, _: int, values: Array) -> None:
    """Write a mass, and scale the inertia as for a body of another density."""
    expand('body_mass')[:, index] = values
    scale = values / model.body_mass[index]
    expand('body_inertia')[:, index] = model.body_inertia[index] * scale[:, None]


def _set_inertia(expand: Expand, model: mujoco.MjModel, index: int, _: int, values: Array) -> None:
    """Write the largest principal moment; the others keep their ratio to it."""
    moments = model.body_inertia[index]
    expand('body_inertia')[:, index] = moments * (values / moments.max())[:, None]


def _full_inertia(moments: Array, quaternions: Array) -> Array:
    """Return inertia matrices (n, 3, 3) in the frame of the body."""
    axes = Rotation.from_quat(quaternions, scalar_first=True).as_matrix()
    return np.asarray((axes * moments[:, None]) @ axes.swapaxes(1, 2))


def _read_full_inertia(model: mujoco.MjModel, index: int, element: int) -> float:
    matrix = _full_inertia(model.body_inertia[[index]], model.body_iquat[[index]])[0]
    return float(matrix[_FULL[element]])


def _set_full_inertia(
    expand: Expand, model: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write an element; until all are written, principal moments may be negative."""
    moments, quaternions = expand('body_inertia')[:, index], expand('body_iquat')[:, index]
    matrix, (i, j) = _full_inertia(moments, quaternions), _FULL[element]
    # a matrix that has the value up to rounding keeps its axes, so that nothing accumulates
    rows = np.abs(matrix[:, i, j] - values) > _ROUNDING * np.abs(moments).max(axis=1)
    matrix[:, i, j] = matrix[:, j, i] = values
    moments[rows], axes = np.linalg.eigh(matrix[rows])
    axes[:, :, 2] *= np.linalg.det(axes)[:, None]
    quaternions[rows] = Rotation.from_matrix(axes).as_quat(scalar_first=True)


def _set_gain(expand: Expand, model: mujoco.MjModel, index: int, _: int, values: Array) -> None:
    """Write the gain of an actuator, and scale the feedback of a servo with it."""
    scale = (values / model.actuator_gainprm[index, 0])[:, None]
    expand('actuator_gainprm')[:, index, 0] = values
    expand('actuator_biasprm')[:, index, 1:3] = model.actuator_biasprm[index, 1:3] * scale


def _set_type(expand: Expand, model: mujoco.MjModel, index: int, _: int, values: Array) -> None:
    """Write slide (up to 0.5) or hinge (above); both have one degree of freedom."""
    expand('jnt_type')[:, index] = np.where(values > _HINGE_ABOVE, scene.HINGE, scene.SLIDE)


def _set_size(
    expand: Expand, model: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write a size of a primitive geom, and the boxes and spheres around it; its mass stays."""
    expand('geom_size')[:, index, element] = values
    half = expand('geom_size')[:, index] @ _HALVES[int(model.geom_type[index])]
    expand('geom_aabb')[:, index, 3:] = half
    reach = np.linalg.norm(half, axis=-1)
    grown = np.maximum(reach - model.geom_rbound[index], 0.0)
    expand('geom_rbound')[:, index] = reach
    body = model.geom_bodyid[index]
    first = model.body_bvhadr[body]
    nodes = slice(first, first + model.body_bvhnum[body])
    expand('bvh_aabb')[:, nodes, 3:] = model.bvh_aabb[nodes, 3:] + grown[:, None, None]


def size_elements(model: mujoco.MjModel, geom: int) -> int:
    """Return how many sizes the shape of a geom has; 0 for meshes, planes and height fields."""
    return int(np.any(_HALVES.get(int(model.geom_type[geom]), np.zeros((3, 3))), axis=1).sum())


def _spring(model: mujoco.MjModel, index: int) -> int:
    return int(model.jnt_qposadr[index])


def _set_spring(expand: Expand, model: mujoco.MjModel, index: int, _: int, values: Array) -> None:
    expand('qpos_spring')[:, _spring(model, index)] = values


def _set_gravity(
    expand: Expand, model: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    expand('opt.gravity')[:, element] = values


def _tilts(gravity: Array) -> Array:
    """Return tilts (n, 2), rotation vectors [rad] of a base in whose frame gravity is (n, 3)."""
    side = np.hypot(gravity[:, 0], gravity[:, 1])
    factor = np.arctan2(side, -gravity[:, 2]) / np.where(side > 0.0, side, 1.0)
    return factor[:, None] * np.column_stack([-gravity[:, 1], gravity[:, 0]])


def _set_tilt(
    expand: Expand, model: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Turn gravity, whose size stays; element 0 is written first, and read again with 1."""
    gravity = expand('opt.gravity')
    tilts = _tilts(gravity if element else np.tile(model.opt.gravity, (len(values), 1)))
    tilts[:, element] = values
    angle, size = np.linalg.norm(tilts, axis=1), np.linalg.norm(model.opt.gravity)
    side = size * np.sinc(angle / np.pi)
    gravity[:] = np.column_stack([side * tilts[:, 1], -side * tilts[:, 0], -size * np.cos(angle)])


_GEOM = mujoco.mjtGeom
_HALVES = {  # sizes @ this matrix: half sides of the box around a shape
    _GEOM.mjGEOM_SPHERE.value: np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    _GEOM.mjGEOM_CAPSULE.value: np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
    _GEOM.mjGEOM_CYLINDER.value: np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
    _GEOM.mjGEOM_ELLIPSOID.value: np.eye(3),
    _GEOM.mjGEOM_BOX.value: np.eye(3),
}
_MASS = Access(_elements('body_mass').read, _set_mass)
_INERTIA = Access(lambda model, i, _: float(model.body_inertia[i].max()), _set_inertia)
_ROUNDING = 1e-14  # of an inertia
_FULL = (0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)  # MuJoCo's order
_FULL_INERTIA = Access(_read_full_inertia, _set_full_inertia)
_GAIN = Access(_elements('actuator_gainprm').read, _set_gain)
_TYPE = Access(lambda model, i, _: float(model.jnt_type[i] == scene.HINGE), _set_type)
_SIZE = Access(_elements('geom_size').read, _set_size)
_SPRING = Access(lambda model, i, _: float(model.qpos_spring[_spring(model, i)]), _set_spring)
_GRAVITY = Access(lambda model, _, element: float(model.opt.gravity[element]), _set_gravity)
_TILT = Access(
    lambda model, _, element: float(_tilts(model.opt.gravity[None])[0, element]), _set_tilt
)
_OUTSIDE = Access(lambda *_: 0.0, lambda *_: None)
DELAY = 'command_delay'
STRIBECK = 'stribeck_friction', 'stribeck_velocity'
NOT_IN_MODEL = DELAY, *STRIBECK
LONGEST_DELAY_S = 0.5  # sessions keep commands for 1 s, and predict over at most 0.5 s

# Written in this order: an uncertain inertia overrides the one implied by the mass.
FIELDS: dict[str, Field] = {
    'body_mass': Field('body', 'kg', 'the inertia scales with it', floor=0.0, access=_MASS),
    'body_inertia': Field(
        'body', 'kg m^2', 'largest principal moment; the others scale with it',
        floor=0.0, access=_INERTIA,
    ),
    'body_fullinertia': Field(
        'body', 'kg m^2', 'inertia about the centre of mass, along the axes of the body: xx, yy, '
        'zz, xy, xz, yz', 6, _ANY, bends=True, access=_FULL_INERTIA,
    ),
    'body_pos': Field('body', 'm', 'in the frame of the parent', 3, _ANY),
    'body_ipos': Field(
        'body', 'm', 'centre of mass, in the frame of the body', 3, _ANY, bends=True
    ),
    'geom_friction': Field('geom', '', '0: sliding, 1: torsion, 2: rolling', 3),
    'geom_solref': Field(
        'geom', 's or none',
        'contacts: 0: time constant, 1: damping ratio, the smaller the more they bounce', 2, 0.0,
    ),
    'geom_solimp': Field(
        'geom', '', 'contacts: impedance, from 0: soft, to 1: hard; 0: at the surface, 1: deep', 5
    ),
    'geom_size': Field(
        'geom', 'm', 'of a sphere, capsule, cylinder, ellipsoid or box; mass and inertia stay',
        3, 0.0, access=_SIZE,
    ),
    'jnt_type': Field('joint', '', '0: slide, 1: hinge', bends=True, access=_TYPE),
    'jnt_axis': Field('joint', '', 'direction in the frame of the body', 3, _ANY, bends=True),
    'jnt_articulation': Field(  # Abraham et al. 2020, V-B
        'joint', '', 'axis; a slide if x is largest, else a hinge', 3, _ANY,
        bends=True, access=_elements('jnt_axis'),
    ),
    'jnt_pos': Field('joint', 'm', 'position in the frame of the body', 3, _ANY),
    'jnt_stiffness': Field('joint', 'N/m or N m/rad', 'spring stiffness'),
    'jnt_springref': Field(
        'joint', 'm or rad', 'position at which the spring is at rest', floor=_ANY, access=_SPRING
    ),
    'dof_damping': Field('joint', 'N s/m or N m s/rad', 'viscous damping'),
    'dof_frictionloss': Field('joint', 'N or N m', 'dry friction'),
    'dof_armature': Field('joint', 'kg or kg m^2', 'rotor inertia'),
    'tendon_stiffness': Field('tendon', 'N/m', 'spring stiffness'),
    'tendon_damping': Field('tendon', 'N s/m', 'viscous damping'),
    'tendon_frictionloss': Field('tendon', 'N', 'dry friction'),
    'actuator_gear': Field('actuator', '', 'ratio of its force to that of the drive', 6, _ANY),
    'actuator_gain': Field(
        'actuator', "the actuator's own", 'the feedback of a servo scales with it',
        floor=0.0, access=_GAIN,
    ),
    'gravity': Field(
        '', 'm/s^2', 'acceleration of gravity, such as on a tilted table', 3, _ANY, access=_GRAVITY
    ),
    'tilt': Field(
        '', 'rad', 'rotation of the base, which gravity shows: 0: about x, 1: about y',
        2, -1.0, 1.0, access=_TILT,
    ),
    DELAY: Field(
        '', 's', 'time from a command to its effect; of all commands, without `of`',
        ceiling=LONGEST_DELAY_S, access=_OUTSIDE,
    ),
    STRIBECK[0]: Field(
        'joint', 'N or N m', 'Stribeck friction: dry friction at rest minus that in motion; only '
        'for `emppi identify --method states`', access=_OUTSIDE,
    ),
    STRIBECK[1]: Field(
        'joint', 'm/s or rad/s', 'Stribeck friction: the velocity at which 1 / e of it is left',
        floor=1e-3, access=_OUTSIDE,
    ),
}  # fmt: skip
