"""
The parts to track: bodies of a scene (MJCF), from a YAML file or from a task, and their settings.

`PartsFile` says which bodies are parts and where they start; `TrackedParts` is what a camera needs
to track them: shapes, rays, background and noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core import config, paths
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import ConfigError, SceneError, unknown
from emppi_ros.core.pose import Poses, from_rows
from emppi_ros.model import scene
from emppi_ros.tasks.task import Task
from emppi_ros.tracking import renderer, surfaces
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.renderer import Background, FixedBackground, PartRenderer
from emppi_ros.tracking.surfaces import Surface

TUKEY = 4.685  # standard deviations: 95 % efficiency for normal errors
FAR = 1e3  # m: depth of what a mask says is no part
_LENGTH_TOLERANCE = 0.01  # of quaternions


@dataclass(frozen=True)
class TrackerConfig:
    """Settings of the tracker."""

    noise_sd_per_m: float = config.positive(
        0.0037, doc='standard deviation of a depth over its square [1/m]: 9 mm at 1.6 m'
    )
    iterations: int = config.between(1, 50, 6, doc='Gauss-Newton steps for an image, at most')
    alignment_steps: int = config.between(
        0, 20, 4, doc='steps of point-to-plane alignment before them'
    )
    reach_m: float = config.positive(
        0.12, doc='distance that alignment bridges between a part and its image'
    )
    outlines: bool = config.key(True, doc='whether outlines count')
    outline_reach_px: int = config.between(2, 20, 6, doc='distance at which outlines are found')
    outline_sd_px: float = config.positive(0.5, doc='standard deviation of an outline')
    outline_lines: float = config.between(
        1.0, 100.0, 8.0, doc='neighbouring lines across an outline whose errors are as one'
    )
    lost_below: float = config.fraction(
        0.8, doc='share of visible pixels with the right depth, below which a part is lost'
    )


@dataclass(frozen=True)
class PartConfig:
    """A part, by its name."""

    body: str = config.key('', doc="body of the scene (the part's name)")
    position: tuple[float, ...] | None = config.key(
        None,
        check=lambda value: len(value) == 3,
        allowed='3 numbers',
        doc='where its frame is in the first image [m] (as in the scene)',
    )
    quaternion: tuple[float, ...] | None = config.key(
        None,
        check=lambda value: len(value) == 4 and abs(math.hypot(*value) - 1.0) < _LENGTH_TOLERANCE,
        allowed='a unit quaternion w, x, y, z',
        doc='its orientation in the first image (as in the scene)',
    )


@dataclass(frozen=True)
class PartsFileConfig:
    """A file for `emppi track --parts`."""

    scene: str = config.key(
        doc="MJCF file, beside this one or among the package's assets: shapes, and what is fixed"
    )
    parts: Mapping[str, PartConfig] = config.key(doc='name -> part')
    background: str = config.one_of(
        'scene',
        'none',
        default='scene',
        doc='what is behind the parts: the fixed geoms of the scene; or nothing is known, and the '
        'video has masks, or shows no surface beside the parts',
    )
    tracker: TrackerConfig = config.key(TrackerConfig(), doc='settings of the tracker')


class PartsFile(NamedTuple):
    """
    A parts file with its scene.

    Attributes
    ----------
    settings : PartsFileConfig
        Content of the file.
    model : MjModel
        The scene, with visual geoms.
    bodies : tuple
        Index of the body of each part.
    start : Poses
        Poses of the parts in the first image.

    """

    settings: PartsFileConfig
    model: mujoco.MjModel
    bodies: tuple[int, ...]
    start: Poses

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(self.settings.parts)


def load_parts(path: Path) -> PartsFile:
    """Return a parts file; ConfigError or SceneError names file, line and key."""
    data = config.load(path)
    settings = config.build(PartsFileConfig, data, str(path))
    if not settings.parts:
        raise ConfigError(f'{path}: parts: expected at least one part')
    try:
        file = paths.find_scene(settings.scene, path.parent)
    except ConfigError as error:
        raise ConfigError(f'{path}: scene: {error}') from None
    model = scene.load_scene(file.path, True, file.root)
    bodies = tuple(
        _find_body(path, model, name, part.body or name) for name, part in settings.parts.items()
    )
    kinematics = scene.kinematics(model, model.qpos0)
    poses = []
    for body, part in zip(bodies, settings.parts.values(), strict=True):
        position = kinematics.xpos[body] if part.position is None else part.position
        quaternion = kinematics.xquat[body] if part.quaternion is None else part.quaternion
        poses.append([*position, *quaternion])
    start = from_rows(np.array(poses, np.float64))
    return PartsFile(settings, model, bodies, start)


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


def _find_body(path: Path, model: mujoco.MjModel, name: str, body: str) -> int:
    named = scene.names(model, 'body')
    if body not in named[1:]:
        raise SceneError(f'{path}: parts: {name}: {unknown("body", body, named[1:])}')
    return named.index(body)


class TrackedParts:
    """Parts and camera, which do not change during a video, and what is behind the parts."""

    def __init__(
        self,
        settings: TrackerConfig,
        model: mujoco.MjModel,
        bodies: Sequence[int],
        camera: Camera,
        background: Array | None = None,
    ) -> None:
        """
        Prepare the shapes of some bodies of a model.

        `background` (h, w) is the depth of the scene without the parts [m], inf where there is
        nothing; None if it is unknown.
        """
        self.settings, self.camera = settings, camera
        self.renderer = PartRenderer(model, bodies, camera)
        self.surfaces: list[Surface] = surfaces.sample_surfaces(model, bodies)
        self.shapes = [one.shape for one in self.surfaces]
        self.initial = self.renderer.initial(bodies)
        nothing = np.full((camera.height, camera.width), np.inf)
        self.background: Background = FixedBackground(
            nothing if background is None else background
        )
        self.rays = camera.rays()

    def noise(self, depth: Array) -> Array:
        """Return standard deviations of depths [m]."""
        return self.settings.noise_sd_per_m * depth**2

    def is_foreground(self, observed: Array, background: Array) -> Bools:
        """Return which depths are in front of the background by more than noise."""
        with np.errstate(invalid='ignore'):
            return (observed < background - TUKEY * self.noise(observed)) & (observed < FAR)


def prepare_parts(file: PartsFile, camera: Camera) -> TrackedParts:
    """Return the parts as a camera sees them; SceneError if one has no visible geom."""
    background = None
    if file.settings.background == 'scene':
        background = renderer.render_background(file.model, file.bodies, camera)
    return TrackedParts(file.settings.tracker, file.model, file.bodies, camera, background)
