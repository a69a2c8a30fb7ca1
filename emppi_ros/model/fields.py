"""
Fields of a MuJoCo model that parameters write to, each with its writer.

Writing keeps a model consistent: a mass scales its inertia, a servo's feedback its gain.
"""

from collections.abc import Callable
import math
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_HINGE_ABOVE = 0.5  # between 0, a slide, and 1, a hinge
Expand = Callable[[str], npt.NDArray]  # field name -> (n, ...) writable values per simulation
Writer = Callable[[Expand, mujoco.MjModel, int, int, Array], None]


class Field(NamedTuple):
    """One writable kind of parameter."""

    kind: str  # what `of` names: body, geom, joint or actuator
    size: int  # elements per object; 1 for a scalar
    floor: float  # physics needs a value above this
    write: Writer
    unit: str  # '' if it has none
    doc: str


def _row(name: str) -> Writer:
    """Return a writer of element `element` of row `index` of a field."""

    def write(
        expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
    ) -> None:
        rows = expand(name)[:, index]
        if rows.ndim == 1:
            expand(name)[:, index] = values
        else:
            rows[:, element] = values

    return write


def _dofs(name: str) -> Writer:
    """Return a writer of a field at every degree of freedom of a joint."""

    def write(
        expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
    ) -> None:
        dofs = nominal.dof_jntid == index
        column = values.reshape(-1, *[1] * (expand(name).ndim - 1))
        expand(name)[:, dofs] = column

    return write


def _mass(
    expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write a mass and scale the inertia with it, as a body of another density."""
    expand('body_mass')[:, index] = values
    scale = values / nominal.body_mass[index]
    expand('body_inertia')[:, index] = nominal.body_inertia[index] * scale[:, None]


def _inertia(
    expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write the largest principal moment; the others keep their ratio, so it stays physical."""
    moments = nominal.body_inertia[index]
    expand('body_inertia')[:, index] = moments * (values / moments.max())[:, None]


def _gain(
    expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write an actuator's gain; a servo's feedback terms scale with it."""
    scale = (values / nominal.actuator_gainprm[index, 0])[:, None]
    expand('actuator_gainprm')[:, index, 0] = values
    expand('actuator_biasprm')[:, index, 1:3] = nominal.actuator_biasprm[index, 1:3] * scale


def _joint_type(
    expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write slide (below 0.5) or hinge (above); both have one degree of freedom."""
    hinge, slide = mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value
    expand('jnt_type')[:, index] = np.where(values > _HINGE_ABOVE, hinge, slide)


# Written in this order: an inertia given by itself overrides what the mass implies.
FIELDS: dict[str, Field] = {
    'body_mass': Field('body', 1, 0.0, _mass, 'kg', 'the inertia scales with it'),
    'body_inertia': Field(
        'body', 1, 0.0, _inertia, 'kg m^2', 'largest principal moment; others keep their ratio'
    ),
    'body_pos': Field(
        'body', 3, -math.inf, _row('body_pos'), 'm', "in the parent's frame: a link's length"
    ),
    'body_ipos': Field('body', 3, -math.inf, _row('body_ipos'), 'm', 'centre of mass'),
    'geom_friction': Field(
        'geom', 3, -1e-12, _row('geom_friction'), '', '0: sliding, 1: torsion, 2: rolling'
    ),
    'jnt_type': Field('joint', 1, -1e-12, _joint_type, '', '0: slide, 1: hinge'),
    'jnt_axis': Field(
        'joint', 3, -math.inf, _row('jnt_axis'), '', "direction in the body's frame"
    ),
    'jnt_articulation': Field(  # Abraham et al. 2020, V-B
        'joint',
        3,
        -math.inf,
        _row('jnt_axis'),
        '',
        'axis and type: a slide along x where x is its largest element, else a hinge about it',
    ),
    'jnt_pos': Field('joint', 3, -math.inf, _row('jnt_pos'), 'm', "in the body's frame"),
    'jnt_stiffness': Field(
        'joint', 1, -1e-12, _row('jnt_stiffness'), 'N/m or N m/rad', 'of the spring in it'
    ),
    'dof_damping': Field(
        'joint', 1, -1e-12, _dofs('dof_damping'), 'N s/m or N m s/rad', 'grows with the speed'
    ),
    'dof_frictionloss': Field(
        'joint', 1, -1e-12, _dofs('dof_frictionloss'), 'N or N m', 'dry friction'
    ),
    'dof_armature': Field(
        'joint', 1, -1e-12, _dofs('dof_armature'), 'kg or kg m^2', 'inertia of the drive'
    ),
    'actuator_gain': Field(
        'actuator', 1, 0.0, _gain, "the actuator's own", "a servo's feedback scales with it"
    ),
}
