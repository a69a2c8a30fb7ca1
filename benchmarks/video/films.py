"""Depth videos of mechanisms with unknown masses and damping, and the recorded forces."""

from typing import NamedTuple

import mujoco
import numpy as np

from benchmarks.filmed_parts import FilmedParts
from benchmarks.video.mechanisms import FilmedMechanism, unknowns
from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Poses
from emppi_ros.tasks.schema import DepthCameraConfig
from emppi_ros.tracking.camera import Camera

RATE_HZ, SECONDS = 30.0, 10.0
CAMERA = DepthCameraConfig(rate_hz=RATE_HZ)
_MIDDLE = 0.5  # of each range, in the logarithm, that true values are drawn from
_PUSH = 3.0  # m/s^2: forces over the mass of all parts
_STIFFNESS, _DAMPING = 4.0, 2.0  # 1/s^2, 1/s, times mass: forces that bring it back


class Film(NamedTuple):
    """A video with what else was recorded, and the truth."""

    mechanism: FilmedMechanism
    truth: dict[str, float]  # parameter -> value
    time: Array  # (T,): of the images [s]
    images: list[Array]  # depths (h, w) [m]
    poses: list[Poses]  # true poses of the parts
    clock: Array  # (n,): times of the forces [s]
    force: Array  # (n, nu): the recorded forces [N], each value until the next time
    camera: Camera

    def first(self, count: int) -> 'Film':
        """Return the film with its first images only."""
        images, poses = self.images[:count], self.poses[:count]
        return self._replace(time=self.time[:count], images=images, poses=poses)


def make(mechanism: FilmedMechanism, seed: int, take: int = 0, seconds: float = SECONDS) -> Film:
    """
    Return a film.

    True parameters are drawn with the seed; start, forces and noise with the seed and the number
    of the take.
    """
    truth = draw_truth(mechanism, seed)
    rng = np.random.default_rng([seed, take])
    model = mechanism.load(visual=True)
    set_truth(model, mechanism, truth)
    data = mujoco.MjData(model)
    data.qpos[:] = rng.uniform(*mechanism.start)
    mujoco.mj_forward(model, data)
    waves = 3
    frequencies = rng.uniform(0.3, 1.5, (model.nu, waves))
    phases = rng.uniform(0.0, 2.0 * np.pi, (model.nu, waves))
    mass = float(np.sum(model.body_mass))
    parts = FilmedParts(model, mechanism.parts, CAMERA)
    times: list[float] = []
    images, poses, clock, force = [], [], [], []
    while data.time < seconds - 1e-9:
        if data.time >= len(times) / RATE_HZ - 1e-9:
            taken = parts.take(data.qpos, rng)
            times.append(data.time)
            poses.append(taken.poses)
            images.append(taken.depth)
        turns = 2.0 * np.pi * frequencies * data.time + phases
        back = _STIFFNESS * data.actuator_length + _DAMPING * data.actuator_velocity
        pushed = mass * (_PUSH * np.mean(np.sin(turns), axis=1) - back)
        data.ctrl[:] = np.clip(pushed, *model.actuator_ctrlrange.T)
        clock.append(data.time)
        force.append(data.ctrl.copy())
        mujoco.mj_step(model, data)
    return Film(
        mechanism, truth, np.array(times), images, poses, np.array(clock), np.array(force),
        parts.camera,
    )  # fmt: skip


def draw_truth(mechanism: FilmedMechanism, seed: int) -> dict[str, float]:
    """Return true parameters from the middle of their ranges."""
    rng, truth = np.random.default_rng(seed), {}
    for name, unknown in unknowns(mechanism).items():
        middle = 0.5 * np.log(unknown.lower * unknown.upper)
        half = 0.5 * _MIDDLE * np.log(unknown.upper / unknown.lower)
        truth[name] = float(np.exp(middle + rng.uniform(-half, half)))
    return truth


def set_truth(model: mujoco.MjModel, mechanism: FilmedMechanism, truth: dict[str, float]) -> None:
    """Set the true parameters in the model of a mechanism."""
    for name, unknown in unknowns(mechanism).items():
        if unknown.field == 'dof_damping':
            model.joint(unknown.part).damping[0] = truth[name]
            continue
        body = model.body(unknown.part)
        body.inertia[:] *= truth[name] / body.mass[0]
        body.mass[0] = truth[name]
    mujoco.mj_setConst(model, mujoco.MjData(model))
