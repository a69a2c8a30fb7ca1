"""Positions at the rate of a camera, with a model that steps more often: all methods take them."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from emppi_ros.cli import main
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.multiple_shooting import training_data
from emppi_ros.recordings.recordings import read_recording

NOISE = 2e-3  # of `record_swing`
EFFORT = {
    'states': [],
    'shooting': [],
    'sysid': ['--threads', '1'],
    'csvgd': ['--particles', '16', '--iterations', '40', '--threads', '1'],
    'bayessim': ['--simulations', '600', '--epochs', '40', '--duration', '2', '--threads', '1'],
}


@pytest.fixture
def swing(record_swing):
    """Return a swing filmed at 30 Hz, in steps that do not divide those of the model."""
    return record_swing(model_step_s=0.005, step_s=1.0 / 300.0, steps=1300, every=10, damping=0.1)


@pytest.mark.parametrize(
    'method',
    [pytest.param(one, marks=[pytest.mark.slow] if one == 'csvgd' else []) for one in EFFORT],
)
def test_all_methods_take_positions_of_a_camera(swing, tmp_path: Path, method: str) -> None:
    words = [
        *swing.words,
        '--method',
        method,
        '--out',
        str(tmp_path / 'known.yaml'),
        *EFFORT[method],
    ]
    assert main(['identify', *words]) == 0
    prior = yaml.safe_load((tmp_path / 'known.yaml').read_text())
    for name, truth in swing.truth.items():
        values = np.array(prior['parameters'][name]['values'])
        # in all but one of a million cases if the spread is right; and better than the bounds
        assert abs(values.mean() - truth) < 5.0 * values.std(), name
        assert values.std() < 0.08, name


def test_steps_without_a_sample_do_not_count(swing, tmp_path: Path) -> None:
    plant = Plant.from_file(tmp_path / 'plant.yaml')
    recording = read_recording([tmp_path / 'swing.csv'])
    problem = training_data.prepare(plant, [recording], 0.5, 0.0, {}).problem
    assert problem.observed is not None
    # a sample every 33 ms, a step every 5 ms
    assert np.mean(problem.observed[:, 0]) == pytest.approx(0.15, abs=0.01)
    # 130 samples: a relative standard error of 6 % of white noise, and what motion adds
    assert 0.8 * NOISE < problem.noise[0] < 1.5 * NOISE
