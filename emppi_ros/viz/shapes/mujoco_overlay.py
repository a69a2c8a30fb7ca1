"""What is believed, drawn by MuJoCo itself into pictures of the scene: shapes as its geoms."""

from collections.abc import Callable, Iterator

import mujoco
import numpy as np

from emppi_ros.belief.particles import Belief
from emppi_ros.model.parameters import with_parameters
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report.recording import Recording
from emppi_ros.viz.shapes import histograms, joint_axes, objects
from emppi_ros.viz.shapes.scene_extent import UP, setting
from emppi_ros.viz.shapes.shapes import Array, Label, Lines, Shape, Shapes, Spheres, Triangles

GEOM = mujoco.mjtGeom
_GLOW = 0.3  # of a colour, in whatever light the scene has
_PITCH, _LETTER = 1.9, 0.4  # of a letter's height: between lines of text; half of its width
_SMALLER, _LIFT = 0.7, 0.15  # numbers beside what rviz shows: size; higher, of the setting's
_FEW = 4  # texts
_DENSE = 0.8  # opacity beyond which a shape hides what is behind: else order would tell


class Decor:
    """The belief of a recording, at any of its moments."""

    def __init__(self, task: Task, record: Recording) -> None:
        """Take what stays the same."""
        known = bool(np.isfinite(record.truth).all())
        model = with_parameters(task.model, task.parameters, record.truth) if known else task.model
        self._task, self._record, self._data = task, record, mujoco.MjData(model)
        self._setting = setting(task)

    def at(self, now: float) -> Callable[[mujoco.MjvScene], None]:
        """Return what adds the belief of a moment [s] to a scene that is about to be rendered."""
        found = self.shapes(now)
        return lambda scene: add(scene, found, self._setting.right)

    def shapes(self, now: float) -> Shapes:
        """
        Return what is tracked and believed at a moment; before all belief, the first one.

        Nothing of a task in which nothing is to be learned. Numbers stay where they are at the
        start: what follows an object leaves the picture.
        """
        record, where = self._record, self._setting
        if not self._task.parameters or not len(record.belief_times):
            return []
        row = min(int(np.searchsorted(record.times, now)), len(record.times) - 1)
        last = max(int(np.searchsorted(record.belief_times, now, side='right')) - 1, 0)
        with np.errstate(divide='ignore'):  # a weight of 0 is a log weight of -inf
            belief = Belief(record.belief_theta[last], np.log(record.belief_weights[last]))
        smaller = where._replace(size=_SMALLER * where.size)
        numbers = histograms.shapes(self._task, smaller, self._place(0), belief)
        data = self._place(row)
        tracked = objects.shapes(self._task, where, data)
        return [
            *(shape for shape in tracked if not isinstance(shape, Triangles)),  # they are solid
            *joint_axes.shapes(self._task, where, data, belief),
            *(
                _raised(shape, _LIFT * where.size)
                for shape in numbers
                if is_legible(shape, numbers)
            ),
        ]

    def _place(self, row: int) -> mujoco.MjData:
        """Return where all is in a row of the recording."""
        self._data.qpos[:] = self._record.qpos[row]
        mujoco.mj_kinematics(self._data.model, self._data)
        mujoco.mj_camlight(self._data.model, self._data)
        return self._data


def is_legible(shape: Shape, among: Shapes) -> bool:
    """Return whether a shape can be told from others in a picture: many texts cannot."""
    return not isinstance(shape, Label) or sum(isinstance(s, Label) for s in among) <= _FEW


def _raised(shape: Shape, by: float) -> Shape:
    """Return a histogram's part higher up [m]; of its text only the name."""
    if isinstance(shape, Lines):
        return shape._replace(ends=shape.ends + by * UP)
    if isinstance(shape, Triangles):
        return shape._replace(corners=shape.corners + by * UP)
    if isinstance(shape, Label):
        return shape._replace(place=shape.place + by * UP, text=shape.text.split('\n')[0])
    return shape._replace(centres=shape.centres + by * UP)


def add(scene: mujoco.MjvScene, shapes: Shapes, right: Array) -> None:
    """Add shapes to a scene, as many as it has room for; texts are about their places."""
    for kind, place, turn, color, label in (p for shape in shapes for p in _parts(shape, right)):
        if scene.ngeom >= scene.maxgeom:
            return
        geom = scene.geoms[scene.ngeom]
        rgba = np.asarray(color, np.float32)
        rgba[3] = 1.0 if rgba[3] > _DENSE else rgba[3]
        if kind == GEOM.mjGEOM_CAPSULE:
            ends, width = place, float(turn[0, 0])
            mujoco.mjv_initGeom(geom, kind.value, np.zeros(3), np.zeros(3), np.zeros(9), rgba)
            mujoco.mjv_connector(geom, kind.value, 0.5 * width, *ends)
        else:
            size = turn[:, 0] if kind == GEOM.mjGEOM_SPHERE else np.ones(3)
            frame = np.eye(3) if kind != GEOM.mjGEOM_TRIANGLE else turn
            mujoco.mjv_initGeom(geom, kind.value, size, place, frame.ravel(), rgba)
        geom.label, geom.emission = label, _GLOW
        geom.category = mujoco.mjtCatBit.mjCAT_DECOR.value
        scene.ngeom += 1


def _parts(shape: Shape, right: Array) -> Iterator[tuple]:
    """Yield kind, place, frame or size, colour and text of each geom that a shape is made of."""
    if isinstance(shape, Lines):
        for ends, color in zip(shape.ends, shape.colors, strict=True):
            yield GEOM.mjGEOM_CAPSULE, ends, np.full((3, 3), shape.width), color, ''
    elif isinstance(shape, Triangles):
        for (a, b, c), color in zip(shape.corners, shape.colors, strict=True):
            yield GEOM.mjGEOM_TRIANGLE, a, _frame(b - a, c - a), color, ''
    elif isinstance(shape, Spheres):
        size = np.full((3, 3), 0.5 * shape.diameter)
        for centre, color in zip(shape.centres, shape.colors, strict=True):
            yield GEOM.mjGEOM_SPHERE, centre, size, color, ''
    else:
        lines = shape.text.split('\n')
        aside = _LETTER * shape.height * max(map(len, lines))
        for i, line in enumerate(lines):
            lift = _PITCH * shape.height * (0.5 * (len(lines) - 1) - i)
            yield (
                GEOM.mjGEOM_LABEL,
                shape.place + lift * UP - aside * right,
                np.eye(3),
                (*shape.color, 1.0),
                line,
            )


def _frame(first: Array, second: Array) -> Array:
    """Return a frame (3, 3) with a triangle's edges as axes: MuJoCo stretches by it."""
    return np.column_stack([first, second, np.cross(first, second)])
