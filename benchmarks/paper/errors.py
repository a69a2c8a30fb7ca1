"""
Errors of a belief about the true parameters, in identifiable quantities.

Most parameters are compared directly. The axis of a joint is compared by its angle to the true
one, since its length and sign have no meaning; a pivot by its distance from the true hinge line,
since it may lie anywhere on it; a slide has no pivot.
"""

import numpy as np

from emppi_ros.core import weights
from emppi_ros.core.arrays import Array
from emppi_ros.model import uncertain_joints
from emppi_ros.model.uncertain_joints import JointMotion, UncertainJoint
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import Task


def squared_error(task: Task, belief: Belief, truth: Array) -> float:
    """Return the sum of `terms`; all units squared count alike."""
    return sum(terms(task, belief, truth).values())


def terms(task: Task, belief: Belief, truth: Array) -> dict[str, float]:
    """
    Return the squared errors of a belief about a task's parameters, by name.

    The error of an ordinary parameter is that of its mean. A joint with an uncertain axis has

    - 'axis of NAME': the squared angle [rad^2] between the mean axis and the true one;
    - 'pivot of NAME', where the true joint is a hinge and pivots are uncertain: the squared
      distance [m^2] of the mean pivot from the true hinge line;
    - 'choice of NAME', instead of its axis if it is one of a few: the squared probability of
      the wrong ones.
    """
    squared = {}
    apart: set[int] = set()
    for joint in uncertain_joints.uncertain(task.model, task.parameters):
        if joint.choice is not None:
            apart |= set(joint.axis)
            wrong = 1.0 - share_of_kind(task, joint, belief, truth)
            squared[f'choice of {joint.name}'] = wrong**2
            continue
        apart |= {*joint.axis, *joint.pivot}
        true, believed = (_motion(task, joint, theta) for theta in (truth[None], belief.theta))
        axis = uncertain_joints.mean_axis(np.exp(belief.log_weights), believed.axis)
        squared[f'axis of {joint.name}'] = angle(axis, true.axis[0]) ** 2
        if joint.pivot and true.hinge[0]:
            away = np.cross(_mean_pivot(belief, believed) - true.pivot[0], true.axis[0])
            squared[f'pivot of {joint.name}'] = float(np.linalg.norm(away)) ** 2
    mean = weights.mean(belief.log_weights, belief.theta)
    for i, parameter in enumerate(task.parameters):
        if i not in apart:
            squared[parameter.name] = float((mean[i] - truth[i]) ** 2)
    return squared


def share_of_kind(task: Task, joint: UncertainJoint, belief: Belief, truth: Array) -> float:
    """Return the belief's share of the true joint kind: hinge or slide, or the chosen axis."""
    believed, true = (
        uncertain_joints.kinds(task.model, task.parameters, joint, theta)
        for theta in (belief.theta, truth[None])
    )
    return min(float(np.exp(belief.log_weights) @ (believed == true[0])), 1.0)


def angle(a: Array, b: Array) -> float:
    """Return the angle [rad] between two axes, from 0 to pi / 2: signs do not count."""
    return float(np.arctan2(np.linalg.norm(np.cross(a, b)), abs(a @ b)))


def comparable(task: Task, theta: Array, truth: Array) -> Array:
    """
    Return theta (n, P) in values that may be averaged and compared with the true ones.

    Axes become unit vectors that point the same way as the true one, choices integers.
    """
    values = theta.copy()
    for joint in uncertain_joints.uncertain(task.model, task.parameters):
        if joint.choice is not None:
            values[:, joint.choice] = uncertain_joints.kinds(
                task.model, task.parameters, joint, theta
            )
            continue
        axes = _motion(task, joint, theta).axis
        values[:, list(joint.axis)] = _elements(task, joint, _aligned(task, joint, axes, truth))
    return values


def mean(task: Task, belief: Belief, truth: Array) -> Array:
    """Return the mean (P,) of a belief in the values of `comparable`; of axes, the mean axis."""
    means = weights.mean(belief.log_weights, comparable(task, belief.theta, truth))
    for joint in uncertain_joints.uncertain(task.model, task.parameters):
        if joint.choice is None:
            axes = _motion(task, joint, belief.theta).axis
            axis = uncertain_joints.mean_axis(np.exp(belief.log_weights), axes)[None]
            means[list(joint.axis)] = _elements(task, joint, _aligned(task, joint, axis, truth))[0]
    return means


def _motion(task: Task, joint: UncertainJoint, theta: Array) -> JointMotion:
    return uncertain_joints.motion(task.model, task.parameters, joint, theta)


def _mean_pivot(belief: Belief, believed: JointMotion) -> Array:
    """Return the mean pivot (3,) of the particles with a hinge, or of all if there is none."""
    shares = np.exp(belief.log_weights)
    hinged = shares * believed.hinge
    chosen = hinged if hinged.sum() > 0.0 else shares
    return chosen @ believed.pivot / chosen.sum()


def _aligned(task: Task, joint: UncertainJoint, axes: Array, truth: Array) -> Array:
    """Return unit axes (n, 3), flipped where they point away from the true one."""
    (true,) = _motion(task, joint, truth[None]).axis
    return np.where((axes @ true < 0.0)[:, None], -axes, axes)


def _elements(task: Task, joint: UncertainJoint, axes: Array) -> Array:
    return axes[:, [task.parameters[column].element for column in joint.axis]]
