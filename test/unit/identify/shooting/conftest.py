"""Recordings of simulated mechanisms, with known parameters and noise."""

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from emppi_ros.identify.common.motion import Motion
from emppi_ros.identify.common.plant import Plant

STEP_S = 0.005
CART = """
<mujoco><option timestep="0.005" integrator="implicitfast" gravity="0 0 0"/>
  <worldbody><body name="cart"><joint name="slider" type="slide" axis="1 0 0"/>
    <inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/></body></worldbody>
  <actuator><motor name="slider" joint="slider"/></actuator></mujoco>"""
PENDULUM = """
<mujoco><option timestep="0.005" integrator="implicitfast"/>
  <worldbody>
    <body name="upper"><joint name="shoulder" type="hinge" axis="0 1 0" damping="0.01"/>
      <inertial pos="0 0 -0.2" mass="0.5" diaginertia="0.01 0.01 0.01"/>
      <body name="lower" pos="0 0 -0.3"><joint name="elbow" type="hinge" axis="0 1 0" damping="0.005"/>
        <inertial pos="0 0 -0.15" mass="0.3" diaginertia="0.004 0.004 0.004"/></body></body>
  </worldbody></mujoco>"""  # noqa: E501
CART_YAML = """
scene: cart.xml
parameters:
  mass: {field: body_mass, of: cart, unit: kg, initial: 2.0, lower: 0.1, upper: 20.0}
"""
PENDULUM_YAML = """
scene: pendulum.xml
parameters:
  length: {field: body_pos, of: lower, element: 2, unit: m, initial: -0.25, lower: -1.0, upper: -0.05}
  lower_mass: {field: body_mass, of: lower, unit: kg, initial: 0.4, lower: 0.01, upper: 3.0}
  damping: {field: dof_damping, of: elbow, unit: N m s/rad, initial: 0.01, lower: 0.0}
"""  # noqa: E501
PENDULUM_TRUTH = np.array([-0.3, 0.3, 0.005])


@pytest.fixture
def plants(tmp_path: Path) -> dict[str, Plant]:
    """Return the plants of a cart and of a double pendulum."""
    for name, text in {
        'cart.xml': CART, 'pendulum.xml': PENDULUM,
        'cart.yaml': CART_YAML, 'pendulum.yaml': PENDULUM_YAML,
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return {name: Plant.from_file(tmp_path / f'{name}.yaml') for name in ('cart', 'pendulum')}


@pytest.fixture
def swing(plants: dict[str, Plant]) -> Callable[..., Motion]:
    """Return a function that records the falling double pendulum, with noise."""

    def record(seed: int = 0, noise: float = 1e-3, steps: int = 400, push: float = 0.0) -> Motion:
        model = plants['pendulum'].at(PENDULUM_TRUTH)
        data = mujoco.MjData(model)
        rng = np.random.default_rng(seed)
        data.qpos[:] = rng.uniform(1.0, 2.0, 2)
        qpos = np.empty((steps, 2))
        for k in range(steps):
            qpos[k] = data.qpos
            data.qfrc_applied[0] = push * np.sin(k * STEP_S * 2.0)
            mujoco.mj_step(model, data)
        measured = qpos + noise * rng.standard_normal(qpos.shape)
        return Motion(measured, np.ones((steps, 2)), np.zeros((steps, 0)), np.zeros((steps, 2)))

    return record
