"""
Frames of a task's scene: links of robot and objects, and the possible axes of uncertain joints.

A possible axis is the z of its frame, which is named by joint and kind, such as `handle_hinge`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import IDENTITY, Pose, to_quaternion
from emppi_ros.model import uncertain_joints
from emppi_ros.model.link_tree import FREE, link_poses, link_tree
from emppi_ros.model.urdf_export import UrdfLimits, looks, to_urdf
from emppi_ros.priors.particles import Belief
from emppi_ros.robots.robot import Robot
from emppi_ros.state import articulation
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.task import Task
from emppi_ros.viz.shapes.joint_axes import kind_names, uncertain_objects

_MIN_PROBABILITY = 0.01  # of a kind of joint that has a frame


class SceneFrame(NamedTuple):
    """A frame, and its pose in its parent."""

    name: str
    parent: str
    pose: Pose


class SceneFrames:
    """The frames of a task's scene; `prefix` is put before all names but that of the world."""

    def __init__(self, task: Task, prefix: str = '') -> None:
        self._task, self._prefix, self._root = task, prefix, task.robot.frame
        free = {name: item.body(task.model) for name, item in task.objects.items()}
        self._bodies = free | {name: item.body for name, item in task.jointed.items()}
        self._links = link_tree(task.model, self._root, prefix, list(self._bodies.values()))
        self._shown = task.visual_model()
        self._looks = [
            SceneFrame(name, link.name, IDENTITY)
            for link in self._links
            for name in looks(self._shown, link)
            if name != link.name
        ]

    def description(self) -> str:
        """Return the scene as URDF, with the limits of the robot's YAML."""
        task = self._task
        return to_urdf(self._shown, self._links, task.name, _limits(task.robot))

    def links(self, joints: Array) -> list[SceneFrame]:
        """Return all links but the tracked objects, at joint positions (n,) of the robot."""
        model, qpos = self._task.model, self._task.start().qpos
        qpos[self._task.map.qpos] = joints
        poses = link_poses(model, self._links, qpos)
        frames = [
            SceneFrame(link.name, self._links[link.parent].name, pose)
            for link, pose in list(zip(self._links, poses, strict=True))[1:]
            if not (link.kind == FREE and link.joint < 0)
        ]
        return frames + self._looks

    def objects(self, tracks: Mapping[str, Track]) -> list[SceneFrame]:
        """Return tracked objects, by name, at their estimated poses."""
        names = {body: link.name for link in self._links for body in link.bodies}
        return [
            SceneFrame(
                names[self._bodies[name]],
                self._root,
                Pose(track.position, to_quaternion(track.rotation)),
            )
            for name, track in tracks.items()
        ]

    def axes(self, belief: Belief) -> list[SceneFrame]:
        """Return the mean axis of each kind of each uncertain joint, as far as it is probable."""
        task, frames = self._task, list[SceneFrame]()
        weights = np.exp(belief.log_weights)
        for joint, item in uncertain_objects(task):
            kinds = uncertain_joints.kinds(task.model, task.parameters, joint, belief.theta)
            world = articulation.for_parameters(task, joint, item, belief.theta)
            for kind, name in enumerate(kind_names(task, joint)):
                chosen = kinds == kind
                if weights[chosen].sum() < _MIN_PROBABILITY:
                    continue
                axis = _mean_axis(weights[chosen], world.axis[chosen])
                centres = np.where(world.hinge[:, None], world.pivot, world.position)[chosen]
                centre = np.average(centres, axis=0, weights=weights[chosen])
                turn = np.empty(4)
                mujoco.mju_quatZ2Vec(turn, axis)
                label = f'{self._prefix}{joint.name}_{name.replace(" ", "_")}'
                frames.append(SceneFrame(label, self._root, Pose(centre, turn)))
        return frames


def _mean_axis(weights: Array, axes: Array) -> Array:
    """Return the mean (3,) of axes (n, 3), with the sign of the one with the largest weight."""
    axis = uncertain_joints.mean_axis(weights, axes)
    return axis if axis @ axes[np.argmax(weights)] >= 0.0 else -axis


def _limits(robot: Robot) -> dict[str, UrdfLimits]:
    limits = robot.limits
    rows = zip(limits.position.lower, limits.position.upper, limits.velocity, strict=True)
    urdf_limits = {name: UrdfLimits(*row) for name, row in zip(robot.commanded, rows, strict=True)}
    for name, effort in zip(robot.commanded, limits.effort, strict=False):  # there may be none
        urdf_limits[name] = urdf_limits[name]._replace(effort=effort)
    return urdf_limits
