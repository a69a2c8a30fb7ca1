"""A scene with moving parts in front of a simulated depth camera, with the truth of each image."""

from collections.abc import Sequence
from typing import NamedTuple

import mujoco
import numpy as np

from emppi_ros.core.arrays import Array, Ints
from emppi_ros.core.pose import Poses
from emppi_ros.model import scene
from emppi_ros.sim.depth_camera import add_noise
from emppi_ros.tasks.schema import DepthCameraConfig
from emppi_ros.tracking import camera, renderer
from emppi_ros.tracking.fitting import TrackerConfig
from emppi_ros.tracking.parts import PartsFile


class FilmedImage(NamedTuple):
    """An image with its truth."""

    depth: Array  # (h, w): measured depths [m], NaN where there is none
    poses: Poses  # true poses of the parts
    labels: Ints  # (h, w): true part of each pixel, negative where none is


class FilmedParts:
    """Some bodies of a scene, and its camera `depth`."""

    def __init__(
        self, model: mujoco.MjModel, names: Sequence[str], settings: DepthCameraConfig
    ) -> None:
        """Render what is behind the parts, which does not move."""
        self._model, self._settings = model, settings
        self.bodies = tuple(scene.find(model, 'body', name) for name in names)
        self.camera = camera.from_model(model, 'depth', settings.width, settings.height)
        self._parts = renderer.PartRenderer(model, self.bodies, self.camera)
        self._background = renderer.render_background(model, self.bodies, self.camera)

    def take(self, qpos: Array, rng: np.random.Generator) -> FilmedImage:
        """Return the image of a state (nq,), with noise."""
        poses = renderer.body_poses(scene.kinematics(self._model, qpos), self.bodies)
        depth, labels = self._see(poses)
        return FilmedImage(add_noise(self._settings, depth, rng), poses, labels)

    def depth(self, poses: Poses) -> Array:
        """Return the depths (h, w) [m] without noise, with the parts at poses (B)."""
        return self._see(poses)[0]

    def _see(self, poses: Poses) -> tuple[Array, Ints]:
        """Return depths without noise and the part of each pixel (h, w)."""
        self._parts.place(poses)
        seen = self._parts.render()
        return np.minimum(seen.depth, self._background), np.where(
            seen.depth <= self._background, seen.part, renderer.NOTHING
        )


def parts_of(
    model: mujoco.MjModel, bodies: Sequence[int], start: Poses, camera: DepthCameraConfig
) -> PartsFile:
    """Return filmed bodies as parts to track from their first poses, with noise of a camera."""
    names = [model.body(body).name for body in bodies]
    tracker = TrackerConfig(noise_sd_per_m=camera.noise_sd_per_m)
    return PartsFile(tuple(names), model, tuple(bodies), start, tracker)
