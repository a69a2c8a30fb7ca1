"""A run is recorded with noise, and what `emppi identify` finds in it is its truth."""

import json

import pytest

from emppi_ros.cli import main
from emppi_ros.identify import dataset
from emppi_ros.tasks.task import task_text

TRUTH = {'pole_mass': 0.31, 'pole_inertia': 0.022}


@pytest.fixture
def task(tmp_path):
    """Return the cart-pole with encoders as fast as its physics: no discretization to fit."""
    path = tmp_path / 'fast.yaml'
    text = task_text('cartpole_swingup')
    path.write_text(text.replace('simulation:', 'simulation:\n  joint_state_rate_hz: 1000.0'))
    return str(path)


def test_what_was_simulated_is_found(task, tmp_path, capsys):
    path = tmp_path / 'run.csv'
    given = [f'--truth={name}={value}' for name, value in TRUTH.items()]
    words = ['run', task, '--duration', '1.5', *given, '--record', str(path), '--json']
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)['recorded'] == str(path)
    beside = json.loads((tmp_path / 'run.truth.json').read_text())
    assert beside['truth'] == TRUTH and beside['noise_sd']['joint_position'] == 1e-4
    signals = dataset.read([path]).signals
    rates = {key: round(1.0 / signal.period) for key, signal in signals.items()}
    assert rates['position', 'hinge'] == 1000 and rates['command', 'slider'] == 250
    assert signals['velocity', 'slider'].unit == 'm/s'
    words = ['identify', '--data', str(path), '--task', task, '--step', '0.001', '--json']
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)['parameters']
    for name, row in found.items():
        assert row['knowledge'] == 'found'
        # linearised: five standard deviations
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])


def test_tracked_objects_are_recorded_with_their_delay_taken_out(tmp_path, capsys):
    path = tmp_path / 'run.parquet'
    pytest.importorskip('pyarrow', reason='the extra `identify` is not installed')
    words = ['run', 'panda_push', '--controller', 'mppi-mean', '--duration', '2.5']
    assert main([*words, '--record', str(path), '--json']) == 0
    signals = dataset.read([path]).signals
    assert signals['pose', 'block'].period == pytest.approx(0.02)
    assert {of for kind, of in signals if kind == 'command'} == {
        f'panda_joint{i}' for i in range(1, 8)
    }
    assert signals['command', 'panda_joint1'].unit == 'rad/s'


@pytest.mark.parametrize(
    ('name', 'words'),
    [
        ('run.txt', 'expected a name that ends in .csv or .parquet'),
        ('no/run.csv', 'no such folder'),
    ],
)
def test_a_recording_that_cannot_be_written_is_refused_first(tmp_path, capsys, name, words):
    assert main(['run', 'cartpole_swingup', '--record', str(tmp_path / name)]) == 2
    assert words in capsys.readouterr().err
