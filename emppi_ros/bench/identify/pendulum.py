"""The pendulum of the paper (4.2, 4.5): an inertia, and friction of three kinds."""

import mujoco
import numpy as np
import numpy.typing as npt

from emppi_ros.core import paths
from emppi_ros.identify.common.plant import Plant, UnknownParameter

Array = npt.NDArray[np.float64]
INERTIA = UnknownParameter('inertia', 'kg m^2', 0.006, 1e-5, 0.1)
VISCOUS = UnknownParameter('viscous', 'N m s/rad', 1e-3, 0.0, 0.1)
DRY = UnknownParameter('dry', 'N m', 5e-4, 0.0, 0.1)
STICTION = UnknownParameter('stiction', 'N m', 5e-4, 0.0, 0.1)  # static less kinetic friction
RATE = UnknownParameter('rate', 'rad/s', 1.0, 0.05, 10.0)  # at which stiction has fallen to 1 / e
MODELS = {
    'viscous': (INERTIA, VISCOUS),
    'dry': (INERTIA, VISCOUS, DRY),
    'stribeck': (INERTIA, VISCOUS, DRY, STICTION, RATE),
}
TRUTH = np.array([0.0039, 2e-4, 2.4e-3, 3e-3, 2.0])  # of the last of these


def load() -> mujoco.MjModel:
    """Return the model, whose mass and lengths are known."""
    return mujoco.MjModel.from_xml_path(str(paths.ASSETS / 'pendulum.xml'))


def plant(kind: str) -> Plant:
    """Return the plant with the unknowns of a friction model: viscous, dry or stribeck."""
    return Plant(load(), MODELS[kind], write, stribeck if kind == 'stribeck' else None)


def write(model: mujoco.MjModel, theta: Array) -> None:
    """Write the inertia in the plane of oscillation, and the frictions that there are."""
    model.body_inertia[1, :2] = theta[0]  # a rod's
    model.dof_damping[0] = theta[1]
    model.dof_frictionloss[0] = theta[2] if len(theta) > 2 else 0.0


def stribeck(theta: Array, v: Array) -> tuple[Array, Array]:
    """Return dry friction (n, 1) at velocities (n, 1), and its slope: it falls once in motion."""
    _, _, dry, stiction, rate = theta
    above = stiction * np.exp(-np.abs(v) / rate)
    return dry + above, -above * np.sign(v) / rate
