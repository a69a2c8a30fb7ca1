"""
Simulated pendulums with known parameters, as encoders record them.

The pendulum (Secs. 4.2 and 4.5 of the paper of the method `states`) has an inertia and one of
two friction models. The Furuta pendulum (Secs. 4.3 and 4.6) has 13 unknowns: five moments of
inertia, four friction parameters, the tilt of the stand and the motor gain. Its arm only turns
about the vertical axis, so its other two moments are unobservable, and so is a rotation of the
stand about the vertical: methods should report this.
"""

from collections.abc import Callable

import mujoco
import numpy as np

from emppi_ros.core import paths
from emppi_ros.core.arrays import Array
from emppi_ros.identification.common.plant import Plant, UnknownParameter

PendulumController = Callable[[mujoco.MjData], Array]
_INERTIA = UnknownParameter('inertia', 'kg m^2', 0.006, 1e-5, 0.1)
_VISCOUS = UnknownParameter('viscous', 'N m s/rad', 1e-3, 0.0, 0.1)
_DRY = UnknownParameter('dry', 'N m', 5e-4, 0.0, 0.1)
FRICTION_MODELS = {
    'viscous': (_INERTIA, _VISCOUS),
    'dry': (_INERTIA, _VISCOUS, _DRY),
}
PENDULUM_TRUTH = np.array([0.0039, 2e-4, 2.4e-3])  # of 'dry'
_TILT = 0.1  # rad: prior scale; larger tilts are visible
FURUTA_UNKNOWNS = (
    UnknownParameter('arm_inertia_x', 'kg m^2', 0.002, 1e-5, 0.1),
    UnknownParameter('arm_inertia_y', 'kg m^2', 0.002, 1e-5, 0.1),
    UnknownParameter('arm_inertia_z', 'kg m^2', 0.002, 1e-5, 0.1),
    UnknownParameter('pendulum_inertia_xy', 'kg m^2', 0.006, 1e-5, 0.1),
    UnknownParameter('pendulum_inertia_z', 'kg m^2', 0.001, 1e-5, 0.1),
    UnknownParameter('arm_viscous', 'N m s/rad', 1e-3, 0.0, 0.1),
    UnknownParameter('arm_dry', 'N m', 2e-3, 0.0, 0.1),
    UnknownParameter('pendulum_viscous', 'N m s/rad', 1e-3, 0.0, 0.1),
    UnknownParameter('pendulum_dry', 'N m', 4e-4, 0.0, 0.1),
    UnknownParameter('tilt_x', 'rad', 0.0, -0.5, 0.5, _TILT),
    UnknownParameter('tilt_y', 'rad', 0.0, -0.5, 0.5, _TILT),
    UnknownParameter('tilt_z', 'rad', 0.0, -0.5, 0.5, _TILT),
    UnknownParameter('gain', 'N m/V', 0.05, 1e-3, 1.0),
)
FURUTA_TRUTH = np.array(
    [8e-4, 4.5e-3, 4.5e-3, 3.9e-3, 2.4e-3, 2e-3, 4e-3, 4e-4, 8e-4, 0.03, -0.02, 0.0, 0.0728]
)


def simulate(
    plant: Plant, theta: Array, start: Array, steps: int, control: PendulumController | None = None
) -> tuple[Array, Array]:
    """Return configurations (steps, nq) from rest at `start`, and commands (steps, nu)."""
    model = plant.at(theta)
    data = mujoco.MjData(model)
    data.qpos[:] = start
    qpos, ctrl = np.empty((steps, model.nq)), np.zeros((steps, model.nu))
    for k in range(steps):
        qpos[k] = data.qpos
        if control is not None:
            ctrl[k] = control(data)
        data.ctrl[:] = ctrl[k]
        mujoco.mj_step(model, data)
    return qpos, ctrl


def swing_up(data: mujoco.MjData) -> Array:
    """
    Return the command [V] of an energy-based swing-up of the Furuta pendulum (Sec. 4.6).

    The arm pushes with the swing of the pendulum, harder if energy is low; a spring keeps the arm
    near the front, and a slow sweep excites all angles.
    """
    angle, rate = data.qpos[1], data.qvel[1]
    missing = 0.294 * (1.0 + np.cos(angle)) - 0.5 * 0.0084 * rate**2  # J, to be upright at rest
    pump = -6.0 * np.sign(rate * np.cos(angle)) * np.clip(missing / 0.1, -1.0, 1.0)
    sweep = 1.5 * np.sin(1.1 * data.time) + 1.2 * np.sin(5.0 * data.time)
    return np.clip([pump + sweep - 1.5 * data.qpos[0]], -10.0, 10.0)


def read_encoders(qpos: Array, pulses: int = 4096) -> Array:
    """Return angles (n, nq) quantized by encoders with the pulses per turn of the paper."""
    return np.round(qpos * pulses / (2.0 * np.pi)) * (2.0 * np.pi) / pulses


def pendulum_plant(kind: str) -> Plant:
    """Return the plant with the unknowns of a friction model: viscous or dry."""
    model = mujoco.MjModel.from_xml_path(str(paths.ASSETS / 'pendulum.xml'))
    return Plant(model, FRICTION_MODELS[kind], write_pendulum)


def write_pendulum(model: mujoco.MjModel, theta: Array) -> None:
    """Write the inertia in the plane of oscillation, and friction."""
    model.body_inertia[1, :2] = theta[0]  # a rod's
    model.dof_damping[0] = theta[1]
    model.dof_frictionloss[0] = theta[2] if len(theta) > 2 else 0.0


def furuta_plant() -> Plant:
    """Return the plant with all 13 unknowns."""
    model = mujoco.MjModel.from_xml_path(str(paths.ASSETS / 'furuta.xml'))
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
