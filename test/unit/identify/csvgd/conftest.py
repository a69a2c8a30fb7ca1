"""A pendulum with a mass and a friction, and what is measured of it."""

import mujoco
import numpy as np
import pytest

from benchmarks.identify import csvgd_systems
from emppi_ros.identify.csvgd.problem import ShootingProblem
from emppi_ros.model.parameters import Parameter

XML = """
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
    model = mujoco.MjModel.from_xml_string(XML)
    parameters = (
        Parameter('mass', 'body_mass', 'link', 0, 0.5, 2.0, 'kg'),
        Parameter('friction', 'dof_damping', 'pivot', 0, 0.0, 1.0, 'N m s/rad'),
    )
    start, controls = np.array([1.0, -0.5]), np.sin(np.arange(24) / 3.0)[:, None]
    seen = csvgd_systems.rollout(model, parameters, TRUTH[None], start, controls)
    return ShootingProblem(model, parameters, start, controls, seen, np.array([0.01, 0.05]))
