"""Shapes of tracked objects at their measured poses, and of the task's target."""

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task
from emppi_ros.viz.palette import AXIS_BRIGHTNESS, OBJECT, TARGET, Color
from emppi_ros.viz.shapes.scene_extent import SceneExtent, body_boxes, tracked_bodies
from emppi_ros.viz.shapes.shapes import Lines, Shape, Triangles, rgba, segments

# lengths are shares of the scene's extent
_LINE, _CROSS, _AXIS = 0.004, 0.03, 0.08  # line width; arm of a target's cross; axis of a frame
MARGIN = 0.002  # of the boxes: rviz draws the objects, too, and equal faces flicker
_SIDES = 32  # of a circle
_RED_GREEN_BLUE = np.column_stack([AXIS_BRIGHTNESS * np.eye(3), np.ones(3)])  # x, y, z; opaque
_EDGES = [(i, j) for i in range(8) for j in range(i) if (i ^ j) in (1, 2, 4)]  # one bit apart
_FACES = [(0, 1, 3, 2), (4, 5, 7, 6), (0, 1, 5, 4), (2, 3, 7, 6), (0, 2, 6, 4), (1, 3, 7, 5)]
_NO_BOX = np.empty((0, 8, 3))


def shapes(task: Task, extent: SceneExtent, data: mujoco.MjData) -> list[Shape]:
    """Return frames and boxes of tracked objects, and marks at the task's target."""
    bodies = tracked_bodies(task)
    margin = MARGIN * extent.size
    tracked = np.concatenate([body_boxes(data, body, margin) for body in bodies] or [_NO_BOX])
    rotations, positions = data.xmat[bodies].reshape(-1, 3, 3), data.xpos[bodies][:, None]
    tips = positions + _AXIS * extent.size * rotations.transpose(0, 2, 1)  # (n, 3, 3), one a row
    frames = np.stack([np.broadcast_to(positions, tips.shape), tips], axis=2).reshape(-1, 2, 3)
    colors = np.tile(_RED_GREEN_BLUE, (len(bodies), 1))
    faces = np.concatenate(
        [tracked[:, [(a, b, c), (a, c, d)]].reshape(-1, 3, 3) for a, b, c, d in _FACES]
    )
    return [
        Lines('object frames', frames, colors, _LINE * extent.size),
        _edges('objects', tracked, OBJECT, extent),
        Triangles('object faces', faces, rgba(OBJECT, 0.25, len(faces))),
        _target(task, extent, data),
    ]


def target_point(task: Task, data: mujoco.MjData) -> Array | None:
    """Return the target (3,) [m] if success is a distance from it, else None."""
    success = task.file.success.residual
    if success.get('residual') != 'distance':
        return None
    if success.get('point'):
        return np.array(success['point'], float)
    kind, index = scene.find_frame(task.model, str(success['to']))
    return getattr(data, scene.POSITION_FIELDS[kind])[index].copy()


def _target(task: Task, extent: SceneExtent, data: mujoco.MjData) -> Lines:
    """Return a cross and the success radius around the target, or the target body's box."""
    width, success = _LINE * extent.size, task.file.success
    if task.target is not None:
        (body,) = np.flatnonzero(task.model.body_mocapid == task.target)
        return _edges('target', body_boxes(data, int(body), MARGIN * extent.size), TARGET, extent)
    centre = target_point(task, data)
    if centre is None:
        return Lines('target', np.empty((0, 2, 3)), np.empty((0, 4)), width)
    arms = _CROSS * extent.size * np.eye(3)
    angle = np.linspace(0.0, 2.0 * np.pi, _SIDES + 1)
    circle = success.below * np.column_stack([np.cos(angle), np.sin(angle), 0.0 * angle])
    ends = centre + np.concatenate([np.stack([-arms, arms], axis=1), segments(circle[None])])
    return Lines('target', ends, rgba(TARGET, 1.0, len(ends)), width)


def _edges(name: str, boxes: Array, color: Color, extent: SceneExtent) -> Lines:
    ends = boxes[:, _EDGES].reshape(-1, 2, 3)
    return Lines(name, ends, rgba(color, 1.0, len(ends)), _LINE * extent.size)
