"""
Pictures of the belief about an uncertain joint, drawn in the scene (the paper's Fig. 2 and 6).

Each particle is its axis, as in rviz; the true axis is longer.
"""

from contextlib import closing
from pathlib import Path

import imageio.v3 as imageio
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
import mujoco
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.model import scene, uncertain_joints
from emppi_ros.model.uncertain_joints import UncertainJoint
from emppi_ros.priors.particles import Belief
from emppi_ros.state import articulation
from emppi_ros.tasks.objects import JointedObject
from emppi_ros.tasks.task import Task
from emppi_ros.viz.mujoco_overlay import add_shapes
from emppi_ros.viz.palette import JOINT_KINDS, TRUE_AXIS
from emppi_ros.viz.renderer import Image, Renderer
from emppi_ros.viz.report import plots, video
from emppi_ros.viz.report.recording import RunRecord
from emppi_ros.viz.shapes import joint_axes
from emppi_ros.viz.shapes.joint_axes import kind_names, kind_shares, uncertain_objects
from emppi_ros.viz.shapes.shapes import rgba

BULKY, FADED = 0.12, 0.45  # the object's parts of a larger radius get this opacity
TRUE_LENGTH = 2.0  # of the length of a particle's axis
PANEL = 560, 520  # px, width and height
AZIMUTH, ELEVATION = 65.0, -20.0  # degrees, of the camera from robot and object
LOOKAT, DISTANCE = 0.4, 1.6  # how far the camera looks from their middle to the object; distance


def write_all(
    task: Task, record: RunRecord, folder: Path, name: str = 'articulation', source: str = ''
) -> list[Path]:
    """
    Write a picture, with its `source` as metadata, for each joint if anything was learned.

    It shows the start, the first motion of the joint's body, and the end. May raise RenderError.
    """
    written = []
    learned = len(record.belief_times) and len(record.times)
    uncertain = uncertain_objects(task) if learned else []
    for joint, item in uncertain:
        ending = '' if len(uncertain) == 1 else f'_{joint.name}'
        written.append(folder / f'{name}{ending}.png')
        with plots.styled():
            figure = draw(task, record, joint, item)
            figure.savefig(written[-1], dpi=100, metadata={'Source': source})
    return written


def source_of(path: Path) -> str | None:
    """Return the source stored in a picture's metadata, None if there is no picture."""
    return str(imageio.immeta(path).get('Source')) if path.is_file() else None


def draw(task: Task, record: RunRecord, joint: UncertainJoint, item: JointedObject) -> Figure:
    """Return the belief about a joint in the scene, at two or three times."""
    model = video.true_model(task, record)
    moved = uncertain_joints.first_moved(
        model, joint, task.start(), record.qpos, uncertain_joints.MOVED_M
    )
    middle = {} if moved is None else {f'moved {100 * uncertain_joints.MOVED_M:g} cm': moved}
    times = {'start': 0, **middle, 'end': len(record.times) - 1}
    camera, size = _camera(task, joint, item, record.belief_theta[0])
    figure = Figure(figsize=(PANEL[0] * len(times) / 100, 6.0), layout='constrained')
    axes = figure.subplots(1, len(times))
    with closing(Renderer(model, *PANEL, camera)) as renderer:
        for axis, (title, row) in zip(axes, times.items(), strict=True):
            picture, shares = _picture(task, record, joint, item, row, renderer, size)
            axis.imshow(picture)
            axis.set_axis_off()
            axis.set_title(f'{title}, {record.times[row]:.2f} s: {shares}')
    names = kind_names(task, joint)
    colors = *JOINT_KINDS[: len(names)], TRUE_AXIS
    lines = [Line2D([], [], color=color, linewidth=3) for color in colors]
    figure.legend(lines, [*names, 'true axis'], loc='outside lower center', ncols=4)
    return figure


def _picture(
    task: Task,
    record: RunRecord,
    joint: UncertainJoint,
    item: JointedObject,
    row: int,
    renderer: Renderer,
    size: float,
) -> tuple[Image, str]:
    """Return the scene with the belief in it, and the probability of each joint kind as text."""
    belief = record.belief_at(record.times[row])
    data = scene.kinematics(renderer.model, record.qpos[row])
    axes, pivots = joint_axes.axes(task, size, data, belief)
    truth = Belief(record.truth[None], np.zeros(1))
    true, _ = joint_axes.axes(task, TRUE_LENGTH * size, data, truth)
    true = true._replace(colors=rgba(TRUE_AXIS, 1.0, len(true.colors)), width=axes.width)

    def decorate(drawn: mujoco.MjvScene) -> None:
        _fade(drawn, renderer.model, item.body, BULKY * size)
        add_shapes(drawn, [axes, pivots, true])

    return renderer.render(record.qpos[row], decorate), kind_shares(task, joint, belief)


def _fade(drawn: mujoco.MjvScene, model: mujoco.MjModel, body: int, radius: float) -> None:
    """Make large parts of a body's tree translucent: pivots may lie inside them."""
    kind, root = mujoco.mjtObj.mjOBJ_GEOM.value, model.body_rootid[body]
    for geom in drawn.geoms[: drawn.ngeom]:
        if geom.objtype != kind or geom.objid < 0:
            continue
        mine = model.body_rootid[model.geom_bodyid[geom.objid]] == root
        if mine and model.geom_rbound[geom.objid] > radius:
            geom.rgba[3] *= FADED


def _camera(
    task: Task, joint: UncertainJoint, item: JointedObject, theta: Array
) -> tuple[mujoco.MjvCamera, float]:
    """Return a camera that shows robot, object and pivots, and their extent [m]."""
    data = scene.kinematics(task.model, task.start().qpos)
    robot = data.xpos[np.unique(task.model.dof_bodyid[task.map.qvel])]
    world = articulation.for_parameters(task, joint, item, theta)
    pivots = world.pivot[world.hinge]
    around = np.vstack([data.xpos[item.body], pivots])
    middle, target = _middle(np.vstack([robot, around])), _middle(around)
    across = target - robot.mean(axis=0)
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE.value
    camera.lookat[:] = middle + LOOKAT * (target - middle)
    camera.azimuth = float(np.degrees(np.arctan2(across[1], across[0]))) + AZIMUTH
    extent = float(np.linalg.norm(np.ptp(np.vstack([robot, around]), axis=0)))
    camera.elevation, camera.distance = ELEVATION, DISTANCE * extent
    return camera, extent


def _middle(places: Array) -> Array:
    return 0.5 * (places.min(axis=0) + places.max(axis=0))
