"""Pictures of what is believed of a joint, in the scene, as it collapses on the truth."""

from pathlib import Path

import imageio.v3 as imageio
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.model import uncertain_joints
from emppi_ros.model.uncertain_joints import Joint
from emppi_ros.state import articulation
from emppi_ros.tasks.objects import JointedObject
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report import plots, video
from emppi_ros.viz.report.joint_arrows import COLORS, Color, add, arrows, names, opened
from emppi_ros.viz.report.recording import Recording

Array = npt.NDArray[np.float64]

TRUE: Color = (0.10, 0.75, 0.25)
LENGTH, TRUE_LENGTH = 0.2, 0.36  # of an arrow, of the extent of robot, object and pivots
WIDTH, TRUE_WIDTH = 0.004, 0.003  # likewise
BULKY, FADED = 0.12, 0.45  # parts of the object beyond such a radius, likewise, let light through
DARKEST = 0.6  # opacity of the heaviest arrow
PANEL = 560, 520  # px, width and height
ASIDE, DOWN = 65.0, -20.0  # degrees: from where the camera looks at robot and object
NEAR, FAR = 0.4, 1.6  # how far it looks from their middle to the object; its distance, likewise


def write_all(
    task: Task, record: Recording, folder: Path, name: str = 'articulation', source: str = ''
) -> list[Path]:
    """
    Write a picture for each open joint: at the start, once its body has moved, and at the end.

    There is none where nothing was learned; RenderError where nothing can be rendered.
    `source` is kept in the file, to be asked for by `source_of`.
    """
    written = []
    found = opened(task) if len(record.belief_times) and len(record.times) else []
    for joint, item in found:
        ending = '' if len(found) == 1 else f'_{joint.name}'
        written.append(folder / f'{name}{ending}.png')
        with plots.styled():
            figure = draw(task, record, joint, item)
            figure.savefig(written[-1], dpi=100, metadata={'Source': source})
    return written


def source_of(path: Path) -> str | None:
    """Return what a picture was made from, None if there is none."""
    return str(imageio.immeta(path).get('Source')) if path.is_file() else None


def draw(task: Task, record: Recording, joint: Joint, item: JointedObject) -> Figure:
    """Return the belief about a joint in the scene, at two or three moments."""
    model = video.true_model(task, record)
    moments = {'start': 0, 'end': len(record.times) - 1}
    moved = uncertain_joints.first_beyond(
        model, joint, task.start(), record.qpos, uncertain_joints.MOVED_M
    )
    if moved is not None:
        moments = {
            'start': 0,
            f'moved {100 * uncertain_joints.MOVED_M:g} cm': moved,
            'end': moments['end'],
        }
    view, extent = _view(task, joint, item, record.belief_theta[0])
    camera = video.Camera(model, *PANEL, view)
    figure = Figure(figsize=(PANEL[0] * len(moments) / 100, 6.0), layout='constrained')
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(moments))
    try:
        for axis, (words, row) in zip(axes, moments.items(), strict=True):
            picture, shares = _picture(task, record, joint, item, row, camera, extent)
            axis.imshow(picture)
            axis.set_axis_off()
            axis.set_title(f'{words}, {record.times[row]:.2f} s: {shares}')
    finally:
        camera.close()
    found = names(task, joint)
    lines = [Line2D([], [], color=color, linewidth=3) for color in (*COLORS[: len(found)], TRUE)]
    figure.legend(lines, [*found, 'true axis'], loc='outside lower center', ncols=4)
    return figure


def _picture(
    task: Task,
    record: Recording,
    joint: Joint,
    item: JointedObject,
    row: int,
    camera: video.Camera,
    extent: float,
) -> tuple[video.Image, str]:
    """Return the scene with the belief in it, and the shares of each kind in words."""
    after = np.searchsorted(record.belief_times, record.times[row])  # what it says of this moment
    after = min(int(after), len(record.belief_times) - 1)
    theta, shares = record.belief_theta[after], record.belief_weights[after]
    data = mujoco.MjData(camera.model)
    data.qpos[:] = record.qpos[row]
    mujoco.mj_kinematics(camera.model, data)
    place = data.xpos[item.body].copy()
    believed = arrows(task, joint, item, theta, shares, place, LENGTH * extent)
    believed = [arrow._replace(alpha=DARKEST * arrow.alpha) for arrow in believed]
    truth = record.truth[None]
    (true,) = arrows(task, joint, item, truth, np.ones(1), place, TRUE_LENGTH * extent)
    both = true._replace(start=2.0 * true.start - true.end, color=TRUE)

    def decorate(scene: mujoco.MjvScene) -> None:
        _fade(scene, camera.model, item.body, BULKY * extent)
        add(scene, believed, WIDTH * extent)
        add(scene, [both], TRUE_WIDTH * extent, mujoco.mjtGeom.mjGEOM_CAPSULE)

    kinds = uncertain_joints.kinds(task.model, task.parameters, joint, theta)
    words = [
        f'{100.0 * shares[kinds == i].sum():.0f} % {name}'
        for i, name in enumerate(names(task, joint))
    ]
    return camera.render(record.qpos[row], decorate), ', '.join(words)


def _fade(scene: mujoco.MjvScene, model: mujoco.MjModel, body: int, radius: float) -> None:
    """Let light through large parts of what a body belongs to: pivots may lie in them."""
    kind, root = mujoco.mjtObj.mjOBJ_GEOM.value, model.body_rootid[body]
    for geom in scene.geoms[: scene.ngeom]:
        if geom.objtype != kind or geom.objid < 0:
            continue
        mine = model.body_rootid[model.geom_bodyid[geom.objid]] == root
        if mine and model.geom_rbound[geom.objid] > radius:
            geom.rgba[3] *= FADED


def _view(
    task: Task, joint: Joint, item: JointedObject, theta: Array
) -> tuple[mujoco.MjvCamera, float]:
    """Return a camera that sees robot, object and pivots, and how far these reach [m]."""
    data = mujoco.MjData(task.model)
    data.qpos[:] = task.start().qpos
    mujoco.mj_kinematics(task.model, data)
    robot = data.xpos[np.unique(task.model.dof_bodyid[task.map.qvel])]
    motion = uncertain_joints.motion(task.model, task.parameters, joint, theta)
    pivots = articulation.of(item, *motion).pivot[motion.hinge]
    around = np.vstack([data.xpos[item.body], pivots])
    middle, target = _middle(np.vstack([robot, around])), _middle(around)
    way = target - robot.mean(axis=0)
    view = mujoco.MjvCamera()
    view.type = mujoco.mjtCamera.mjCAMERA_FREE.value
    view.lookat[:] = middle + NEAR * (target - middle)
    view.azimuth = float(np.degrees(np.arctan2(way[1], way[0]))) + ASIDE
    extent = float(np.linalg.norm(np.ptp(np.vstack([robot, around]), axis=0)))
    view.elevation, view.distance = DOWN, FAR * extent
    return view, extent


def _middle(places: Array) -> Array:
    return 0.5 * (places.min(axis=0) + places.max(axis=0))
