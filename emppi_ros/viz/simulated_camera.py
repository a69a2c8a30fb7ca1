"""Where the depth camera of a task is: a camera of its scene, a given pose, or that of videos."""

import mujoco
import numpy as np

from emppi_ros.core.errors import prefix_errors
from emppi_ros.core.pose import to_rotation
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import camera
from emppi_ros.tracking.camera import Camera
from emppi_ros.viz.renderer import camera_pose, start_camera


def depth_camera(task: Task, model: mujoco.MjModel) -> Camera:
    """Return the depth camera of a task; errors name the key of `simulation: depth_camera`."""
    settings = task.simulation.depth_camera
    width, height = settings.width, settings.height
    where = f'{task.where}: simulation: depth_camera'
    if settings.camera:
        scene_camera: Camera = prefix_errors(
            f'{where}: camera', camera.from_model, model, settings.camera, width, height
        )
        return scene_camera
    if settings.position is not None and settings.quaternion is not None:
        turn = to_rotation(np.array(settings.quaternion)).as_matrix()
        return camera.at(width, height, settings.fovy_deg, np.array(settings.position), turn)
    view = start_camera(task, model, width / height)
    pose = camera_pose(model, task.start().qpos, view)
    right, up, backwards = pose.axes
    matrix = np.column_stack([right, -up, -backwards])
    return camera.at(width, height, float(np.degrees(pose.fovy)), pose.position, matrix)
