"""The method on a recording: a prior that holds the truth, resumed to the bit, and its errors."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.cli import main
from emppi_ros.identify.bayessim import simulations
from emppi_ros.identify.bayessim.simulations import PairSimulation

PENDULUM = """
<mujoco><option timestep="0.01" integrator="implicitfast"/>
  <worldbody><body name="rod" pos="0 0 1"><joint name="hinge" type="hinge" axis="0 1 0"/>
    <inertial pos="0 0 -0.5" mass="1" diaginertia="0.02 0.02 0.02"/></body></worldbody></mujoco>"""
PLANT = """
scene: pendulum.xml
parameters:
  centre: {field: body_ipos, of: rod, element: 2, unit: m, initial: -0.5, lower: -1.0, upper: -0.2}
  damping: {field: dof_damping, of: hinge, unit: N m s/rad, initial: 0.1, lower: 0.0, upper: 0.5}
"""
TRUTH = {'centre': -0.6, 'damping': 0.2}
EFFORT = ['--simulations', '1000', '--epochs', '60', '--threads', '1']


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a model file and a recording of a swing."""
    (tmp_path / 'pendulum.xml').write_text(PENDULUM)
    (tmp_path / 'plant.yaml').write_text(PLANT)
    model = mujoco.MjModel.from_xml_string(PENDULUM)
    model.body('rod').ipos[2], model.joint('hinge').damping[0] = TRUTH.values()
    data = mujoco.MjData(model)
    data.qpos[0] = 1.5
    rows = []
    for _ in range(200):
        rows.append((data.time, data.qpos[0]))
        mujoco.mj_step(model, data)
    table = np.array(rows)
    table[:, 1] += 2e-3 * np.random.default_rng(0).standard_normal(len(table))
    np.savetxt(tmp_path / 'swing.csv', table, delimiter=',', comments='',
               header='time_s,position/hinge [rad]')  # fmt: skip
    return tmp_path


def identify(folder: Path, *words: str) -> int:
    arguments = ['--model', str(folder / 'plant.yaml'), '--data', str(folder / 'swing.csv')]
    return main(['identify', '--method', 'bayessim', *arguments, *EFFORT, *words])


def test_the_prior_holds_the_truth_and_is_resumed_to_the_bit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert identify(folder, '--out', str(folder / 'whole.yaml')) == 0
    shown = capsys.readouterr().out
    assert 'unlike the simulations' not in shown
    prior = yaml.safe_load((folder / 'whole.yaml').read_text())
    for name, truth in TRUTH.items():
        values = np.array(prior['parameters'][name]['values'])
        # an interval that holds the truth in all but one of a million cases
        assert abs(values.mean() - truth) < 5.0 * values.std()
        bounds = yaml.safe_load(PLANT)['parameters'][name]
        assert values.std() < 0.2 * (bounds['upper'] - bounds['lower'])
    simulate, calls = PairSimulation.simulate, []

    def interrupted(self: PairSimulation, numbers: np.ndarray) -> simulations.Pairs:
        calls.append(numbers[0])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return simulate(self, numbers)

    monkeypatch.setattr(PairSimulation, 'simulate', interrupted)
    assert identify(folder, '--out', str(folder / 'parts.yaml')) == 130
    assert identify(folder, '--out', str(folder / 'parts.yaml')) == 0
    assert calls == [0, 200, 400, 400, 600, 800]
    parts = yaml.safe_load((folder / 'parts.yaml').read_text())
    assert parts['parameters'] == prior['parameters']


def test_a_recording_unlike_all_simulations_is_reported(
    folder: Path, capsys: pytest.CaptureFixture
) -> None:
    table = np.loadtxt(folder / 'swing.csv', delimiter=',', skiprows=1)
    table[:, 1] += np.sin(20.0 * table[:, 0])  # a motor that the model lacks
    np.savetxt(folder / 'swing.csv', table, delimiter=',', comments='',
               header='time_s,position/hinge [rad]')  # fmt: skip
    assert identify(folder) == 0
    assert 'unlike the simulations' in capsys.readouterr().out


def test_too_few_simulations_and_short_recordings_are_errors(
    folder: Path, capsys: pytest.CaptureFixture
) -> None:
    assert identify(folder, '--simulations', '100') == 2
    assert '--simulations: found 100, expected 500 or more' in capsys.readouterr().err
    assert identify(folder, '--duration', '5') == 2
    assert 'shorter than' in capsys.readouterr().err
    assert identify(folder, '--duration', '0.1') == 2
    assert 'at least 20' in capsys.readouterr().err
