"""Export of a kinematic tree: a scene in MJCF, and a task to complete."""

from pathlib import Path

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.articulation.joint_models import JointModel
from emppi_ros.articulation.topology import WORLD, KinematicTree, TreeJoint
from emppi_ros.core.pose import Poses, to_quaternion
from emppi_ros.recordings.signals import covariance_triangles
from emppi_ros.tracking import jointed_parts

TRANSLATION = '_translation'  # appended to a part's name: the slide of its screw
PLANAR = ('_x', '_y', '_turn')
_SIZE_M, _MASS_KG = 0.02, 1.0  # of the ball for a part, whose shape and mass were not measured
_AXIS_M = 0.1  # half length of the drawn axes
_JOINTED = {'prismatic': mujoco.mjtJoint.mjJNT_SLIDE, 'revolute': mujoco.mjtJoint.mjJNT_HINGE}


def to_text(tree: KinematicTree) -> str:
    """Return the tree as MJCF; joint positions are 0 in the first frame of the tracks."""
    spec = mujoco.MjSpec()
    spec.modelname = 'articulation'
    spec.worldbody.add_light(pos=[0.0, 0.0, 3.0])
    bodies = {WORLD: spec.worldbody}
    for joint in tree.joints:
        body = bodies[joint.parent].add_body(name=joint.child)
        place = tree.start[joint.child]
        if joint.model is not None:
            place = joint.model.frame @ joint.model.child
        body.pos, body.quat = place.position, to_quaternion(Rotation.from_matrix(place.rotation))
        body.add_geom(
            size=[_SIZE_M, 0.0, 0.0], mass=_MASS_KG, contype=0, conaffinity=0, name=joint.child
        )
        _add_joints(spec, body, joint)
        if joint.covariance is not None:
            numbers = covariance_triangles(joint.covariance[None])[0].tolist()
            spec.add_numeric(
                name=joint.child + jointed_parts.COVARIANCE, size=len(numbers), data=numbers
            )
        bodies[joint.child] = body
    spec.compile()
    text: str = spec.to_xml()
    return f'<!-- {_header(tree)} -->\n{text}'


def joint_names(joint: TreeJoint) -> tuple[tuple[str, str], ...]:
    """Return names and units of the scalar joints in the scene, in the order of `TreeJoint.q`."""
    kind = joint.candidates[0]
    if kind == 'planar':
        return tuple(zip((joint.child + end for end in PLANAR), ('m', 'm', 'rad'), strict=True))
    if kind == 'prismatic':
        return ((joint.child, 'm'),)
    return ((joint.child, 'rad'),) if kind in ('revolute', 'screw') else ()


def _header(tree: KinematicTree) -> str:
    """Return what a reader of the file must know."""
    lines = ['Made by `emppi articulate`. Masses and shapes were not measured: change them.']
    lines += [
        f'{joint.child}: {joint.description}; this file has {joint.candidates[0]}.'
        for joint in tree.joints
        if joint.kind == 'undecided'
    ]
    return ' '.join(lines).replace('--', '- -')


def _add_joints(spec: mujoco.MjSpec, body: mujoco.MjsBody, joint: TreeJoint) -> None:
    """Add the joints of a part to its body, and the axis as a site."""
    kind, name = joint.candidates[0], joint.child
    if joint.model is None:
        body.add_freejoint(name=name)
        return
    if kind == 'static':
        return
    frame = joint_frame(joint.model)
    place, axes = frame.position, frame.rotation.T
    hinge = {'type': mujoco.mjtJoint.mjJNT_HINGE, 'axis': axes[2], 'pos': place}
    slide = {'type': mujoco.mjtJoint.mjJNT_SLIDE}
    if kind == 'planar':
        body.simple = False  # so that its joints may be displaced
        for end, axis in zip(PLANAR[:2], axes[:2], strict=True):
            body.add_joint(name=name + end, axis=axis, **slide)
        body.add_joint(name=name + PLANAR[2], **hinge)
    elif kind == 'screw':
        body.add_joint(name=name, **hinge)
        body.add_joint(name=name + TRANSLATION, axis=axes[2], **slide)
        spec.add_equality(
            type=mujoco.mjtEq.mjEQ_JOINT,
            objtype=mujoco.mjtObj.mjOBJ_JOINT,
            name1=name + TRANSLATION,
            name2=name,
            data=[0.0, float(joint.model.pitch), *[0.0] * (mujoco.mjNEQDATA - 2)],
        )
    else:
        body.add_joint(name=name, type=_JOINTED[kind], axis=axes[2], pos=place)
    body.add_site(
        name=f'{name}_axis', type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[0.003, _AXIS_M, 0.0],
        pos=place, quat=to_quaternion(Rotation.from_matrix(frame.rotation)),
        rgba=[1.0, 0.4, 0.0, 1.0],
    )  # fmt: skip


