"""A four-bar linkage: an equality constraint closes the loop, and residuals contain its forces."""

import dataclasses

import mujoco
import numpy as np
import pytest

from emppi_ros.cli import main
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states import diagnostics, residuals
from emppi_ros.identification.states.estimation import estimate
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.recordings.motion import Motion

FOUR_BAR = """
<mujoco><option timestep="{step_s}" integrator="implicitfast"/>
  <default><joint type="hinge" axis="0 1 0" damping="0.01"/></default>
  <worldbody>
    <body name="crank" pos="0 0 1"><joint name="crank"/>
      <inertial pos="0 0 0.05" mass="0.2" diaginertia="1e-3 1e-3 1e-3"/>
      <body name="coupler" pos="0 0 0.1"><joint name="coupler"/>
        <inertial pos="0.15 0 0" mass="0.4" diaginertia="5e-3 5e-3 5e-3"/></body></body>
    <body name="rocker" pos="0.3 0 0.9"><joint name="rocker"/>
      <inertial pos="0 0 0.1" mass="0.3" diaginertia="2e-3 2e-3 2e-3"/></body>
  </worldbody>
  <equality><connect body1="coupler" body2="rocker" anchor="{anchor} 0 0"/></equality>
  <actuator><motor name="motor" joint="crank"/></actuator>
</mujoco>"""
MODEL = """
scene: four_bar.xml
parameters:
  coupler: {field: body_mass, of: coupler, unit: kg, initial: 0.6, lower: 0.01, upper: 3.0}
  rocker: {field: body_mass, of: rocker, unit: kg, initial: 0.2, lower: 0.01, upper: 3.0}
  damping: {field: dof_damping, of: crank, unit: N m s/rad, initial: 0.05, lower: 0.0, upper: 1.0}
"""
TRUTH, STEP_S = np.array([0.4, 0.3, 0.02]), 0.005


@pytest.fixture
def plant(tmp_path):
    (tmp_path / 'four_bar.xml').write_text(FOUR_BAR.format(step_s=STEP_S, anchor=0.3))
    (tmp_path / 'four_bar.yaml').write_text(MODEL)
    return Plant.from_file(tmp_path / 'four_bar.yaml')


def record(model, steps, noise, seed=41):
    """Return what encoders read of the linkage, whose crank turns several times."""
    data, qpos, ctrl = mujoco.MjData(model), np.empty((steps, 3)), np.empty((steps, 1))
    every = round(STEP_S / model.opt.timestep)
    for k in range(steps):
        time = STEP_S * k
        ctrl[k] = data.ctrl[:] = 1.2 * np.sin(2.3 * time) + 0.6 * np.sin(7.0 * time)
        qpos[k] = data.qpos
        mujoco.mj_step(model, data, every)
    read = qpos + noise * np.random.default_rng(seed).standard_normal(qpos.shape)
    return Motion(read, np.ones_like(read), ctrl, np.zeros_like(read))


def test_a_simulated_motion_needs_no_impulse_beside_the_forces_of_the_loop(plant):
    motion = record(plant.at(TRUTH), 200, 0.0)
    assert np.ptp(motion.qpos[:, 0]) > 2.0 * np.pi
    exact = residuals.evaluate(plant, motion, 1.0, TRUTH, motion.qpos)
    # rounding of angles of 20 rad, times the stiffness of the loop: 1e5 N m/rad over 5 ms
    assert np.abs(exact.impulses).max() < 1e-11
    open_loop = dataclasses.replace(plant, model=plant.at(TRUTH))
    open_loop.model.eq_active0[:] = 0
    forces = residuals.evaluate(open_loop, motion, 1.0, TRUTH, motion.qpos).impulses
    assert np.abs(forces).max() > 1e-3


def test_masses_on_both_sides_of_the_loop_are_within_their_intervals(plant):
    fit = estimate(plant, record(plant.at(TRUTH), 250, 2e-4), SolverConfig())
    assert fit.knowledge == ('found',) * 3
    assert np.all(np.abs(fit.theta - TRUTH) < 1.96 * fit.uncertainty.sd)
    assert np.all(fit.uncertainty.sd < 0.01 * TRUTH)
    assert not diagnostics.note_correlation(fit)


def test_a_loop_of_another_size_widens_the_intervals_and_is_reported(plant):
    other = mujoco.MjModel.from_xml_string(FOUR_BAR.format(step_s=STEP_S, anchor=0.302))
    plant.write(other, TRUTH)
    fit = estimate(plant, record(other, 250, 2e-4), SolverConfig())
    assert np.all(np.abs(fit.theta - TRUTH) < 3.0 * fit.uncertainty.sd)  # that of the prior
    assert np.max(fit.uncertainty.sd / TRUTH) > 0.01
    assert 'residuals are correlated' in diagnostics.note_correlation(fit)[0]


def test_each_joint_of_the_loop_must_be_recorded(plant, tmp_path, capsys):
    motion = record(plant.at(TRUTH), 200, 0.0)
    table = np.column_stack([STEP_S * np.arange(200), motion.qpos[:, :2], motion.ctrl])
    header = 'time_s,position/crank [rad],position/coupler [rad],command/motor [N m]'
    path = tmp_path / 'run.csv'
    np.savetxt(path, table, delimiter=',', comments='', header=header)
    model = str(tmp_path / 'four_bar.yaml')
    assert main(['identify', '--data', str(path), '--model', model]) != 0
    assert 'rocker' in capsys.readouterr().err
