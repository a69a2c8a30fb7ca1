"""
A prior of a task from joints that were seen: of the axes and places of its jointed objects.

The task's parameters `jnt_axis`, `jnt_articulation` and `jnt_pos` of the joint of a tracked object
get samples around the joint of the part with the name of the object.
"""

from collections.abc import Sequence

import numpy as np

from emppi_ros.articulation import mjcf
from emppi_ros.articulation.topology import WORLD, KinematicTree, TreeJoint
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import IdentificationError
from emppi_ros.model import scene
from emppi_ros.priors import prior_file
from emppi_ros.priors.prior_file import DataSource, ParameterPrior, PriorFile
from emppi_ros.tasks.task import Task

_SAMPLES = 200
_AXES, _PLACE = ('jnt_axis', 'jnt_articulation'), 'jnt_pos'
_LEAST_RAD, _LEAST_M = 1e-4, 1e-5  # spreads: none is exact


def make(
    tree: KinematicTree, task: Task, sources: Sequence[DataSource], seed: int = 0
) -> PriorFile:
    """
    Return the prior for a task; IdentificationError if the tree has no joint of its objects.

    Places of slides, which do not matter, and all other parameters keep the task's own prior.
    """
    rng, columns = np.random.default_rng(seed), {}
    parts = [one.name for one in tree.tracks.parts]
    joints = scene.names(task.model, 'joint')
    for name, item in task.jointed.items():
        if name not in parts:
            continue
        joint = _decided(tree.joint(name), task)
        own = [one for one in task.parameters if one.of == joints[item.joint]]
        draws = _draw(joint, rng)
        for parameter in own:
            if parameter.field in _AXES:
                column = draws[0][:, parameter.element]
            elif parameter.field == _PLACE and joint.kind == 'revolute':
                column = draws[1][:, parameter.element]
            else:
                continue
            if parameter.field == 'jnt_articulation':
                _check_type(joint, task, draws[0])
            inside = prior_file.within(column, parameter.lower, parameter.upper)
            columns[parameter.name] = ParameterPrior(parameter.unit, tuple(inside.tolist()))
    if not columns:
        raise IdentificationError(
            f'{task.where}: no prior: its jointed objects with uncertain joints are '
            f'{", ".join(task.jointed) or "none"}, and the tracks have {", ".join(parts)}'
        )
    return PriorFile('articulate', tuple(sources), columns, (1.0,) * _SAMPLES, {'seed': seed})


def _decided(joint: TreeJoint, task: Task) -> TreeJoint:
    """Return the joint; IdentificationError unless it is a hinge or a slide on the world."""
    if joint.parent != WORLD or joint.kind not in ('revolute', 'prismatic'):
        advice = f': {joint.advice}' if joint.advice else ''
        raise IdentificationError(
            f'{task.where}: object {joint.child!r} has a hinge or a slide on the world; in the '
            f'tracks it is on {joint.parent!r}: {joint.description}{advice}'
        )
    return joint


def _draw(joint: TreeJoint, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return axes and places (n, 3) in the frame of the part."""
    assert joint.model is not None  # a hinge or slide
    frame = mjcf.joint_frame(joint.model)
    axis, place = frame.rotation[:, 2], frame.position
    across = np.eye(3) - np.outer(axis, axis)
    turns = max(joint.axis_sd_rad, _LEAST_RAD) * rng.standard_normal((_SAMPLES, 3)) @ across
    axes = axis + turns
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    spread = max(joint.pivot_sd_m, _LEAST_M) if joint.kind == 'revolute' else _LEAST_M
    return axes, place + spread * rng.standard_normal((_SAMPLES, 3)) @ across


def _check_type(joint: TreeJoint, task: Task, axes: Array) -> None:
    """Raise unless the field `jnt_articulation`, whose axis implies the type, fits."""
    slides = np.argmax(np.abs(axes), axis=1) == 0
    if np.mean(slides == (joint.kind == 'prismatic')) < 1.0:
        axis = ', '.join(f'{value:.2f}' for value in axes.mean(axis=0))
        raise IdentificationError(
            f'{task.where}: object {joint.child!r} is {joint.kind} about or along ({axis}), but '
            'the field jnt_articulation is a slide if x is largest, and else a hinge: use jnt_axis'
        )
