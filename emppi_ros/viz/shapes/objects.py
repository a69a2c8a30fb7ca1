"""What is tracked, where it was measured; and where it, or the hand, is to be."""

import mujoco
import numpy as np

from emppi_ros.model import scene
from emppi_ros.tasks.task import Task
from emppi_ros.viz.shapes.scene_extent import Setting, corners, tracked_bodies
from emppi_ros.viz.shapes.shapes import Array, Color, Lines, Shape, Triangles, paint, strips

OBJECT, TARGET = (0.10, 0.40, 0.85), (0.75, 0.22, 0.17)
_LINE, _ARM, _SIDES = 0.004, 0.03, 32  # of the setting's size, likewise; corners of a circle
_AXIS = 0.08  # of the setting's size: an arm of an object's frame
_RED_GREEN_BLUE = np.column_stack([0.85 * np.eye(3), np.ones(3)])  # x, y, z; opaque
_EDGES = [(i, j) for i in range(8) for j in range(i) if (i ^ j) in (1, 2, 4)]  # one bit apart
_FACES = [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)]


def shapes(task: Task, setting: Setting, data: mujoco.MjData) -> list[Shape]:
    """Return frames of tracked objects and boxes around them, and marks at the task's target."""
    bodies = tracked_bodies(task)
    tracked = np.concatenate([_boxes(task, data, body) for body in bodies] or [_NONE])
    turns, places = data.xmat[bodies].reshape(-1, 3, 3), data.xpos[bodies][:, None]
    arms = places + _AXIS * setting.size * turns.transpose(0, 2, 1)  # (n, 3, 3), an arm a row
    frames = np.stack([np.broadcast_to(places, arms.shape), arms], axis=2).reshape(-1, 2, 3)
    colors = np.tile(_RED_GREEN_BLUE, (len(bodies), 1))
    faces = np.concatenate(
        [tracked[:, [(a, b, c), (a, c, d)]].reshape(-1, 3, 3) for a, b, c, d in _FACES]
    )
    return [
        Lines('object frames', frames, colors, _LINE * setting.size),
        _edges('objects', tracked, OBJECT, setting),
        Triangles('object faces', faces, paint(OBJECT, 0.25, len(faces))),
        _target(task, setting, data),
    ]


def _target(task: Task, setting: Setting, data: mujoco.MjData) -> Lines:
    """Return a cross and the circle within which it counts, or the box of what shows targets."""
    width, success = _LINE * setting.size, task.file.success
    if task.target is not None:
        (body,) = np.flatnonzero(task.model.body_mocapid == task.target)
        return _edges('target', _boxes(task, data, int(body)), TARGET, setting)
    if success.residual.get('residual') != 'distance':
        return Lines('target', np.empty((0, 2, 3)), np.empty((0, 4)), width)
    kind, index = scene.find_frame(task.model, str(success.residual['to']))
    centre = getattr(data, scene.POSITION_FIELDS[kind])[index]
    arms = _ARM * setting.size * np.eye(3)
    angle = np.linspace(0.0, 2.0 * np.pi, _SIDES + 1)
    circle = success.below * np.column_stack([np.cos(angle), np.sin(angle), 0.0 * angle])
    ends = centre + np.concatenate([np.stack([-arms, arms], axis=1), strips(circle[None])])
    return Lines('target', ends, paint(TARGET, 1.0, len(ends)), width)


def _edges(name: str, boxes: Array, color: Color, setting: Setting) -> Lines:
    ends = boxes[:, _EDGES].reshape(-1, 2, 3)
    return Lines(name, ends, paint(color, 1.0, len(ends)), _LINE * setting.size)


def _boxes(task: Task, data: mujoco.MjData, body: int) -> Array:
    """Return the corners (n, 8, 3) of boxes around each geom of a body."""
    return corners(data, np.flatnonzero(task.model.geom_bodyid == body))


_NONE = np.empty((0, 8, 3))
