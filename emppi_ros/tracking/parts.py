"""Parts whose poses are tracked: shapes, camera, background, noise, and settings."""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core import config
from emppi_ros.tracking import surfaces
from emppi_ros.tracking.background import Background, FixedBackground
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.renderer import PartRenderer
from emppi_ros.tracking.surfaces import Surface

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
TUKEY = 4.685  # standard deviations: 95 % efficiency for normal errors
FAR = 1e3  # m: depth of what a mask says is no part


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
