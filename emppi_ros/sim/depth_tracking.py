"""
Tracked poses from simulated depth images, in place of true poses with noise.

A depth camera sees the scene with its noise, and the tracker finds the objects in its images,
with the robot at its true joint positions in the background. It starts from the true poses.
"""

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Pose
from emppi_ros.model import scene
from emppi_ros.sim.depth_camera import SimulatedDepthCamera
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import parts
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.fitting import TrackerConfig
from emppi_ros.tracking.renderer import body_poses
from emppi_ros.tracking.tracker import TRACKED, PartTracker

_REACH_M = 0.03  # objects move less from one image to the next


class DepthTracking:
    """A depth camera that sees the scene of a task, and the tracker of its objects."""

    def __init__(self, task: Task, view: Camera, seed: int) -> None:
        """Place the camera; `seed` is the source of its noise."""
        settings = task.simulation.depth_camera
        config = TrackerConfig(noise_sd_per_m=settings.noise_sd_per_m, reach_m=_REACH_M)
        self._view, self._parts = view, parts.of_task(task, config)
        model = self._parts.model
        self._camera = SimulatedDepthCamera(task, model, view, seed)
        self._joints = {
            name: int(model.jnt_qposadr[scene.find_scalar(model, name)])
            for name in task.robot.joints
        }
        self._tracker: PartTracker | None = None

    def measure(self, time: float, qpos: Array, truth: Array) -> dict[str, Pose]:
        """Return poses of objects that an image of a state (nq,) shows, with true values (P,)."""
        image = self._camera.take(qpos, truth)
        if self._tracker is None:
            start = body_poses(self._camera.data, self._parts.bodies)
            self._tracker = PartTracker(parts.prepare_parts(self._parts, self._view), start)
        joints = {name: float(qpos[row]) for name, row in self._joints.items()}
        estimates = self._tracker.track(time, image, joints=joints)
        return {
            name: Pose(one.row[:3], one.row[3:])
            for name, one in zip(self._parts.names, estimates, strict=True)
            if one.status == TRACKED
        }
