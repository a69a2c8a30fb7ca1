"""Export a scene as MJCF with identified bodies and friction."""

from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.errors import IdentificationError, SceneError
from emppi_ros.core.paths import SceneFile
from emppi_ros.model import mjcf_export, scene

_TOLERANCE = 1e-4  # relative: MJCF has six digits


class BodyInertial(NamedTuple):
    """Inertial properties of a body in MJCF."""

    mass: float  # kg
    centre: list[float]  # m, in the body's frame
    inertia: list[float]  # kg m^2, about the centre: xx, yy, zz, xy, xz, yz


def to_mjcf(
    file: SceneFile,
    bodies: Mapping[str, BodyInertial],
    joints: Mapping[str, Mapping[str, float]],
    step_s: float,
) -> str:
    """
    Return the scene as MJCF with other bodies, and values of joints by attribute and name.

    SceneError if it cannot be written; IdentificationError if values change on loading.
    """
    try:
        spec = mujoco.MjSpec.from_file(str(file.path))
        for name, body in bodies.items():
            _write_inertial(spec.body(name), body)
        for attribute, values in joints.items():
            for name, value in values.items():
                before = getattr(spec.joint(name), attribute)
                if isinstance(before, np.ndarray):  # damping, followed by nonlinear terms
                    before[0] = value
                else:
                    setattr(spec.joint(name), attribute, value)
        text, back = mjcf_export.to_xml(spec, file, step_s)
    except (ValueError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        raise SceneError(f'{file.path}: cannot be written with other bodies: {error}') from None
    for name, body in bodies.items():
        index = scene.find(back, 'body', name)
        moments = np.linalg.eigvalsh(_inertia_matrix(body))
        fits = (
            np.isclose(back.body_mass[index], body.mass, rtol=_TOLERANCE)
            and np.allclose(back.body_ipos[index], body.centre, rtol=_TOLERANCE, atol=_TOLERANCE)
            and np.allclose(
                np.sort(back.body_inertia[index]), moments, rtol=0.0, atol=_TOLERANCE * moments[-1]
            )
        )
        if not fits:
            raise IdentificationError(
                f'body {name!r} cannot be written to MJCF: {body.mass:.6g} kg was loaded '
                f'as {back.body_mass[index]:.6g}, centre {body.centre} as '
                f'{back.body_ipos[index]}, moments {moments} as {back.body_inertia[index]}'
            )
    return text


def _inertia_matrix(body: BodyInertial) -> list[list[float]]:
    xx, yy, zz, xy, xz, yz = body.inertia
    return [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]


def _write_inertial(item: mujoco.MjsBody, body: BodyInertial) -> None:
    moments, axes = np.linalg.eigh(_inertia_matrix(body))
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    item.explicitinertial = True
    item.mass, item.ipos, item.inertia = body.mass, body.centre, moments
    mujoco.mju_mat2Quat(item.iquat, axes.ravel())
    item.fullinertia[0] = np.nan
    item.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
