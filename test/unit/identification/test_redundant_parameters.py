"""A common factor of all forces, which no free motion shows, has no information."""

import mujoco
import numpy as np
import pytest

from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting.particles import (
    MultipleShooting,
    initial_particles,
)
from emppi_ros.identification.multiple_shooting.training_data import ShootingProblem, TrainingData
from emppi_ros.identification.multiple_shooting.window_search import parameter_covariance
from emppi_ros.identification.states import residuals
from emppi_ros.recordings.motion import Motion

PLANT = """
scene: pendulum.xml
parameters:
  mass: {field: body_mass, of: rod, unit: kg, lower: 0.2, upper: 1.8}
  inertia: {field: body_inertia, of: rod, unit: kg m^2, initial: 0.03, lower: 0.01, upper: 0.09}
  damping: {field: dof_damping, of: hinge, unit: N m s/rad, initial: 0.1, lower: 0.05, upper: 0.4}
"""
DOUBLE = """
<mujoco><option timestep="0.0025" integrator="implicitfast"/>
  <worldbody><body name="upper"><joint name="shoulder" type="hinge" axis="0 1 0"/>
    <inertial pos="0 0 -0.05" mass="0.05" diaginertia="1e-4 1e-4 1e-4"/>
    <body name="lower" pos="0 0 -0.09"><joint name="elbow" type="hinge" axis="0 1 0"/>
      <inertial pos="0 0 -0.04" mass="0.06" diaginertia="5e-5 5e-5 5e-5"/></body></body>
  </worldbody></mujoco>"""
DOUBLE_PLANT = """
scene: chaos.xml
parameters:
  mass1: {field: body_mass, of: upper, unit: kg, lower: 0.01, upper: 0.3}
  mass2: {field: body_mass, of: lower, unit: kg, lower: 0.01, upper: 0.3}
  centre2: {field: body_ipos, of: lower, element: 2, unit: m, lower: -0.2, upper: -0.005}
  inertia1: {field: body_inertia, of: upper, unit: kg m^2, lower: 1.0e-6, upper: 1.0e-3}
  inertia2: {field: body_inertia, of: lower, unit: kg m^2, lower: 1.0e-6, upper: 1.0e-3}
"""
TRUTH = [0.05, 0.06, -0.04, 1e-4, 5e-5]
THETA = np.array([1.0, 0.03, 0.1])


@pytest.fixture
def fallen(record_swing):
    """Return the plant, and noisy angles (n, 1) of its fall."""
    recorded = record_swing(0.005, 0.005, 300, 1, 0.1)
    (recorded.folder / 'plant.yaml').write_text(PLANT)
    angles = np.loadtxt(recorded.folder / 'swing.csv', delimiter=',', skiprows=1)[:, 1:]
    return Plant.from_file(recorded.folder / 'plant.yaml'), angles


def test_a_residual_that_scales_with_the_parameters_is_no_information(fallen):
    plant, angles = fallen
    ones = np.ones((len(angles), 1))
    motion = Motion(angles, ones, np.zeros((len(angles), 0)), 0.0 * ones)
    arguments = plant, motion, 1.0, THETA, angles
    impulses = residuals.evaluate(*arguments).impulses[:, 0]
    by_factor = [
        residuals.linearize(*arguments, modelled=modelled).unknowns[:, 0] @ THETA
        for modelled in (False, True)
    ]
    # forces are linear in the parameters; differences are exact to rounding, 1e-10 of a step 1e-6
    assert by_factor[0] == pytest.approx(impulses, rel=1e-5)
    assert np.abs(by_factor[1]).max() < 1e-6 * np.abs(impulses).max()


def test_precise_derivatives_leave_the_direction_as_wide_as_its_prior(tmp_path):
    (tmp_path / 'chaos.xml').write_text(DOUBLE)
    (tmp_path / 'chaos.yaml').write_text(DOUBLE_PLANT)
    plant, truth = Plant.from_file(tmp_path / 'chaos.yaml'), np.array(TRUTH)
    data, rows = mujoco.MjData(plant.model), []
    data.qpos[:] = 2.0, 1.0
    start = np.concatenate([data.qpos, data.qvel])
    for _ in range(240):
        mujoco.mj_step(plant.model, data)
        rows.append(np.concatenate([data.qpos, data.qvel]))
    noise = np.array([1e-5, 1e-5, 1e-4, 1e-4])
    problem = ShootingProblem(
        plant.model, plant.parameters, start[None], np.zeros((240, 0)), np.array(rows), noise, (0,)
    )
    z = initial_particles(MultipleShooting(problem, 1, 2))[0]
    z[:5] = problem.coordinates(truth)
    covariance = parameter_covariance(TrainingData(problem, 2, (), ('fall',), ()), z)
    sizes = np.linalg.eigvalsh(covariance)
    # five parameters, and three ratios of first and second moments of mass: two are left
    # first-order differences leave 1e-4 of the slopes, several times the noise: variances of 0.01
    assert sizes[-2:] == pytest.approx(1.0, abs=0.05)
    assert sizes[-3] < 1e-3
