"""
Which bodies of a scene are one: a hand or a payload that is welded to a link moves as its part.

Only their sum shows in torques. Of a body that is to be found, the others in the same sum are
taken as the scene has them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body.body_posterior import BodyConstraints, InertialPrior
from emppi_ros.identify.rigid_body.mjcf_export import BodyInertial
from emppi_ros.identify.rigid_body.physical_consistency import (
    BODY_PARAMETERS,
    from_pseudo_inertia,
    pseudo_inertia,
)
from emppi_ros.identify.rigid_body.regressor import model_parameters
from emppi_ros.identify.rigid_body.regressor import model_parameters as parameters_of
from emppi_ros.model import scene
from emppi_ros.model.parameters import Parameter

Array = npt.NDArray[np.float64]
FIELDS = ('body_mass', 'body_ipos', 'body_inertia', 'dof_damping', 'dof_frictionloss')
_MIN_FRICTION = 0.01  # N m s/rad or N s/m: what a joint without any may have
_MIN_THICKNESS = 1e-6  # of a body's largest: less is none, and would be kept so


class CompositePart(NamedTuple):
    """A body of the scene, as a part of an arm's body."""

    name: str
    whole: int  # the arm's body, from 0
    pose: Array  # (4, 4) in the frame of the arm's body
    own: Array  # (10,) its parameters in that frame


def composite_parts(model: mujoco.MjModel) -> list[CompositePart]:
    """
    Return the parts of an arm's bodies, in a model in which nothing is fused.

    What is welded to the world is none. IdentificationError if a body has several joints.
    """
    if np.any(model.body_jntnum > 1):
        body = scene.names(model, 'body')[int(np.argmax(model.body_jntnum > 1))]
        raise IdentificationError(
            f'body {body!r} has {model.body_jntnum.max()} joints: expected one hinge or slide '
            'each: give each joint a body of its own'
        )
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    poses = np.tile(np.eye(4), (model.nbody, 1, 1))
    poses[:, :3, :3], poses[:, :3, 3] = data.xmat.reshape(-1, 3, 3), data.xpos
    rows = np.vstack([np.zeros(11), model_parameters(model).reshape(-1, 11)])
    found = []
    for body, name in enumerate(scene.names(model, 'body')):
        root = int(model.body_weldid[body])
        if root:
            pose = np.linalg.inv(poses[root]) @ poses[body]
            whole = int(model.dof_jntid[model.body_dofadr[root]])
            found.append(
                CompositePart(name, whole, pose, transform_inertia(rows[body, :10], pose))
            )
    return found


def transform_inertia(body: Array, pose: Array) -> Array:
    """Return the parameters (10,) of a body, seen from where its frame has a pose (4, 4)."""
    return from_pseudo_inertia(pose @ pseudo_inertia(body) @ pose.T)


class ParameterMap(NamedTuple):
    """What is to be found, and in which of an arm's bodies it is."""

    parameters: tuple[Parameter, ...]
    wholes: tuple[int, ...]  # of each parameter, the arm's body
    bodies: Mapping[int, CompositePart]  # those to be found, by that body
    others: Mapping[int, tuple[CompositePart, ...]]  # likewise, what is welded to them


def map_parameters(
    parameters: Sequence[Parameter],
    arm: mujoco.MjModel,
    parts: Sequence[CompositePart],
    links: bool,
) -> ParameterMap:
    """
    Return where parameters are; IdentificationError names one that torques do not show.

    Without `links` all of the arm's bodies are to be found: where none is named, the link.
    """
    wholes, bodies = [], dict[int, CompositePart]()
    for parameter in parameters:
        where = f'parameters: {parameter.name}: '
        if parameter.field not in FIELDS:
            raise IdentificationError(
                f'{where}{parameter.field} is not found by --method rigid-body, which finds '
                f'{", ".join(FIELDS)}: use another method, or a --model file without it'
            )
        if parameter.field.startswith('dof_'):
            joints = scene.names(arm, 'joint')
            if parameter.of not in joints:
                raise IdentificationError(
                    f'{where}joint {parameter.of!r} is none of the arm whose torques were '
                    f'recorded: {", ".join(joints)}'
                )
            wholes.append(joints.index(parameter.of))
            continue
        part = next((part for part in parts if part.name == parameter.of), None)
        if part is None:
            raise IdentificationError(
                f'{where}body {parameter.of!r} hangs on no joint of the arm whose torques were '
                f'recorded: {", ".join(part.name for part in parts)}'
            )
        other = bodies.setdefault(part.whole, part)
        if other.name != part.name:
            raise IdentificationError(
                f'{where}{part.name!r} and {other.name!r} are welded together, and torques show '
                'their sum alone: leave one of them as the scene has it'
            )
        wholes.append(part.whole)
    for part in () if links else parts:
        if not bodies.setdefault(part.whole, part).name:  # the link is the first
            raise IdentificationError(
                f'the link of joint {scene.names(arm, "joint")[part.whole]!r} has no name in the '
                'scene, and is to be found: give it one'
            )
    others = {
        whole: tuple(p for p in parts if p.whole == whole and p.name != part.name)
        for whole, part in bodies.items()
    }
    return ParameterMap(tuple(parameters), tuple(wholes), bodies, others)


