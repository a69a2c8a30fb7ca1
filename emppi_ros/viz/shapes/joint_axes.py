"""Shapes of the belief about uncertain joints: axes and pivots (the paper's Fig. 2 and 6)."""

import mujoco
import numpy as np

from emppi_ros.model import uncertain_joints
from emppi_ros.model.uncertain_joints import UncertainJoint
from emppi_ros.priors.particles import Belief
from emppi_ros.state import articulation
from emppi_ros.tasks.objects import JointedObject
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import JOINT_KINDS
from emppi_ros.viz.shapes.scene_extent import UP, SceneExtent
from emppi_ros.viz.shapes.shapes import Label, Lines, Shape, Spheres, sheets

MIN_SHARE = 0.02  # of the largest weight: particles with less are not drawn
# lengths are shares of the scene's extent
_LENGTH, _WIDTH, _PIVOT = 0.3, 0.004, 0.016  # of an axis; its width; diameter of a pivot
_TEXT = 0.032  # height of a letter
_ASIDE, _LIFT = 0.06, 0.25  # of a label from its object: its left end to the right; up


def uncertain_objects(task: Task) -> list[tuple[UncertainJoint, JointedObject]]:
    """Return the tracked objects whose joint axis is uncertain, each with its joint."""
    return [
        (joint, item)
        for joint in uncertain_joints.uncertain(task.model, task.parameters)
        for item in task.jointed.values()
        if item.joint == joint.id
    ]


def kind_names(task: Task, joint: UncertainJoint) -> list[str]:
    """Return the name of each kind of a joint, in the order of their numbers."""
    if joint.choice is None:
        return ['slide', 'hinge']
    axes = task.parameters[joint.choice].choices
    return [f'axis {" ".join(f"{x:g}" for x in axis)}' for axis in axes]


def kind_shares(task: Task, joint: UncertainJoint, belief: Belief) -> str:
    """Return the probability of each kind of a joint as text."""
    kinds = uncertain_joints.kinds(task.model, task.parameters, joint, belief.theta)
    shares = np.exp(belief.log_weights)
    return ', '.join(
        f'{100.0 * shares[kinds == i].sum():.0f} % {name}'
        for i, name in enumerate(kind_names(task, joint))
    )


def axes(task: Task, size: float, data: mujoco.MjData, belief: Belief) -> tuple[Lines, Spheres]:
    """Return axes, as opaque as their particles' weights, and pivots in a scene of a size [m]."""
    shares = np.exp(belief.log_weights - belief.log_weights.max())
    kept = shares >= MIN_SHARE
    ends, pivots, colors, pivot_colors = [], [], [], []
    for joint, item in uncertain_objects(task):
        kinds = uncertain_joints.kinds(task.model, task.parameters, joint, belief.theta)
        world = articulation.for_parameters(task, joint, item, belief.theta)
        centre = np.where(world.hinge[:, None], world.pivot, data.xpos[item.body])
        half = 0.5 * _LENGTH * size * world.axis
        painted = np.column_stack([np.array(JOINT_KINDS)[kinds % len(JOINT_KINDS)], shares])
        ends.append(np.stack([centre - half, centre + half], axis=1)[kept])
        colors.append(painted[kept])
        pivots.append(world.pivot[kept & world.hinge])
        pivot_colors.append(painted[kept & world.hinge])
    dots = np.concatenate(pivots), np.concatenate(pivot_colors)
    return (
        Lines('axes', np.concatenate(ends), np.concatenate(colors), _WIDTH * size),
        Spheres('pivots', *dots, _PIVOT * size),
    )


def shapes(task: Task, extent: SceneExtent, data: mujoco.MjData, belief: Belief) -> list[Shape]:
    """Return axes, pivots, and a label of each uncertain joint; nothing without one."""
    labels = []
    for joint, item in uncertain_objects(task):
        lines = joint.name, *kind_shares(task, joint, belief).split(', ')
        # above the object, the wrist would hide it
        aside = _ASIDE + 0.5 * _TEXT * max(map(len, lines))
        place = data.xpos[item.body] + extent.size * (aside * extent.right + _LIFT * UP)
        labels.append(Label('joints', place, '\n'.join(lines), _TEXT * extent.size))
    if not labels:
        return []
    panel = sheets('joint panel', labels, extent.right, UP)
    return [*axes(task, extent.size, data, belief), panel, *labels]
