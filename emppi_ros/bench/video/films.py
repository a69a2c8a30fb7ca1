"""Depth videos of a driven cart-pole with unknown masses and damping, and the recorded force."""

from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.bench.filmed_parts import FilmedParts
from emppi_ros.core import paths
from emppi_ros.model import scene
from emppi_ros.tracking.camera import Camera
from emppi_ros.tracking.depth_noise import DepthCameraConfig
from emppi_ros.tracking.renderer import Placement

Array = npt.NDArray[np.float64]
FILE, PARTS, ACTUATOR = 'filmed_cartpole.xml', ('cart', 'pole'), 'force'
RATE_HZ, SECONDS = 30.0, 10.0
CAMERA = DepthCameraConfig(rate_hz=RATE_HZ)
DENSITY = (100.0, 2000.0)  # kg/m^3, of wood and plastics: range of priors and of the truth
RANGES = {  # damping: range of priors and of the truth
    'cart_damping': (0.05, 5.0),
    'pole_damping': (0.001, 0.05),
}
UNITS = {
    'cart_mass': 'kg', 'pole_mass': 'kg', 'cart_damping': 'N s/m', 'pole_damping': 'N m s/rad',
}  # fmt: skip
_MIDDLE = 0.5  # of each range, in the logarithm, that true values are drawn from
_STIFFNESS, _DAMPING = 8.0, 4.0  # N/m, N s/m: the force brings the cart back into view


class Film(NamedTuple):
    """
    A video with what else was recorded, and the truth.

    Attributes
    ----------
    truth : dict
        Parameter -> value.
    time : (T,) array
        Of the images [s].
    images : list
        Depths (h, w) [m].
    poses : list of Placement
        True poses of the parts.
    clock, force : (n,) array
        The recorded force [N], each value until the next time [s].
    camera : Camera
        Its intrinsics and pose.

    """

    truth: dict[str, float]
    time: Array
    images: list[Array]
    poses: list[Placement]
    clock: Array
    force: Array
    camera: Camera


def bounds(model: mujoco.MjModel) -> dict[str, tuple[float, float]]:
    """Return the range of each parameter; masses follow from shapes and densities."""
    spec, masses = mujoco.MjSpec.from_file(str(paths.ASSETS / FILE)), {}
    for part in PARTS:
        volume = float(model.body(part).mass[0]) / float(spec.geom(part).density)
        masses[f'{part}_mass'] = (DENSITY[0] * volume, DENSITY[1] * volume)
    return masses | RANGES


def make(seed: int) -> Film:
    """Return the film of a seed: true parameters, start, force and noise are drawn with it."""
    rng = np.random.default_rng(seed)
    model = scene.load_scene(paths.ASSETS / FILE, visual=True)
    truth = {}
    for name, (low, high) in bounds(model).items():
        middle, half = 0.5 * np.log(low * high), 0.5 * _MIDDLE * np.log(high / low)
        truth[name] = float(np.exp(middle + rng.uniform(-half, half)))
    _set(model, truth)
    data = mujoco.MjData(model)
    data.qpos[:] = rng.uniform(-0.1, 0.1), np.pi + rng.uniform(-1.0, 1.0)
    frequencies, phases = rng.uniform(0.3, 1.5, 3), rng.uniform(0.0, 2.0 * np.pi, 3)
    size = 3.0 * sum(truth[f'{part}_mass'] for part in PARTS) / len(frequencies)
    parts = FilmedParts(model, PARTS, CAMERA)
    times, images, poses, clock, force = [], [], [], [], []
    while data.time < SECONDS:
        if data.time >= len(times) / RATE_HZ - 1e-9:
            taken = parts.take(data.qpos, rng)
            times.append(data.time)
            poses.append(taken.poses)
            images.append(taken.depth)
        turns = 2.0 * np.pi * frequencies * data.time + phases
        back = _STIFFNESS * data.qpos[0] + _DAMPING * data.qvel[0]
        data.ctrl[0] = np.clip(size * np.sum(np.sin(turns)) - back, -20.0, 20.0)
        clock.append(data.time)
        force.append(float(data.ctrl[0]))
        mujoco.mj_step(model, data)
    return Film(
        truth, np.array(times), images, poses, np.array(clock), np.array(force), parts.camera
    )


def _set(model: mujoco.MjModel, truth: dict[str, float]) -> None:
    for part in PARTS:
        body = model.body(part)
        body.inertia[:] *= truth[f'{part}_mass'] / body.mass[0]
        body.mass[0] = truth[f'{part}_mass']
        model.joint(part).damping[0] = truth[f'{part}_damping']
    mujoco.mj_setConst(model, mujoco.MjData(model))
