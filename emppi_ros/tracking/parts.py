"""The parts to track: bodies of a scene (MJCF), from a YAML file or from a task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError, prefix_errors
from emppi_ros.core.pose import Poses, from_rows
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import renderer
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.fitting import TrackedParts, TrackerConfig
from emppi_ros.tracking.silhouettes import PartMark


@dataclass(frozen=True)
class PartConfig:
    """A part, by its name."""

    body: str = config.key('', doc="body of the scene (the part's name)")
    position: tuple[float, ...] | None = config.position(
        doc='where its frame is in the first image [m] (as in the scene)'
    )
    quaternion: tuple[float, ...] | None = config.quaternion(
        doc='its orientation in the first image (as in the scene)'
    )
    color: tuple[float, ...] | None = config.position(
        doc='its red, green and blue in images of colours, of which the hue counts'
    )
    label: int | None = config.key(None, doc='its value in images of labels')


@dataclass(frozen=True)
class PartsFileConfig:
    """A file for `emppi track --parts`."""

    scene: str = config.key(
        doc="MJCF file, beside this one or among the package's assets: shapes, and what is fixed"
    )
    parts: Mapping[str, PartConfig] = config.key(doc='name -> part')
    plane: tuple[float, ...] | None = config.position(
        doc='in images of colours or labels: normal of the planes in which parts move, each in '
        'one through its first pose, whose place and angle in it need not be known'
    )
    background: str = config.one_of(
        'scene',
        'none',
        default='scene',
        doc='what is behind the parts: the fixed geoms of the scene; or nothing is known, and the '
        'video has masks, or shows no surface beside the parts',
    )
    tracker: TrackerConfig = config.key(TrackerConfig(), doc='settings of the tracker')


class PartsFile(NamedTuple):
    """Parts of a scene, and how to track them."""

    names: tuple[str, ...]
    model: mujoco.MjModel  # with visual geoms
    bodies: tuple[int, ...]  # of each part
    start: Poses  # of the parts in the first image
    tracker: TrackerConfig
    background: str = 'scene'  # as in `PartsFileConfig`
    plane: tuple[float, ...] | None = None  # normal (3,), where parts move in planes
    marks: tuple[PartMark, ...] = ()  # of each part, where they do


def load_parts(path: Path) -> PartsFile:
    """Return a parts file; ConfigError or SceneError names file, line and key."""
    settings = config.build(PartsFileConfig, config.load(path), str(path))
    if not settings.parts:
        raise ConfigError(f'{path}: parts: expected at least one part')
    file = prefix_errors(f'{path}: scene', paths.find_scene, settings.scene, path.parent)
    model = scene.load_scene(file.path, True, file.root)
    kinematics = scene.kinematics(model, model.qpos0)
    bodies, rows = list[int](), list[list[float]]()
    for name, part in settings.parts.items():
        where = f'{path}: parts: {name}'
        body = prefix_errors(where, scene.find, model, 'body', part.body or name)
        position = kinematics.xpos[body] if part.position is None else part.position
        quaternion = kinematics.xquat[body] if part.quaternion is None else part.quaternion
        bodies.append(body)
        rows.append([*position, *quaternion])
    names, start = tuple(settings.parts), from_rows(np.array(rows))
    marks = tuple(PartMark(part.color, part.label) for part in settings.parts.values())
    ways = settings.tracker, settings.background, settings.plane
    return PartsFile(names, model, tuple(bodies), start, *ways, marks)


def of_task(task: Task, settings: TrackerConfig) -> PartsFile:
    """Return the objects, where they start in the task; ConfigError if it tracks none."""
    if not task.tracked:
        raise ConfigError(f'task {task.name!r} has no tracked object: no part to track')
    model = task.visual_model()
    bodies = tuple(scene.find(model, 'body', part.body) for part in task.tracked.values())
    start = renderer.body_poses(scene.kinematics(model, task.start().qpos), bodies)
    return PartsFile(tuple(task.tracked), model, bodies, start, settings)


def prepare_parts(file: PartsFile, camera: Camera) -> TrackedParts:
    """Return the parts as a camera sees them; SceneError if one has no visible geom."""
    background = None
    if file.background == 'scene':
        background = renderer.render_background(file.model, file.bodies, camera)
    return TrackedParts(file.tracker, file.model, file.bodies, camera, background)
