"""Composite bodies: torques only show the sum of bodies that are welded together."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError, SceneError
from emppi_ros.core.paths import SceneFile
from emppi_ros.identification.rigid_body.arm import (
    ARMATURE,
    BODY_PARAMETERS,
    FRICTION,
    from_pseudo_inertia,
    model_parameters,
    pseudo_inertia,
)
from emppi_ros.identification.rigid_body.body_posterior import PRIOR, BodyConstraints
from emppi_ros.model import mjcf_export, scene
from emppi_ros.model.parameters import Parameter

_FIELDS = 'body_mass', 'body_ipos', 'body_inertia'
_JOINT_FIELDS = 'dof_damping', 'dof_frictionloss', 'dof_armature'
_MIN_FRICTION = 0.01  # N m s/rad or N s/m: prior of joints without friction
_MIN_ARMATURE = 0.01  # kg m^2 or kg: likewise
_MIN_THICKNESS = 1e-6  # relative to the largest; thinner bodies get the typical prior
_CONTRADICTION, _LEAST_SHARE = 3.0, 0.05  # standard deviations, and share of a first moment
_TOLERANCE = 1e-4  # of values in MJCF, relative: it has six digits


class CompositePart(NamedTuple):
    """A body of the scene as a part of an arm's body."""

    name: str
    body_index: int  # index of the arm's body, from 0
    pose: Array  # (4, 4) in the frame of the arm's body
    parameters: Array  # (10,) inertial parameters in that frame

    @property
    def back(self) -> Array:
        """The pose (4, 4) of the arm's body in the frame of the part."""
        return np.asarray(np.linalg.inv(self.pose), np.float64)


def composite_parts(model: mujoco.MjModel) -> list[CompositePart]:
    """Return the parts of an arm's bodies, from a model whose welded bodies are not fused."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    poses = np.tile(np.eye(4), (model.nbody, 1, 1))
    poses[:, :3, :3], poses[:, :3, 3] = data.xmat.reshape(-1, 3, 3), data.xpos
    values = model_parameters(model).reshape(-1, BODY_PARAMETERS)
    rows = np.vstack([np.zeros(BODY_PARAMETERS), values])
    parts = []
    for body, name in enumerate(scene.names(model, 'body')):
        root = int(model.body_weldid[body])
        if root:
            pose = np.linalg.inv(poses[root]) @ poses[body]
            index = int(model.dof_jntid[model.body_dofadr[root]])
            inertia = transform_inertia(rows[body, :10], pose)
            parts.append(CompositePart(name, index, pose, inertia))
    return parts


def transform_inertia(body: Array, pose: Array) -> Array:
    """Return the parameters (10,) of a body in a frame in which its own has a pose (4, 4)."""
    return from_pseudo_inertia(pose @ pseudo_inertia(body) @ pose.T)


class ParameterMap(NamedTuple):
    """Parameters to identify, and the arm's bodies that have them."""

    parameters: tuple[Parameter, ...]
    body_indices: tuple[int, ...]  # the arm's body of each parameter
    parts: Mapping[int, CompositePart]  # to identify, by index of the arm's body
    fixed_parts: Mapping[int, tuple[CompositePart, ...]]  # welded to these, as in the scene


