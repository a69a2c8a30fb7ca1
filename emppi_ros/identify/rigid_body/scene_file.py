"""An MJCF file of a scene with other bodies, each whole, and other friction."""

from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.errors import IdentificationError, SceneError
from emppi_ros.core.paths import SceneFile
from emppi_ros.model import mjcf_export, scene

_WRITTEN = 1e-4  # of a body's size: MJCF has six digits


class Body(NamedTuple):
    """What MJCF says of a body."""

    mass: float  # kg
    centre: list[float]  # m, in the body's frame
    inertia: list[float]  # kg m^2, about the centre: xx, yy, zz, xy, xz, yz


def to_text(
    file: SceneFile,
    bodies: Mapping[str, Body],
    friction: tuple[Mapping[str, float], Mapping[str, float]],
    step_s: float,
) -> str:
    """
    Return the scene as MJCF with bodies and friction of joints, loaded back and compared.

    Friction is viscous, and dry. What is not named is as it was.

    SceneError if it cannot be written; IdentificationError names what comes back as another.
    """
    try:
        spec = mujoco.MjSpec.from_file(str(file.path))
        for name, body in bodies.items():
            _write(spec.body(name), body)
        viscous, dry = friction
        for name, value in dry.items():
            spec.joint(name).frictionloss = value
        for name, value in viscous.items():
            damping = spec.joint(name).damping
            if isinstance(damping, np.ndarray):
                damping[0] = value
            else:
                spec.joint(name).damping = value
        text, back = mjcf_export.to_xml(spec, file, step_s)
    except (ValueError, mujoco.FatalError, mujoco.UnexpectedError) as error:
        raise SceneError(f'{file.path}: cannot be written with other bodies: {error}') from None
    for name, body in bodies.items():
        index = scene.find(back, 'body', name)
        moments = np.linalg.eigvalsh(_tensor(body))
        fits = (
            np.isclose(back.body_mass[index], body.mass, rtol=_WRITTEN)
            and np.allclose(back.body_ipos[index], body.centre, rtol=_WRITTEN, atol=_WRITTEN)
            and np.allclose(
                np.sort(back.body_inertia[index]), moments, rtol=0.0, atol=_WRITTEN * moments[-1]
            )
        )
        if not fits:
            raise IdentificationError(
                f'body {name!r} cannot be written into MJCF: {body.mass:.6g} kg was loaded back '
                f'as {back.body_mass[index]:.6g}, centre {body.centre} as '
                f'{back.body_ipos[index]}, moments {moments} as {back.body_inertia[index]}'
            )
    return text


def _tensor(body: Body) -> list[list[float]]:
    xx, yy, zz, xy, xz, yz = body.inertia
    return [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]


def _write(item: mujoco.MjsBody, body: Body) -> None:
    moments, axes = np.linalg.eigh(_tensor(body))
    axes[:, 0] *= np.sign(np.linalg.det(axes))
    item.explicitinertial = True
    item.mass, item.ipos, item.inertia = body.mass, body.centre, moments
    mujoco.mju_mat2Quat(item.iquat, axes.ravel())
    item.fullinertia[0] = np.nan
    item.ialt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
