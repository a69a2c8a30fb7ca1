"""
Fields of a MuJoCo model that can be uncertain parameters. Register new ones in `FIELDS`.

A field reads its value from one model, and writes values into the models of a batch. Writing
keeps each model consistent: the inertia scales with the mass, and the feedback of a servo with
its gain. `command_delay` is in no MuJoCo model: it shifts the commands that a model gets.
"""

from collections.abc import Callable
import math
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array

_HINGE, _SLIDE = mujoco.mjtJoint.mjJNT_HINGE.value, mujoco.mjtJoint.mjJNT_SLIDE.value
_HINGE_ABOVE = 0.5  # between 0, a slide, and 1, a hinge
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

    kind: str  # of the object in `of`: body, geom, joint or actuator; '' without an object
    size: int  # elements per object; 1 for a scalar
    floor: float  # values must be above
    access: Access
    unit: str  # '' if it has none
    doc: str
    ceiling: float = math.inf  # values must be at most
    bends: bool = False  # couples axes of a body: it must not be compiled as simple


def _row(name: str) -> Access:
    """Access element `element` of row `index` of the MjModel field `name`."""

    def read(model: mujoco.MjModel, index: int, element: int) -> float:
        return float(np.ravel(getattr(model, name)[index])[element])

    def write(
        expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
    ) -> None:
        rows = expand(name)[:, index]
        if rows.ndim == 1:
            expand(name)[:, index] = values
        else:
            rows[:, element] = values

    return Access(read, write)


def _dofs(name: str) -> Access:
    """Access the MjModel field `name` at all degrees of freedom of a joint; they are equal."""

    def read(model: mujoco.MjModel, index: int, element: int) -> float:
        return float(np.ravel(getattr(model, name)[model.dof_jntid == index])[0])

    def write(
        expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
    ) -> None:
        dofs = nominal.dof_jntid == index
        column = values.reshape(-1, *[1] * (expand(name).ndim - 1))
        expand(name)[:, dofs] = column

    return Access(read, write)


def _write_mass(
    expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write a mass, and scale the inertia as for a body of another density."""
    expand('body_mass')[:, index] = values
    scale = values / nominal.body_mass[index]
    expand('body_inertia')[:, index] = nominal.body_inertia[index] * scale[:, None]


def _write_inertia(
    expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write the largest principal moment; the others keep their ratio to it."""
    moments = nominal.body_inertia[index]
    expand('body_inertia')[:, index] = moments * (values / moments.max())[:, None]


def _write_gain(
    expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write the gain of an actuator, and scale the feedback of a servo with it."""
    scale = (values / nominal.actuator_gainprm[index, 0])[:, None]
    expand('actuator_gainprm')[:, index, 0] = values
    expand('actuator_biasprm')[:, index, 1:3] = nominal.actuator_biasprm[index, 1:3] * scale


def _write_joint_type(
    expand: Expand, nominal: mujoco.MjModel, index: int, element: int, values: Array
) -> None:
    """Write slide (up to 0.5) or hinge (above); both have one degree of freedom."""
    expand('jnt_type')[:, index] = np.where(values > _HINGE_ABOVE, _HINGE, _SLIDE)


_MASS = Access(_row('body_mass').read, _write_mass)
_INERTIA = Access(lambda model, i, _: float(model.body_inertia[i].max()), _write_inertia)
_GAIN = Access(lambda model, i, _: float(model.actuator_gainprm[i, 0]), _write_gain)
_TYPE = Access(lambda model, i, _: float(model.jnt_type[i] == _HINGE), _write_joint_type)
_DELAY = Access(lambda model, i, _: 0.0, lambda *_: None)
DELAY = 'command_delay'
LONGEST_DELAY_S = 0.5  # sessions keep commands for 1 s, and predict over at most 0.5 s

# Written in this order: an uncertain inertia overrides the one implied by the mass.
FIELDS: dict[str, Field] = {
    'body_mass': Field('body', 1, 0.0, _MASS, 'kg', 'the inertia scales with it'),
    'body_inertia': Field(
        'body', 1, 0.0, _INERTIA, 'kg m^2', 'largest principal moment; the others scale with it'
    ),
    'body_pos': Field('body', 3, -math.inf, _row('body_pos'), 'm', 'in the frame of the parent'),
    'body_ipos': Field(
        'body',
        3,
        -math.inf,
        _row('body_ipos'),
        'm',
        'centre of mass, in the frame of the body',
        bends=True,
    ),
    'geom_friction': Field(
        'geom', 3, -1e-12, _row('geom_friction'), '', '0: sliding, 1: torsion, 2: rolling'
    ),
    'geom_solref': Field(
        'geom',
        2,
        0.0,
        _row('geom_solref'),
        's or none',
        'contacts: 0: time constant, 1: damping ratio, the smaller the more they bounce',
    ),
    'jnt_type': Field('joint', 1, -1e-12, _TYPE, '', '0: slide, 1: hinge', bends=True),
    'jnt_axis': Field(
        'joint',
        3,
        -math.inf,
        _row('jnt_axis'),
        '',
        'direction in the frame of the body',
        bends=True,
    ),
    # Abraham et al. 2020, V-B
    'jnt_articulation': Field(
        'joint',
        3,
        -math.inf,
        _row('jnt_axis'),
        '',
        'axis; a slide if x is largest, else a hinge',
        bends=True,
    ),
    'jnt_pos': Field(
        'joint', 3, -math.inf, _row('jnt_pos'), 'm', 'position in the frame of the body'
    ),
    'jnt_stiffness': Field(
        'joint', 1, -1e-12, _row('jnt_stiffness'), 'N/m or N m/rad', 'spring stiffness'
    ),
    'dof_damping': Field(
        'joint', 1, -1e-12, _dofs('dof_damping'), 'N s/m or N m s/rad', 'viscous damping'
    ),
    'dof_frictionloss': Field(
        'joint', 1, -1e-12, _dofs('dof_frictionloss'), 'N or N m', 'dry friction'
    ),
    'dof_armature': Field(
        'joint', 1, -1e-12, _dofs('dof_armature'), 'kg or kg m^2', 'rotor inertia'
    ),
    'actuator_gain': Field(
        'actuator', 1, 0.0, _GAIN, "the actuator's own", 'the feedback of a servo scales with it'
    ),
    DELAY: Field(
        '',
        1,
        -1e-12,
        _DELAY,
        's',
        'time from a command to its effect; of all commands, without `of`',
        LONGEST_DELAY_S,
    ),
}