def map_parameters(
    parameters: Sequence[Parameter],
    arm: mujoco.MjModel,
    parts: Sequence[CompositePart],
    links: bool,
) -> ParameterMap:
    """Return the bodies of parameters, or all unless `links`; IdentificationError for others."""
    joints = scene.names(arm, 'joint')
    body_indices, identified = [], dict[int, CompositePart]()
    for parameter in parameters:
        where = f'parameters: {parameter.name}: '
        if parameter.field not in _FIELDS + _JOINT_FIELDS:
            raise IdentificationError(
                f'{where}{parameter.field} cannot be identified by --method rigid-body, only '
                f'{", ".join(_FIELDS + _JOINT_FIELDS)}: use another method, or a --model file '
                'without it'
            )
        is_joint = parameter.field in _JOINT_FIELDS
        kind, role = ('joint', 'joint') if is_joint else ('body', 'part')
        names = joints if is_joint else [part.name for part in parts]
        if parameter.of not in names:
            raise IdentificationError(
                f'{where}{kind} {parameter.of!r} is not a {role} of the recorded arm, which has '
                f'{", ".join(names)}'
            )
        index = names.index(parameter.of)
        if is_joint:
            body_indices.append(index)
            continue
        part = parts[index]
        other = identified.setdefault(part.body_index, part)
        if other.name != part.name:
            raise IdentificationError(
                f'{where}{part.name!r} and {other.name!r} are welded together, and torques only '
                'show their sum: identify only one of them'
            )
        body_indices.append(part.body_index)
    for part in () if links else parts:
        # the first part is the link
        if not identified.setdefault(part.body_index, part).name:
            raise IdentificationError(
                f'the link of joint {joints[part.body_index]!r} has no name in the scene: name it '
                'to identify it'
            )
    fixed_parts = {
        index: tuple(p for p in parts if p.body_index == index and p.name != part.name)
        for index, part in identified.items()
    }
    return ParameterMap(tuple(parameters), tuple(body_indices), identified, fixed_parts)


def constraints_from_scene(
    arm: mujoco.MjModel, parameter_map: ParameterMap, rotors: Array | None, viscous: bool
) -> BodyConstraints:
    """
    Return the prior knowledge of bodies: parameters are fixed to those of the scene.

    Free are the bodies to identify, with priors centered at the scene, viscous friction if
    `viscous`, and the inertia of rotors about `rotors` (nv,), if given; else these are zero.
    """
    typical = PRIOR.parameters()
    rows = model_parameters(arm).reshape(-1, BODY_PARAMETERS)
    like, fixed = rows.copy(), np.zeros_like(rows)
    free = np.ones(rows.shape, np.bool_)
    for index, row in enumerate(like):
        if index in parameter_map.parts:
            row[:10] = parameter_map.parts[index].parameters
            welded = [part.parameters for part in parameter_map.fixed_parts[index]]
            fixed[index, :10] = np.sum(welded, axis=0)
        else:
            fixed[index, :10], row[:10] = row[:10] - typical[:10], typical[:10]
            free[index, :10] = False
        sizes = np.linalg.eigvalsh(pseudo_inertia(row))
        if not sizes[0] > _MIN_THICKNESS * _MIN_THICKNESS * sizes[-1]:
            row[:10] = typical[:10]
        row[FRICTION] = max(row[FRICTION], _MIN_FRICTION)
        row[ARMATURE] = max(0.0 if rotors is None else rotors[index], _MIN_ARMATURE)
    for column, is_free in ((FRICTION, viscous), (ARMATURE, rotors is not None)):
        free[:, column] = is_free
        if not is_free:
            fixed[:, column] = -like[:, column]
    return BodyConstraints(like.ravel(), fixed.ravel(), free.ravel())


def parameter_values(
    parameter_map: ParameterMap, constraints: BodyConstraints, bodies: Array, dry: Array
) -> Array:
    """Return the parameters (n, P) of bodies (n, 12 B) and dry friction (n, nv)."""
    rows = bodies.reshape(len(bodies), -1, BODY_PARAMETERS)
    identified = (bodies - constraints.fixed).reshape(rows.shape)
    joint_values = {
        'dof_damping': rows[:, :, FRICTION],
        'dof_frictionloss': dry,
        'dof_armature': rows[:, :, ARMATURE],
    }
    columns = []
    for parameter, index in zip(parameter_map.parameters, parameter_map.body_indices, strict=True):
        if parameter.field in joint_values:
            columns.append(joint_values[parameter.field][:, index])
        else:
            back = parameter_map.parts[index].back
            inertias = (transform_inertia(row, back) for row in identified[:, index])
            columns.append(np.array([_field_value(parameter, inertia) for inertia in inertias]))
    return np.stack(columns, axis=1)


