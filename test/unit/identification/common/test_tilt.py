"""The tilt of a base among the unknowns: it turns gravity, and methods find it."""

import json

import numpy as np
import pytest

from benchmarks import ASSETS
from benchmarks.identify import pendulums
from emppi_ros.cli import main
from emppi_ros.identification.common.plant import Plant

TRUTH = np.array([0.03, -0.02, 0.0728])
MODEL = """
scene: {scene}
parameters:
  about_x: {{field: tilt, element: 0, unit: rad, lower: -0.5, upper: 0.5, size: 0.1}}
  about_y: {{field: tilt, element: 1, unit: rad, lower: -0.5, upper: 0.5, size: 0.1}}
  gain: {{field: actuator_gain, of: motor, unit: N m/V, initial: 0.05, lower: 1.0e-3, upper: 1.0}}
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / 'furuta.xml').write_text((ASSETS / 'furuta.xml').read_text())
    path = tmp_path / 'furuta.yaml'
    path.write_text(MODEL.format(scene='furuta.xml'))
    return path


def test_gravity_is_that_of_a_stand_turned_by_the_rotation_vector(file):
    plant, stand = Plant.from_file(file), pendulums.furuta_plant()
    tilted = pendulums.FURUTA_TRUTH.copy()
    tilted[9:12] = 0.3, -0.4, 0.0
    ours = plant.at(np.array([0.3, -0.4, 0.07])).opt.gravity
    # rounding of numbers below 10
    np.testing.assert_allclose(ours, stand.at(tilted).opt.gravity, atol=1e-14)


def test_components_of_gravity_are_unknowns_of_a_model_file_too(file):
    file.write_text(
        'scene: furuta.xml\nparameters:\n'
        '  aside: {field: gravity, element: 0, unit: m/s^2, size: 0.1}\n'
    )
    gravity = Plant.from_file(file).at(np.array([0.5])).opt.gravity
    assert gravity.tolist() == [0.5, 0.0, -9.81]


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ('states', 'shooting')]


@pytest.mark.parametrize('method', ['sysid', *SLOW])
def test_the_tilt_of_a_simulated_stand_is_within_the_interval(file, method, capsys):
    plant, rng = Plant.from_file(file), np.random.default_rng(21)
    qpos, ctrl = pendulums.simulate(plant, TRUTH, [0.0, 0.3], 300, pendulums.swing_up)
    noisy = qpos + 5e-4 * rng.standard_normal(qpos.shape)
    time = plant.model.opt.timestep * np.arange(len(qpos))
    table = np.column_stack([time, noisy, ctrl])
    header = 'time_s,position/arm [rad],position/pendulum [rad],command/motor [N m]'
    np.savetxt(file.with_suffix('.csv'), table, delimiter=',', comments='', header=header)
    words = ['--data', str(file.with_suffix('.csv')), '--model', str(file), '--held-out', '0']
    assert main(['identify', '--method', method, *words, '--json']) == 0
    rows = json.loads(capsys.readouterr().out)['parameters'].values()
    value, sd = np.array([[row['value'], row['sd']] for row in rows]).T
    assert np.all(np.abs(value - TRUTH) < 1.96 * sd)  # the model is exact, the noise white
    assert np.all(sd[:2] < 3e-3)
