"""Positions at the rate of a camera, with a model that steps more often: all methods take them."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.cli import main
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import read_recording
from emppi_ros.identify.csvgd import recordings

PENDULUM = """
<mujoco><option timestep="0.005" integrator="implicitfast"/>
  <worldbody><body name="rod" pos="0 0 1"><joint name="hinge" type="hinge" axis="0 1 0"/>
    <inertial pos="0 0 -0.5" mass="1" diaginertia="0.02 0.02 0.02"/></body></worldbody></mujoco>"""
PLANT = """
scene: pendulum.xml
parameters:
  centre: {field: body_ipos, of: rod, element: 2, unit: m, initial: -0.5, lower: -1.0, upper: -0.2}
  damping: {field: dof_damping, of: hinge, unit: N m s/rad, initial: 0.1, lower: 0.0, upper: 0.5}
"""
TRUTH = {'centre': -0.6, 'damping': 0.1}
NOISE = 2e-3
EFFORT = {
    'states': [],
    'shooting': [],
    'sysid': ['--threads', '1'],
    'csvgd': ['--particles', '16', '--iterations', '40', '--threads', '1'],
    'bayessim': ['--simulations', '600', '--epochs', '40', '--duration', '2', '--threads', '1'],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a model file, and a swing filmed at 30 Hz."""
    (tmp_path / 'pendulum.xml').write_text(PENDULUM)
    (tmp_path / 'plant.yaml').write_text(PLANT)
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    model.body('rod').ipos[2], model.joint('hinge').damping[0] = TRUTH.values()
    model.opt.timestep = 1.0 / 300.0  # not a multiple of the other step
    data = mujoco.MjData(model)
    data.qpos[0] = 1.5
    rows = []
    for step in range(1300):
        if step % 10 == 0:
            rows.append((data.time, data.qpos[0]))
        mujoco.mj_step(model, data)
    table = np.array(rows)
    table[:, 1] += NOISE * np.random.default_rng(0).standard_normal(len(table))
    np.savetxt(tmp_path / 'swing.csv', table, delimiter=',', comments='',
               header='time_s,position/hinge [rad]')  # fmt: skip
    return tmp_path


@pytest.mark.parametrize(
    'method',
    [pytest.param(one, marks=[pytest.mark.slow] if one == 'csvgd' else []) for one in EFFORT],
)
def test_all_methods_take_positions_of_a_camera(folder: Path, method: str) -> None:
    words = ['--model', str(folder / 'plant.yaml'), '--data', str(folder / 'swing.csv')]
    words += ['--method', method, '--out', str(folder / 'known.yaml'), *EFFORT[method]]
    assert main(['identify', *words]) == 0
    prior = yaml.safe_load((folder / 'known.yaml').read_text())
    for name, truth in TRUTH.items():
        values = np.array(prior['parameters'][name]['values'])
        # in all but one of a million cases if the spread is right; and better than the bounds
        assert abs(values.mean() - truth) < 5.0 * values.std(), name
        assert values.std() < 0.08, name


def test_steps_without_a_sample_do_not_count(folder: Path) -> None:
    plant = Plant.from_file(folder / 'plant.yaml')
    recording = read_recording([folder / 'swing.csv'])
    problem = recordings.prepare(plant, [recording], recordings.WindowConfig(0.5, 0.0), {}).problem
    assert problem.seen is not None
    # a sample every 33 ms, a step every 5 ms
    assert np.mean(problem.seen[:, 0]) == pytest.approx(0.15, abs=0.01)
    # 130 samples: a relative standard error of 6 % of white noise, and what motion adds
    assert 0.8 * NOISE < problem.noise[0] < 1.5 * NOISE
