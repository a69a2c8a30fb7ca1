"""An MJCF file of a scene with other values of its parameters."""

from collections.abc import Sequence
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ParameterError, SceneError
from emppi_ros.core.paths import SceneFile
from emppi_ros.model import parameters as registry
from emppi_ros.model import scene
from emppi_ros.model.fields import FIELDS
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]
_WRITTEN = 1e-5  # of a value: MJCF has six digits, and inertias are two of them apart


def to_text(file: SceneFile, parameters: Sequence[Parameter], theta: Array, step_s: float) -> str:
    """
    Return the scene as MJCF with theta (P,) and a time step, loaded back and compared.

    All that it includes is in it; meshes and textures are named by where they are.

    Raises
    ------
    ParameterError
        If what is loaded has another value of a parameter than what was written: its name.
    SceneError
        If the scene cannot be loaded, or written.

    """
    try:
        spec = mujoco.MjSpec.from_file(str(file.path))
        model = spec.compile()
        registry.check(parameters, model)
        changed = registry.with_parameters(model, parameters, theta)
        for parameter in parameters:
            _write(spec, parameter, changed)
        text, back = to_xml(spec, file, step_s)
    except (ValueError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        raise SceneError(f'{file.path}: cannot be written with other values: {error}') from None
    wanted, found = (registry.nominal_values(parameters, m) for m in (changed, back))
    for parameter, value, read in zip(parameters, wanted, found, strict=True):
        if not np.isclose(value, read, rtol=_WRITTEN, atol=1e-9):
            raise ParameterError(
                f'{parameter.name}: {parameter.field} of {parameter.of!r} cannot be written into '
                f'MJCF: {value:.6g} was loaded back as {read:.6g}'
            )
    return text


def to_xml(spec: mujoco.MjSpec, file: SceneFile, step_s: float) -> tuple[str, mujoco.MjModel]:
    """Return a changed scene as MJCF with a time step, and what is loaded from that."""
    spec.option.timestep = step_s
    here = file.path.parent.resolve()
    if spec.meshes:
        spec.meshdir = str(here / spec.meshdir)
    if any(texture.file for texture in spec.textures):
        spec.texturedir = str(here / spec.texturedir)
    spec.compile()
    text = spec.to_xml()
    return text, mujoco.MjModel.from_xml_string(text)


def write(path: Path, text: str, overwrite: bool = False) -> None:
    """Write MJCF; SceneError if the file exists and may not be replaced."""
    try:
        with path.open('w' if overwrite else 'x', encoding='utf-8') as stream:
            stream.write(text)
    except FileExistsError:
        raise SceneError(f'{path}: exists; give another name, or --overwrite') from None
    except OSError as error:
        raise SceneError(f'{path}: cannot be written: {error}') from None


def _write(spec: mujoco.MjSpec, parameter: Parameter, changed: mujoco.MjModel) -> None:
    """Write all of an object that its parameter may change, as the registry has it."""
    kind = FIELDS[parameter.field].kind
    index = scene.find(changed, kind, parameter.of)
    item = getattr(spec, kind)(parameter.of)
    if parameter.field == 'body_pos':
        item.pos = changed.body_pos[index]
    elif kind == 'body':
        item.explicitinertial = True
        item.mass = changed.body_mass[index]
        item.inertia = changed.body_inertia[index]
        item.ipos, item.iquat = changed.body_ipos[index], changed.body_iquat[index]
        item.fullinertia[0] = np.nan
        item.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
    elif kind == 'geom':
        item.friction = changed.geom_friction[index]
    elif kind == 'actuator':
        item.gainprm, item.biasprm = (
            changed.actuator_gainprm[index], changed.actuator_biasprm[index],
        )  # fmt: skip
    elif parameter.field.startswith('dof_'):
        name = parameter.field.removeprefix('dof_')
        dof = int(np.argmax(changed.dof_jntid == index))
        _set(item, name, getattr(changed, parameter.field)[dof])
    else:
        item.type = mujoco.mjtJoint(int(changed.jnt_type[index]))
        item.axis, item.pos = changed.jnt_axis[index], changed.jnt_pos[index]
        _set(item, 'stiffness', changed.jnt_stiffness[index])


def _set(item: mujoco.MjsJoint, name: str, value: float) -> None:
    """Set a number, or the first of a polynomial's."""
    if isinstance(getattr(item, name), np.ndarray):
        getattr(item, name)[0] = value
    else:
        setattr(item, name, value)
