"""Synthetic recordings of a plant: what its encoders would show."""

from collections.abc import Callable

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.identify.common.plant import Plant

Array = npt.NDArray[np.float64]
Controller = Callable[[mujoco.MjData], Array]


def simulate(
    plant: Plant, theta: Array, start: Array, steps: int, control: Controller | None = None
) -> tuple[Array, Array]:
    """Return configurations (steps, nq) from rest at `start`, and the commands (steps, nu)."""
    model = plant.at(theta)
    data = mujoco.MjData(model)
    data.qpos[:] = start
    qpos, ctrl = np.empty((steps, model.nq)), np.zeros((steps, model.nu))
    for k in range(steps):
        qpos[k] = data.qpos
        if control is not None:
            ctrl[k] = control(data)
        data.ctrl[:] = ctrl[k]
        if plant.friction is not None:
            model.dof_frictionloss[:] = plant.friction(theta, data.qvel[None])[0][0]
        mujoco.mj_step(model, data)
    return qpos, ctrl


def swing_up(data: mujoco.MjData) -> Array:
    """
    Return the command [V] that pumps energy into the Furuta pendulum of `furuta` (4.6).

    The arm pushes with the pendulum's swing, harder the lower it is; a spring holds the arm near
    the front, and a slow sweep turns it at all angles of the pendulum.
    """
    angle, rate = data.qpos[1], data.qvel[1]
    missing = 0.294 * (1.0 + np.cos(angle)) - 0.5 * 0.0084 * rate**2  # J, to be upright at rest
    pump = -6.0 * np.sign(rate * np.cos(angle)) * np.clip(missing / 0.1, -1.0, 1.0)
    sweep = 1.5 * np.sin(1.1 * data.time) + 1.2 * np.sin(5.0 * data.time)
    return np.clip([pump + sweep - 1.5 * data.qpos[0]], -10.0, 10.0)


def read_encoders(qpos: Array, pulses: int = 4096) -> Array:
    """Return angles (n, nq) as encoders show them, of as many pulses a turn as the paper's."""
    return np.round(qpos * pulses / (2.0 * np.pi)) * (2.0 * np.pi) / pulses