def contradictions(
    parameter_map: ParameterMap, constraints: BodyConstraints, bodies: Array
) -> Iterator[tuple[str, str, Array, Array]]:
    """
    Yield bodies whose parameters alone do not say what draws (n, 12 B) do.

    Of each: its name, a missing field, and first moments (n,) in kg m along the axis where it
    matters most: those of the draws, and those that a scene has with the parameters alone.
    """
    identified = (bodies - constraints.fixed).reshape(len(bodies), -1, BODY_PARAMETERS)
    for index, part in sorted(parameter_map.parts.items()):
        named = {(p.field, p.element) for p in parameter_map.parameters if p.of == part.name}
        if ('body_mass', 0) not in named:
            continue
        drawn = np.array([transform_inertia(row, part.back) for row in identified[:, index, :10]])
        scene_body = transform_inertia(part.parameters, part.back)
        moments = drawn[:, 1:4]
        stored = drawn[:, :1] * scene_body[1:4] / scene_body[0]
        spread = np.hypot(moments.std(axis=0), np.finfo(float).tiny)
        difference = np.abs(np.median(stored, axis=0) - np.median(moments, axis=0))
        difference *= [('body_ipos', axis) not in named for axis in range(3)]
        most = int(np.argmax(difference / spread))
        share = difference[most] / np.max(np.abs(np.median(moments, axis=0)))
        if difference[most] > _CONTRADICTION * spread[most] and share > _LEAST_SHARE:
            field = f'{{field: body_ipos, of: {part.name}, element: {most}}}'
            yield part.name, field, moments[:, most], stored[:, most]


class BodyInertial(NamedTuple):
    """Inertial properties of a body in MJCF."""

    mass: float  # kg
    centre: list[float]  # m, in the body's frame
    inertia: list[float]  # kg m^2, about the centre: xx, yy, zz, xy, xz, yz


def body_inertials(
    parameter_map: ParameterMap, constraints: BodyConstraints, bodies: Array
) -> Iterator[tuple[str, BodyInertial]]:
    """Yield the identified bodies in (12 B,), by name and in their own frames."""
    identified = (bodies - constraints.fixed).reshape(-1, BODY_PARAMETERS)
    for index, part in sorted(parameter_map.parts.items()):
        body = transform_inertia(identified[index, :10], part.back)
        spread, centre = _about_centre(body)
        inertia = np.trace(spread) * np.eye(3) - spread
        six = [*np.diag(inertia), *inertia[np.triu_indices(3, 1)]]
        yield part.name, BodyInertial(float(body[0]), centre.tolist(), [float(x) for x in six])


def _about_centre(body: Array) -> tuple[Array, Array]:
    """Return the second moments (3, 3) of mass about the center of mass, and the center."""
    centre = body[1:4] / body[0]
    return pseudo_inertia(body)[:3, :3] - body[0] * np.outer(centre, centre), centre


def _field_value(parameter: Parameter, body: Array) -> float:
    """Return the value of a model field for a body (10,) in its own frame."""
    spread, centre = _about_centre(body)
    if parameter.field == 'body_mass':
        return float(body[0])
    if parameter.field == 'body_ipos':
        return float(centre[parameter.element])
    sizes = np.linalg.eigvalsh(spread)
    return float(sizes[1] + sizes[2])  # the moment about the thinnest axis


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
                mjcf_export.set_value(spec.joint(name), attribute, value)
        text, back = mjcf_export.to_xml(spec, file, step_s)
    except (ValueError, *scene.MUJOCO_ERRORS) as error:
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
    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, axes.ravel())
    mjcf_export.set_inertia(item, body.mass, body.centre, moments, quaternion)