def constraints_from_scene(arm: mujoco.MjModel, named: ParameterMap) -> BodyConstraints:
    """
    Return what is known: the scene, but for bodies that are to be found, and all friction.

    These are like the scene's.
    """
    everyday = InertialPrior().parameters()
    rows = parameters_of(arm).reshape(-1, BODY_PARAMETERS)
    like, fixed = rows.copy(), np.zeros_like(rows)
    free = np.ones(rows.shape, np.bool_)
    for whole, row in enumerate(like):
        if whole in named.bodies:
            row[:10] = named.bodies[whole].own
            fixed[whole, :10] = np.sum([p.own for p in named.others[whole]], axis=0)
        else:
            fixed[whole, :10], row[:10] = row[:10] - everyday[:10], everyday[:10]
            free[whole, :10] = False
        sizes = np.linalg.eigvalsh(pseudo_inertia(row))
        if not sizes[0] > _MIN_THICKNESS * _MIN_THICKNESS * sizes[-1]:
            row[:10] = everyday[:10]
        row[10] = max(row[10], _MIN_FRICTION)
    return BodyConstraints(like.ravel(), fixed.ravel(), free.ravel())


def parameter_values(
    named: ParameterMap, known: BodyConstraints, found: Array, dry: Array
) -> Array:
    """Return the parameters (n, P) in bodies (n, 11 B) and dry friction (n, nv)."""
    rows = found.reshape(len(found), -1, BODY_PARAMETERS)
    own = (found - known.fixed).reshape(rows.shape)
    columns = []
    for parameter, whole in zip(named.parameters, named.wholes, strict=True):
        if parameter.field == 'dof_damping':
            columns.append(rows[:, whole, BODY_PARAMETERS - 1])
            continue
        if parameter.field == 'dof_frictionloss':
            columns.append(dry[:, whole])
            continue
        back = np.linalg.inv(named.bodies[whole].pose)
        columns.append(
            np.array(
                [_field_value(parameter, transform_inertia(row, back)) for row in own[:, whole]]
            )
        )
    return np.stack(columns, axis=1)


def body_inertials(
    named: ParameterMap, known: BodyConstraints, found: Array
) -> Iterator[tuple[str, BodyInertial]]:
    """Yield the bodies that were to be found, whole and in their own frames, in (11 B,)."""
    own = (found - known.fixed).reshape(-1, BODY_PARAMETERS)
    for whole, part in sorted(named.bodies.items()):
        body = transform_inertia(own[whole, :10], np.linalg.inv(part.pose))
        spread, centre = _about_centre(body)
        inertia = np.trace(spread) * np.eye(3) - spread
        six = [*np.diag(inertia), *inertia[np.triu_indices(3, 1)]]
        yield part.name, BodyInertial(float(body[0]), centre.tolist(), [float(x) for x in six])


def _about_centre(body: Array) -> tuple[Array, Array]:
    """Return the second moments (3, 3) of a body's mass about its centre, and the centre."""
    centre = body[1:4] / body[0]
    return pseudo_inertia(body)[:3, :3] - body[0] * np.outer(centre, centre), centre


def _field_value(parameter: Parameter, body: Array) -> float:
    """Return what a field says of a body (10,) in its own frame."""
    spread, centre = _about_centre(body)
    if parameter.field == 'body_mass':
        return float(body[0])
    if parameter.field == 'body_ipos':
        return float(centre[parameter.element])
    sizes = np.linalg.eigvalsh(spread)
    return float(sizes[1] + sizes[2])  # the moment about the axis along which it is thinnest
