"""Depth videos of moving parts with true poses; to add one, add a line to VIDEOS."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np

from benchmarks import ASSETS
from benchmarks.filmed_parts import FilmedParts
from emppi_ros.core.arrays import Array, Ints
from emppi_ros.core.pose import Poses
from emppi_ros.model import scene
from emppi_ros.tasks.schema import DepthCameraConfig
from emppi_ros.tracking.camera import Camera

RATE_HZ, IMAGES = 30.0, 90
CAMERA = DepthCameraConfig(rate_hz=RATE_HZ)


@dataclass(frozen=True)
class VideoConfig:
    """A scene with moving parts."""

    description: str  # for the report
    file: str  # scene, in benchmarks/assets, with a camera `depth`
    parts: Mapping[str, Sequence[int]]  # axes of each part, 0 to 2, whose direction images show
    # returns states (T, nq) from the model and a random generator
    move: Callable[[mujoco.MjModel, int, np.random.Generator], Array]
    limit_ms: float  # required time for an image


class MadeVideo(NamedTuple):
    """A video with its truth."""

    model: mujoco.MjModel
    bodies: tuple[int, ...]  # index of the body of each part
    camera: Camera
    images: list[Array]  # depths (h, w) [m]
    poses: list[Poses]  # true poses at each image
    labels: list[Ints]  # true part (h, w) of each pixel, negative where none is


def make(name: str, seed: int, count: int = IMAGES) -> MadeVideo:
    """Return a video with the motion and the noise of a seed."""
    settings, rng = VIDEOS[name], np.random.default_rng(seed)
    model = scene.load_scene(ASSETS / settings.file, visual=True)
    parts = FilmedParts(model, tuple(settings.parts), CAMERA)
    video = MadeVideo(model, parts.bodies, parts.camera, [], [], [])
    for qpos in settings.move(model, count, rng):
        taken = parts.take(qpos, rng)
        video.images.append(taken.depth)
        video.poses.append(taken.poses)
        video.labels.append(taken.labels)
    return video


def _swing(model: mujoco.MjModel, count: int, rng: np.random.Generator) -> Array:
    """Return states of a cart-pole that is let go, and pushed to and fro."""
    data = mujoco.MjData(model)
    data.qpos[:] = rng.uniform(-0.15, 0.15), rng.uniform(-np.pi, np.pi)
    frequency, phase, force = rng.uniform(0.4, 1.0), rng.uniform(0.0, 2.0 * np.pi), 2.0
    states = []
    for i in range(count):
        states.append(data.qpos.copy())
        while data.time < (i + 1) / RATE_HZ:
            turn = 2.0 * np.pi * frequency * data.time + phase
            data.qfrc_applied[0] = force * np.sin(turn) - 2.0 * data.qvel[0]
            mujoco.mj_step(model, data)
    return np.array(states)


def _push(model: mujoco.MjModel, count: int, rng: np.random.Generator) -> Array:
    """Return states of a block that is pushed three times, along curves, with pauses."""
    states, state = [], np.array([0.0, 0.0, rng.uniform(-0.5, 0.5)])
    heading = rng.uniform(-np.pi, np.pi)
    for part in np.array_split(np.arange(count), 3):
        speed, spin = rng.uniform(0.08, 0.25), rng.normal(0.0, 1.0)
        for i in range(len(part)):
            ramp = np.sin(np.pi * (i + 0.5) / len(part)) ** 2
            heading += spin * ramp / RATE_HZ
            step = np.array([speed * np.cos(heading), speed * np.sin(heading), spin])
            states.append(state.copy())
            state = state + ramp * step / RATE_HZ
        heading += np.pi * rng.uniform(0.6, 1.4)  # back, so that it stays in view
    return np.array(states)


def _open(model: mujoco.MjModel, count: int, rng: np.random.Generator) -> Array:
    """Return states of drawer and door, which open and close, each at its own time."""
    time = np.arange(count) / RATE_HZ
    states = np.zeros((count, 2))
    for column, most in ((0, rng.uniform(0.15, 0.3)), (1, -rng.uniform(0.6, 1.5))):
        start, length = rng.uniform(0.0, 1.0), rng.uniform(1.5, 2.5)
        share = np.clip((time - start) / length, 0.0, 1.0)
        states[:, column] = most * np.sin(np.pi * share) ** 2
    return states


VIDEOS = {
    'cartpole': VideoConfig(
        'a cart and a pole of 0.4 m, which swings', 'video_cartpole.xml',
        {'cart': (0, 1, 2), 'pole': (2,)}, _swing, 60.0,
    ),
    'block': VideoConfig(
        'a block of 0.1 x 0.1 x 0.08 m, pushed on a table', 'video_block.xml',
        {'block': (0, 1, 2)}, _push, 60.0,
    ),
    'cabinet': VideoConfig(
        'a drawer and a door of 0.7 m, which open and close', 'video_cabinet.xml',
        {'drawer': (0, 1, 2), 'door': (0, 1, 2)}, _open, 200.0,
    ),
}  # fmt: skip
