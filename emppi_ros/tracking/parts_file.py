"""Which parts to track: a YAML file with a scene (MJCF), its bodies, and where they start."""

from collections.abc import Mapping
from dataclasses import dataclass
import math
from pathlib import Path
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core import config, paths
from emppi_ros.core.errors import ConfigError, SceneError, unknown
from emppi_ros.core.pose import Poses, from_rows
from emppi_ros.model import scene
from emppi_ros.tracking import renderer
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.parts import TrackedParts, TrackerConfig

Array = npt.NDArray[np.float64]
_LENGTH_TOLERANCE = 0.01  # of quaternions


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


def prepare_parts(file: PartsFile, camera: Camera) -> TrackedParts:
    """Return the parts as a camera sees them; SceneError if one has no visible geom."""
    background = None
    if file.settings.background == 'scene':
        background = renderer.render_background(file.model, file.bodies, camera)
    return TrackedParts(file.settings.tracker, file.model, file.bodies, camera, background)


def _find_body(path: Path, model: mujoco.MjModel, name: str, body: str) -> int:
    named = scene.names(model, 'body')
    if body not in named[1:]:
        raise SceneError(f'{path}: parts: {name}: {unknown("body", body, named[1:])}')
    return named.index(body)
