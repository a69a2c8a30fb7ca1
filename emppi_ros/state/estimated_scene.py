"""The scene in an estimated state, with bodies on uncertain joints where they were tracked."""

from collections.abc import Mapping
import copy

import mujoco
import numpy as np

from emppi_ros.core import weights
from emppi_ros.model import uncertain_joints
from emppi_ros.model.ensemble import State
from emppi_ros.priors.particles import Belief
from emppi_ros.state import articulation
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.objects import JointedObject
from emppi_ros.tasks.task import Task


class EstimatedScene:
    """
    MuJoCo's data of a task's scene, to evaluate residuals in estimated states.

    A drawer's or door's joint position depends on its joint. If this joint is uncertain, it is
    that of a particle of the belief: the one with the weighted median of |q|, so that at least
    half of the belief thinks that it is open as far as that. Without a belief it is the scene's.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.model = copy.copy(task.model)  # its uncertain joints are those of a particle
        self.data = mujoco.MjData(self.model)
        joints = uncertain_joints.uncertain(task.model, task.parameters)
        self._joints = {joint.id: joint for joint in joints}

    def update(
        self, state: State, tracks: Mapping[str, Track], belief: Belief | None
    ) -> mujoco.MjData:
        """Return the data in a state (nq,), with derived fields; `tracks` of jointed objects."""
        self.data.qpos[:], self.data.qvel[:] = state
        for field in ('jnt_type', 'jnt_axis', 'jnt_pos'):  # of an earlier belief
            getattr(self.model, field)[:] = getattr(self._task.model, field)
        if belief is not None:
            for name, track in tracks.items():
                self._move(self._task.jointed[name], track, belief)
        mujoco.mj_forward(self.model, self.data)
        return self.data

    def _move(self, item: JointedObject, track: Track, belief: Belief) -> None:
        """Give a body the joint of a particle, at the position that fits the track."""
        if item.joint not in self._joints:
            return
        task, joint = self._task, self._joints[item.joint]
        motion = uncertain_joints.motion(task.model, task.parameters, joint, belief.theta)
        q, speed = articulation.fit(item, articulation.from_joints(item, *motion), track)
        moved = np.abs(q)
        (median,) = weights.quantile(belief.log_weights, moved[:, None], 0.5)
        chosen = int(np.argmin(np.abs(moved - median)))
        kind = mujoco.mjtJoint.mjJNT_HINGE if motion.hinge[chosen] else mujoco.mjtJoint.mjJNT_SLIDE
        self.model.jnt_type[joint.id] = kind.value
        self.model.jnt_axis[joint.id] = motion.axis[chosen]
        self.model.jnt_pos[joint.id] = motion.pivot[chosen]
        self.data.qpos[item.qpos], self.data.qvel[item.qvel] = q[chosen], speed[chosen]
