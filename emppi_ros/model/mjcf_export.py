"""Export a scene as MJCF with other parameter values."""

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ParameterError, SceneError
from emppi_ros.core.paths import SceneFile
from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.fields import FIELDS, NOT_IN_MODEL
from emppi_ros.model.parameters import Parameter

_TOLERANCE = 1e-5  # relative: MJCF has six digits, and inertia is computed from several


def to_text(file: SceneFile, parameters: Sequence[Parameter], theta: Array, step_s: float) -> str:
    """
    Return the scene as MJCF with parameters theta (P,) and a time step.

    Included files are inlined; meshes and textures are referred to by absolute paths.
    ParameterError if a parameter has another value after loading; SceneError if the scene cannot
    be loaded or written.
    """
    for parameter in parameters:
        if parameter.field in NOT_IN_MODEL:
            raise ParameterError(
                f'{parameter.name}: {parameter.field} has no place in an MJCF file: leave it out'
            )
    try:
        spec = mujoco.MjSpec.from_file(str(file.path))
        scene.compile_not_simple(spec, registry.not_simple((p.field, p.of) for p in parameters))
        model = spec.compile()
        registry.check(parameters, model)
        changed = registry.with_parameters(model, parameters, theta)
        for parameter in parameters:
            _write(spec, parameter, changed)
        text, loaded = to_xml(spec, file, step_s)
    except (ValueError, *scene.MUJOCO_ERRORS) as error:
        raise SceneError(f'{file.path}: cannot be exported: {error}') from None
    values = (registry.nominal_values(parameters, m) for m in (changed, loaded))
    for parameter, value, read in zip(parameters, *values, strict=True):
        if not np.isclose(value, read, rtol=_TOLERANCE, atol=1e-9):
            raise ParameterError(
                f'{parameter.name}: {parameter.field} of {parameter.of!r} cannot be written into '
                f'MJCF: {value:.6g} was loaded back as {read:.6g}'
            )
    return text


def to_xml(spec: mujoco.MjSpec, file: SceneFile, step_s: float) -> tuple[str, mujoco.MjModel]:
    """Return a scene as MJCF with a time step, and the model loaded from it."""
    spec.option.timestep = step_s
    here = file.path.parent.resolve()
    if spec.meshes:
        spec.meshdir = str(here / spec.meshdir)
    if any(texture.file for texture in spec.textures):
        spec.texturedir = str(here / spec.texturedir)
    spec.compile()
    text = spec.to_xml()
    return text, mujoco.MjModel.from_xml_string(text)


def _write(spec: mujoco.MjSpec, parameter: Parameter, changed: mujoco.MjModel) -> None:
    """Copy all attributes that a parameter affects from the model to the spec."""
    field, kind = parameter.field, FIELDS[parameter.field].kind
    if field in ('gravity', 'tilt'):
        spec.option.gravity = changed.opt.gravity
        return
    index = scene.find(changed, kind, parameter.of)
    item = getattr(spec, kind)(parameter.of)
    if field in ('body_mass', 'body_inertia', 'body_fullinertia', 'body_ipos'):
        mass, moments = float(changed.body_mass[index]), changed.body_inertia[index]
        set_inertia(item, mass, changed.body_ipos[index], moments, changed.body_iquat[index])
    elif field in ('jnt_type', 'jnt_axis', 'jnt_articulation'):
        item.type = mujoco.mjtJoint(int(changed.jnt_type[index]))
        item.axis = changed.jnt_axis[index]
    elif field == 'jnt_springref':
        item.springref = changed.qpos_spring[changed.jnt_qposadr[index]]
    elif field == 'actuator_gain':
        item.gainprm = changed.actuator_gainprm[index]
        item.biasprm = changed.actuator_biasprm[index]
    else:  # the attribute of the spec is called like the field of the model
        prefix, _, name = field.partition('_')
        row = int(np.argmax(changed.dof_jntid == index)) if prefix == 'dof' else index
        set_value(item, name, getattr(changed, field)[row])


def set_inertia(
    item: mujoco.MjsBody, mass: float, centre: ArrayLike, moments: Array, quaternion: Array
) -> None:
    """Give a body a mass [kg], a centre (3,) [m], and moments (3,) [kg m^2] about axes."""
    item.explicitinertial, item.mass, item.ipos = True, mass, centre
    item.inertia, item.iquat = moments, quaternion
    item.fullinertia[0] = np.nan
    item.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT


def set_value(item: Any, name: str, value: float | Array) -> None:
    """Set an attribute of a joint or geom; of a polynomial its constant term."""
    if np.ndim(value) < np.ndim(getattr(item, name)):
        getattr(item, name)[0] = value
    else:
        setattr(item, name, value)
