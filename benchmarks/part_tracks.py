"""Bodies of a scene as parts to track in its films."""

from collections.abc import Sequence

import mujoco

from emppi_ros.core.pose import Poses
from emppi_ros.tasks.schema import DepthCameraConfig
from emppi_ros.tracking.fitting import TrackerConfig
from emppi_ros.tracking.parts import PartConfig, PartsFile, PartsFileConfig


def parts_of(
    model: mujoco.MjModel, bodies: Sequence[int], start: Poses, camera: DepthCameraConfig
) -> PartsFile:
    """Return filmed bodies as parts to track from their first poses, with noise of a camera."""
    names = [model.body(body).name for body in bodies]
    tracker = TrackerConfig(noise_sd_per_m=camera.noise_sd_per_m)
    settings = PartsFileConfig(
        scene='', parts={name: PartConfig() for name in names}, tracker=tracker
    )
    return PartsFile(settings, model, tuple(bodies), start)