def joint_frame(model: JointModel) -> Poses:
    """Return the joint frame in the child at joint position 0."""
    frame = model.child.inverse()
    if model.kind == 'planar':
        return frame
    # any point of the axis will do: the one nearest to the child
    axis = frame.rotation[:, 2]
    return Poses(frame.position - axis * float(axis @ frame.position), frame.rotation)


def task_stub(tree: KinematicTree, scene: Path, name: str) -> str:
    """
    Return a task file to complete: objects and uncertain parameters of the tree's scene.

    What no track shows, such as masses and friction, has wide priors.
    """
    moving = [joint for joint in tree.joints if joint.candidates[0] != 'static']
    kinds = [f'{one.child} is {one.description} on {one.parent}' for one in moving]
    lines = [
        '# made by `emppi articulate`: complete the lines with TODO, then `emppi check` this file',
        f'name: {name}',
        f'description: {"; ".join(kinds) or "nothing moves"}',
        f'scene: {scene.name}',
        'robot: TODO  # a file of config/robots, whose joints are in the scene, too',
        'duration_s: 15.0',
        '',
    ]
    entries = [line for joint in moving for line in _parameters(joint)]
    lines += ['parameters:' + ('' if entries else ' {}'), *entries, '']
    tracked = [line for joint in moving for line in _objects(tree, joint)]
    named = any(not line.lstrip().startswith('#') for line in tracked)
    lines += ['objects:' + ('' if named else ' {}'), *tracked, '']
    lines += [
        'cost:  # TODO: docs/tasks.md lists residuals',
        '  {}',
        '',
        'success: TODO',
        'planner: {models: 10, rollouts: 4, horizon: 10, step_s: 0.05, substeps: 5, rate_hz: 20, '
        'temperature: 0.01, noise_variance: [0.08]}',
        'belief: {particles: 200, substep_s: 0.005, likelihood: {object_position_sd_m: 0.004, '
        'object_rotation_sd_rad: 0.03}}',
        'simulation: {truth: {}}  # TODO: a distribution of each parameter',
    ]
    return '\n'.join(lines) + '\n'


def _parameters(joint: TreeJoint) -> list[str]:
    """Return the lines of uncertain parameters of a joint and its part."""
    name, kind = joint.child, joint.candidates[0]
    lines = [
        f'  {name}_mass: {{field: body_mass, of: {name}, lower: 0.01, upper: 100.0, unit: kg, '
        'prior: {distribution: lognormal, mean: 1.0, sd: 1.0}}'
    ]
    if kind not in _JOINTED:
        return lines
    unit, friction = ('N m s/rad', 'N m') if kind == 'revolute' else ('N s/m', 'N')
    lines += [
        f'  {name}_damping: {{field: dof_damping, of: {name}, lower: 0.0, upper: 100.0, '
        f'unit: {unit}, prior: {{distribution: lognormal, mean: 0.5, sd: 1.0}}}}',
        f'  {name}_friction: {{field: dof_frictionloss, of: {name}, lower: 0.0, upper: 100.0, '
        f'unit: {friction}, prior: {{distribution: lognormal, mean: 0.5, sd: 1.0}}}}',
    ]
    if kind == 'revolute' and joint.model is not None and np.isfinite(joint.pivot_sd_m):
        place, sd = joint_frame(joint.model).position, max(joint.pivot_sd_m, 1e-4)
        lines += [
            f'  {name}_pivot_{axis}: {{field: jnt_pos, of: {name}, element: {i}, unit: m, '
            f'prior: {{distribution: normal, mean: {place[i]:.6f}, sd: {sd:.6f}}}}}'
            for i, axis in enumerate('xyz')
        ]
    return lines


def _objects(tree: KinematicTree, joint: TreeJoint) -> list[str]:
    """Return the line of a tracked object; a part of a chain can be none."""
    fixed, parent = True, joint.parent
    while parent != WORLD:
        fixed &= tree.joint(parent).candidates[0] == 'static'
        parent = tree.joint(parent).parent
    kind = joint.candidates[0]
    if not fixed or not (kind in _JOINTED or joint.model is None):
        return [f'  # {joint.child}: tracked objects have one hinge or slide, or are free']
    motion = 'free' if joint.model is None else 'jointed'
    return [f'  {joint.child}: {{body: {joint.child}, motion: {motion}}}']
