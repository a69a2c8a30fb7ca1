"""The method on a recording: a prior that holds the truth, resumed to the bit, and its errors."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from emppi_ros.cli import main
from emppi_ros.identification.bayessim import simulations
from emppi_ros.identification.bayessim.simulations import PairSimulation

EFFORT = ['--simulations', '1000', '--epochs', '60', '--threads', '1']


@pytest.fixture
def swing(record_swing):
    """Return a swing recorded at each step of the model."""
    return record_swing(model_step_s=0.01, step_s=0.01, steps=200, every=1, damping=0.2)


def identify(swing, *words: str) -> int:
    return main(['identify', '--method', 'bayessim', *swing.words, *EFFORT, *words])


@pytest.mark.slow
def test_the_prior_holds_the_truth_and_is_resumed_to_the_bit(
    swing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert identify(swing, '--out', str(tmp_path / 'whole.yaml')) == 0
    shown = capsys.readouterr().out
    assert 'unlike the simulations' not in shown
    prior = yaml.safe_load((tmp_path / 'whole.yaml').read_text())
    for name, truth in swing.truth.items():
        values = np.array(prior['parameters'][name]['values'])
        # an interval that holds the truth in all but one of a million cases
        assert abs(values.mean() - truth) < 5.0 * values.std()
        bounds = yaml.safe_load((tmp_path / 'plant.yaml').read_text())['parameters'][name]
        assert values.std() < 0.2 * (bounds['upper'] - bounds['lower'])
    simulate, calls = PairSimulation.simulate, []

    def interrupted(self: PairSimulation, numbers: np.ndarray) -> simulations.Pairs:
        calls.append(numbers[0])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return simulate(self, numbers)

    monkeypatch.setattr(PairSimulation, 'simulate', interrupted)
    assert identify(swing, '--out', str(tmp_path / 'parts.yaml')) == 130
    assert identify(swing, '--out', str(tmp_path / 'parts.yaml')) == 0
    assert calls == [0, 200, 400, 400, 600, 800]
    parts = yaml.safe_load((tmp_path / 'parts.yaml').read_text())
    assert parts['parameters'] == prior['parameters']


@pytest.mark.slow
def test_a_recording_unlike_all_simulations_is_reported(
    swing, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    table = np.loadtxt(tmp_path / 'swing.csv', delimiter=',', skiprows=1)
    table[:, 1] += np.sin(20.0 * table[:, 0])  # a motor that the model lacks
    np.savetxt(tmp_path / 'swing.csv', table, delimiter=',', comments='',
               header='time_s,position/hinge [rad]')  # fmt: skip
    assert identify(swing) == 0
    assert 'unlike the simulations' in capsys.readouterr().out


def test_too_few_simulations_and_short_recordings_are_errors(
    swing, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert identify(swing, '--simulations', '100') == 2
    assert '--simulations: found 100, expected 500 or more' in capsys.readouterr().err
    assert identify(swing, '--duration', '5') == 2
    assert 'shorter than' in capsys.readouterr().err
    assert identify(swing, '--duration', '0.1') == 2
    assert 'at least 20' in capsys.readouterr().err
