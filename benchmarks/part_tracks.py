"""Bodies of a scene as parts to track in its films, and their tracks."""

from collections.abc import Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.articulation.tracks import PartTrack, Tracks
from emppi_ros.core.pose import Poses
from emppi_ros.tasks.depth_camera_config import DepthCameraConfig
from emppi_ros.tracking import renderer
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.parts import TrackedParts, TrackerConfig
from emppi_ros.tracking.search import TRACKED
from emppi_ros.tracking.tracker import PartEstimate

Array = npt.NDArray[np.float64]


def tracked_parts(
    model: mujoco.MjModel, bodies: tuple[int, ...], camera: Camera, settings: DepthCameraConfig
) -> TrackedParts:
    """Return filmed bodies as parts to track, with the noise of their camera."""
    config = TrackerConfig(noise_sd_per_m=settings.noise_sd_per_m)
    background = renderer.render_background(model, bodies, camera)
    return TrackedParts(config, model, bodies, camera, background)


def to_tracks(
    names: Sequence[str], time: Array, estimates: Sequence[Sequence[PartEstimate]]
) -> Tracks:
    """Return the tracks of all parts, as `emppi track` writes them, from (T, B) estimates."""
    parts = []
    for name, own in zip(names, zip(*estimates, strict=True), strict=True):
        rotation = np.array([one.rotation for one in own])
        position = np.array([one.position for one in own])
        covariance = np.array([one.covariance for one in own])
        seen = np.array([one.status == TRACKED for one in own])
        parts.append(PartTrack(name, Poses(position, rotation), covariance, seen))
    return Tracks(time, tuple(parts))
