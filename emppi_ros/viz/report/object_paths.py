"""Objects and their target, drawn from above."""

from matplotlib.axes import Axes
from matplotlib.patches import Polygon
import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model import scene
from emppi_ros.tasks.objects import FreeObject
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_COLORS = ('#2a6fb0', '#d9822b', '#3a9d5d', '#8e5aa8')
_RED = '#c0392b'


def draw_paths(axis: Axes, task: Task, qpos: Array) -> None:
    """Draw where objects went (n, nq), their outlines now and then, and the task's target."""
    target = _target(task, qpos[0])
    if target is not None:
        axis.plot(*target, marker='+', markersize=16, markeredgewidth=2.5, color=_RED,
                  linestyle='', label='target')  # fmt: skip
        below = task.file.success.below
        angle = np.linspace(0.0, 2.0 * np.pi, 60)
        axis.plot(target[0] + below * np.cos(angle), target[1] + below * np.sin(angle),
                  color=_RED, linewidth=1.2, ls=':', label=f'within {below:g} m')  # fmt: skip
    for (name, item), color in zip(task.objects.items(), _COLORS, strict=False):
        path = qpos[:, item.qpos : item.qpos + 2]
        for share in (0.0, 0.35, 0.7, 1.0):
            row = qpos[round(share * (len(qpos) - 1)), item.qpos : item.qpos + 7]
            outline = _outline(task, item, row)
            if outline is not None:
                axis.add_patch(Polygon(
                    outline, closed=True, facecolor=color, alpha=0.06 + 0.16 * share,
                    edgecolor=color, linewidth=1.2,
                ))  # fmt: skip
        axis.plot(*path.T, color=color, label=f'{name}, centre')
        axis.plot(*path[0], marker='o', color=color)
    axis.set(xlabel='x [m]', ylabel='y [m]', aspect='equal', adjustable='datalim')
    axis.legend(loc='best')


def _target(task: Task, qpos: Array) -> Array | None:
    """Return x and y of the place that success measures a distance to, if it does."""
    success = task.file.success.residual
    if success.get('residual') != 'distance':
        return None
    data = mujoco.MjData(task.model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(task.model, data)
    kind, index = scene.find_frame(task.model, str(success['to']))
    return getattr(data, scene.POSITION_FIELDS[kind])[index][:2].copy()


def _outline(task: Task, item: FreeObject, pose: Array) -> Array | None:
    """Return the corners (4, 2) of a box-shaped object in a pose (7,), None for other shapes."""
    model = task.model
    body = scene.find(model, 'body', item.settings.body)
    geom = model.body_geomadr[body]
    if geom < 0 or model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_BOX.value:
        return None
    a, b, _ = model.geom_size[geom]
    w, x, y, z = pose[3:]
    yaw = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    return np.array([[a, b], [-a, b], [-a, -b], [a, -b]]) @ turn.T + pose[:2]
