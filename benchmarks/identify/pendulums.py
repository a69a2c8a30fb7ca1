"""
Simulated pendulums with known parameters, of Secs. 4.2 to 4.6 of the paper of `states`.

The arm of the Furuta pendulum only turns about the vertical axis, so that two of its moments of
inertia are unobservable, and so is a rotation of the stand about the vertical.
"""

from collections.abc import Callable

import mujoco
import numpy as np

from benchmarks import ASSETS
from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.plant import Plant, UnknownParameter
from emppi_ros.identification.states.stribeck import stribeck_friction
from emppi_ros.recordings.motion import Motion

PendulumController = Callable[[mujoco.MjData], Array]
PENDULUM_UNKNOWNS = (
    UnknownParameter('inertia', 'kg m^2', 0.006, 1e-5, 0.1),
    UnknownParameter('viscous', 'N m s/rad', 1e-3, 0.0, 0.1),
    UnknownParameter('dry', 'N m', 5e-4, 0.0, 0.1),
)
PENDULUM_TRUTH = np.array([0.0039, 2e-4, 2.4e-3])  # of 'dry'
STRIBECK_TRUTH = np.array([*PENDULUM_TRUTH, 3e-3, 2.0])
_PULSES = 4096  # per turn of an encoder
_TILT = 0.1  # rad: prior scale; larger tilts are visible
FURUTA_UNKNOWNS = (
    *(UnknownParameter(f'arm_inertia_{axis}', 'kg m^2', 0.002, 1e-5, 0.1) for axis in 'xyz'),
    UnknownParameter('pendulum_inertia_xy', 'kg m^2', 0.006, 1e-5, 0.1),
    UnknownParameter('pendulum_inertia_z', 'kg m^2', 0.001, 1e-5, 0.1),
    UnknownParameter('arm_viscous', 'N m s/rad', 1e-3, 0.0, 0.1),
    UnknownParameter('arm_dry', 'N m', 2e-3, 0.0, 0.1),
    UnknownParameter('pendulum_viscous', 'N m s/rad', 1e-3, 0.0, 0.1),
    UnknownParameter('pendulum_dry', 'N m', 4e-4, 0.0, 0.1),
    *(UnknownParameter(f'tilt_{axis}', 'rad', 0.0, -0.5, 0.5, _TILT) for axis in 'xyz'),
    UnknownParameter('gain', 'N m/V', 0.05, 1e-3, 1.0),
)
FURUTA_TRUTH = np.array(
    [8e-4, 4.5e-3, 4.5e-3, 3.9e-3, 2.4e-3, 2e-3, 4e-3, 4e-4, 8e-4, 0.03, -0.02, 0.0, 0.0728]
)


def simulate(
    plant: Plant, theta: Array, start: Array, steps: int,
    control: PendulumController | None = None, parts: int = 1,
) -> tuple[Array, Array]:  # fmt: skip
    """
    Return configurations (steps, nq) from rest at `start`, and commands (steps, nu).

    The system takes `parts` steps for each of the plant's.
    """
    model = plant.at(theta)
    model.opt.timestep /= parts
    data, friction = mujoco.MjData(model), stribeck_friction(plant, model, theta)
    data.qpos[:] = start
    qpos, ctrl = np.empty((steps, model.nq)), np.zeros((steps, model.nu))
    for k in range(steps):
        qpos[k] = data.qpos
        if control is not None:
            ctrl[k] = control(data)
        data.ctrl[:] = ctrl[k]
        for _ in range(parts):
            if friction is not None:
                friction.write(model, data.qvel)
            mujoco.mj_step(model, data)
    return qpos, ctrl


def observe(qpos: Array, ctrl: Array) -> Motion:
    """Return a motion as the paper's encoders read it."""
    read = np.round(qpos * _PULSES / (2.0 * np.pi)) * 2.0 * np.pi / _PULSES
    return Motion(read, np.ones_like(read), ctrl, np.zeros_like(read))


def swing_up(data: mujoco.MjData) -> Array:
    """Return the command [V] of an energy-based swing-up of the Furuta pendulum (Sec. 4.6)."""
    angle, rate = data.qpos[1], data.qvel[1]
    missing = 0.294 * (1.0 + np.cos(angle)) - 0.5 * 0.0084 * rate**2  # J, to be upright at rest
    pump = -6.0 * np.sign(rate * np.cos(angle)) * np.clip(missing / 0.1, -1.0, 1.0)
    sweep = 1.5 * np.sin(1.1 * data.time) + 1.2 * np.sin(5.0 * data.time)
    return np.clip([pump + sweep - 1.5 * data.qpos[0]], -10.0, 10.0)


def pendulum_plant(kind: str) -> Plant:
    """Return the plant with the unknowns of a friction model: viscous, dry or stribeck."""
    if kind == 'stribeck':
        return Plant.from_file(ASSETS / 'pendulum.yaml')
    model = mujoco.MjModel.from_xml_path(str(ASSETS / 'pendulum.xml'))
    return Plant(model, PENDULUM_UNKNOWNS[: 3 if kind == 'dry' else 2], write_pendulum)


def write_pendulum(model: mujoco.MjModel, theta: Array) -> None:
    """Write the inertia in the plane of oscillation, and friction."""
    model.body_inertia[1, :2] = theta[0]  # a rod's
    model.dof_damping[0] = theta[1]
    model.dof_frictionloss[0] = theta[2] if len(theta) > 2 else 0.0


def furuta_plant() -> Plant:
    """Return the plant with all 13 unknowns."""
    model = mujoco.MjModel.from_xml_path(str(ASSETS / 'furuta.xml'))
    return Plant(model, FURUTA_UNKNOWNS, write_furuta)


def write_furuta(model: mujoco.MjModel, theta: Array) -> None:
    """Write theta (13,), in the order of FURUTA_UNKNOWNS; the tilt is a rotation vector."""
    model.body_inertia[1] = theta[:3]
    model.body_inertia[2] = theta[[3, 3, 4]]
    model.dof_damping[:] = theta[[5, 7]]
    model.dof_frictionloss[:] = theta[[6, 8]]
    tilt = np.array([1.0, 0.0, 0.0, 0.0])
    mujoco.mju_quatIntegrate(tilt, theta[9:12], 1.0)
    # gravity in the frame of the stand rotates the other way
    mujoco.mju_negQuat(tilt, tilt)
    down = model.opt.gravity.copy()
    mujoco.mju_rotVecQuat(model.opt.gravity, down, tilt)
    model.actuator_gainprm[0, 0] = theta[12]
