"""The tracked objects of a task as parts to track in depth images."""

import numpy as np

from emppi_ros.core.errors import ConfigError
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import renderer
from emppi_ros.tracking.parts import TrackerConfig
from emppi_ros.tracking.parts_file import PartConfig, PartsFile, PartsFileConfig


def of_task(task: Task, settings: TrackerConfig) -> PartsFile:
    """Return the objects, where they start in the task; ConfigError if it tracks none."""
    if not task.tracked:
        raise ConfigError(f'task {task.name!r} has no tracked object: no part to track')
    model = task.visual_model()
    parts = {name: PartConfig(body=one.body) for name, one in task.tracked.items()}
    bodies = tuple(scene.find(model, 'body', one.body) for one in parts.values())
    start = renderer.body_poses(scene.kinematics(model, np.array(task.start().qpos)), bodies)
    file = PartsFileConfig(scene=task.name, parts=parts, tracker=settings)
    return PartsFile(file, model, bodies, start)
