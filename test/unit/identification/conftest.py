"""Mechanisms to identify, and what is measured of them."""

import dataclasses
from pathlib import Path

import csvgd_systems
import mujoco
import numpy as np
import pytest

from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting.training_data import ShootingProblem
from emppi_ros.model.parameters import Parameter

SWINGING = """
<mujoco><option timestep="{step_s}" integrator="implicitfast"/>
  <worldbody><body name="rod" pos="0 0 1"><joint name="hinge" type="hinge" axis="0 1 0"/>
    <inertial pos="0 0 -0.5" mass="1" diaginertia="0.02 0.02 0.02"/></body></worldbody></mujoco>"""
SWINGING_PLANT = """
scene: pendulum.xml
parameters:
  centre: {field: body_ipos, of: rod, element: 2, unit: m, initial: -0.5, lower: -1.0, upper: -0.2}
  damping: {field: dof_damping, of: hinge, unit: N m s/rad, initial: 0.1, lower: 0.0, upper: 0.5}
"""


@dataclasses.dataclass(frozen=True)
class Swing:
    """A folder with plant.yaml and swing.csv, and the true parameters."""

    folder: Path
    truth: dict

    @property
    def words(self):
        """Arguments of `emppi identify`."""
        return [
            '--model',
            str(self.folder / 'plant.yaml'),
            '--data',
            str(self.folder / 'swing.csv'),
        ]


@pytest.fixture
def record_swing(tmp_path):
    """Return a function that records a falling pendulum every few steps, with 2 mrad of noise."""

    def record(model_step_s, step_s, steps, every, damping):
        (tmp_path / 'pendulum.xml').write_text(SWINGING.format(step_s=model_step_s))
        (tmp_path / 'plant.yaml').write_text(SWINGING_PLANT)
        truth = {'centre': -0.6, 'damping': damping}
        model = mujoco.MjModel.from_xml_path(str(tmp_path / 'pendulum.xml'))
        model.body('rod').ipos[2], model.joint('hinge').damping[0] = truth.values()
        model.opt.timestep = step_s
        data = mujoco.MjData(model)
        data.qpos[0] = 1.5
        rows = []
        for step in range(steps):
            if step % every == 0:
                rows.append((data.time, data.qpos[0]))
            mujoco.mj_step(model, data)
        table = np.array(rows)
        table[:, 1] += 2e-3 * np.random.default_rng(0).standard_normal(len(table))
        np.savetxt(tmp_path / 'swing.csv', table, delimiter=',', comments='',
                   header='time_s,position/hinge [rad]')  # fmt: skip
        return Swing(tmp_path, truth)

    return record


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
LINK = """
<mujoco><option timestep="0.01"><flag autoreset="disable"/></option>
  <worldbody><body name="link" pos="0 0 1">
    <joint name="pivot" type="hinge" axis="0 1 0"/>
    <inertial pos="0 0 -0.5" mass="1" diaginertia="0.1 0.1 0.1"/>
  </body></worldbody>
  <actuator><motor joint="pivot"/></actuator>
</mujoco>
"""
TRUTH = np.array([1.3, 0.2])


@pytest.fixture
def swing():
    """Return a problem of 24 steps, with a truth of TRUTH and noise that is left out."""
    model = mujoco.MjModel.from_xml_string(LINK)
    parameters = (
        Parameter('mass', 'body_mass', 'link', 0, 0.5, 2.0, 'kg'),
        Parameter('friction', 'dof_damping', 'pivot', 0, 0.0, 1.0, 'N m s/rad'),
    )
    start, controls = np.array([1.0, -0.5]), np.sin(np.arange(24) / 3.0)[:, None]
    seen = csvgd_systems.rollout(model, parameters, TRUTH[None], start, controls)
    return ShootingProblem(model, parameters, start, controls, seen[0], np.array([0.01, 0.05]))


@pytest.fixture
def plants(tmp_path: Path) -> dict[str, Plant]:
    """Return the plants of a cart and of a double pendulum."""
    for name, text in {
        'cart.xml': CART, 'pendulum.xml': PENDULUM,
        'cart.yaml': CART_YAML, 'pendulum.yaml': PENDULUM_YAML,
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return {name: Plant.from_file(tmp_path / f'{name}.yaml') for name in ('cart', 'pendulum')}
