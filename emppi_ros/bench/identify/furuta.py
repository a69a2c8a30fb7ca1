"""
The Furuta pendulum of the paper (4.3, 4.6) with 13 unknowns.

They are five moments of inertia, four frictions, the stand's tilt and the motor's gain. The arm
only turns about its vertical axis, so that its other two moments have no effect, and nor has
a turn of the stand about the vertical: a method should say so.
"""

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core import paths
from emppi_ros.identify.common.plant import Plant, UnknownParameter

Array = npt.NDArray[np.float64]
_TILT = 0.1  # rad: a stand that tilts by more is seen to
UNKNOWNS = (
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
TRUTH = np.array(
    [8e-4, 4.5e-3, 4.5e-3, 3.9e-3, 2.4e-3, 2e-3, 4e-3, 4e-4, 8e-4, 0.03, -0.02, 0.0, 0.0728]
)
WITHOUT_EFFECT = ('arm_inertia_x', 'arm_inertia_y', 'tilt_z')


def load() -> mujoco.MjModel:
    """Return the model, whose masses and lengths are known."""
    return mujoco.MjModel.from_xml_path(str(paths.ASSETS / 'furuta.xml'))


def plant() -> Plant:
    """Return the plant with all 13 unknowns."""
    return Plant(load(), UNKNOWNS, write)


def write(model: mujoco.MjModel, theta: Array) -> None:
    """Write theta (13,) in the order of UNKNOWNS; the tilt is a rotation vector of the stand."""
    model.body_inertia[1] = theta[:3]
    model.body_inertia[2] = theta[[3, 3, 4]]
    model.dof_damping[:] = theta[[5, 7]]
    model.dof_frictionloss[:] = theta[[6, 8]]
    tilt = np.array([1.0, 0.0, 0.0, 0.0])
    mujoco.mju_quatIntegrate(tilt, theta[9:12], 1.0)
    # in the stand's frame gravity turns the other way
    mujoco.mju_negQuat(tilt, tilt)
    down = model.opt.gravity.copy()
    mujoco.mju_rotVecQuat(model.opt.gravity, down, tilt)
    model.actuator_gainprm[0, 0] = theta[12]
