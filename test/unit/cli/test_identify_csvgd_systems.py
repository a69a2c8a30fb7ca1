"""`emppi identify --method csvgd --likelihood sum`: recordings of several systems."""

import json

import numpy as np
import pytest
import yaml

from benchmarks.identify import pendulums
from emppi_ros.cli import main
from emppi_ros.identification.common import checkpoint
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.csvgd import csvgd
from emppi_ros.identification.multiple_shooting import particle_summary
from emppi_ros.tasks.task import load_task

MASSES = 0.31, 0.25
FILES = 'run.csv', 'other/run.csv'


@pytest.fixture
def here(tmp_path):
    """Return a folder with recordings of two cart-poles with the masses above."""
    plant = Plant.from_task(load_task('cartpole_swingup'))

    def drive(data):
        push = 6.0 * np.sin(3.1 * data.time) + 5.0 * np.sin(5.3 * data.time)
        return [push - 8.0 * data.qpos[0] - 2.0 * data.qvel[0]]

    header = 'time_s,position/slider [m],position/hinge [rad],command/slider [N]'
    (tmp_path / 'other').mkdir()
    for seed, (file, mass) in enumerate(zip(FILES, MASSES, strict=True)):
        theta = np.array([mass, 0.022])
        qpos, ctrl = pendulums.simulate(plant, theta, [0.0, np.pi], 200, drive)
        noise = 3e-4 * np.random.default_rng(seed).standard_normal(qpos.shape)
        table = np.column_stack([0.01 * np.arange(200), qpos + noise, ctrl])
        np.savetxt(tmp_path / file, table, delimiter=',', header=header, comments='')
    return tmp_path


def identify(here, *words, files=FILES, particles=16):
    command = [
        'identify',
        '--task',
        'cartpole_swingup',
        '--method',
        'csvgd',
        '--likelihood',
        'sum',
    ]
    for file in files:
        command += ['--data', str(here / file)]
    effort = [
        '--likelihood',
        'sum',
        '--particles',
        str(particles),
        '--iterations',
        '25',
        '--threads',
        '1',
    ]
    return main([*command, *effort, *words, '--json'])


@pytest.mark.slow
def test_each_system_is_inferred_as_if_it_were_alone(here, capsys):
    out = here / 'prior.yaml'
    assert identify(here, '--out', str(out), '--report', str(here / 'report')) == 0
    whole = json.loads(capsys.readouterr().out)
    assert list(whole['systems']) == ['run.csv (recording 1)', 'run.csv (recording 2)']
    for told, file, mass in zip(whole['systems'].values(), FILES, MASSES, strict=True):
        assert identify(here, files=[file], particles=8) == 0
        assert told == json.loads(capsys.readouterr().out)
        row = told['parameters']['pole_mass']
        # the spread of eight particles is known to about a third; five standard deviations
        assert row['value'] == pytest.approx(mass, abs=5.0 * 1.3 * row['sd'])
    values = np.array(yaml.safe_load(out.read_text())['parameters']['pole_mass']['values'])
    assert whole['particles'] == len(values) == 16
    assert np.sum(values < 0.28) == np.sum(values > 0.28) == 8
    assert main(['run', 'cartpole_swingup', '--prior', str(out), '--duration', '0.2']) == 0


@pytest.mark.slow
def test_an_interrupted_run_resumes_at_its_system(here, capsys, monkeypatch):
    whole, parts = here / 'whole.yaml', here / 'parts.yaml'
    assert identify(here, '--out', str(whole)) == 0
    calls = []

    def second(*given):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return infer(*given)

    infer = csvgd.infer
    monkeypatch.setattr(csvgd, 'infer', second)
    assert identify(here, '--out', str(parts)) == 130
    monkeypatch.undo()
    assert checkpoint.path_beside(parts).exists() and not parts.exists()
    capsys.readouterr()
    assert identify(here, '--out', str(parts), files=FILES[::-1]) == 2
    assert 'another data' in capsys.readouterr().err
    assert identify(here, '--out', str(parts)) == 0
    assert parts.read_text() == whole.read_text() and not list(here.glob('*.npz'))


@pytest.mark.parametrize(
    ('words', 'error'),
    [
        (
            ['--particles', '9'],
            'found 9, expected 10 or more: fewer do not determine',
        ),
        (['--mjcf', 'found.xml'], '--mjcf: several systems are not one model'),
    ],
)
def test_options_that_do_not_fit_several_systems_are_named(words, error, here, capsys):
    assert identify(here, *words) == 2
    assert error in capsys.readouterr().err


@pytest.mark.slow
def test_a_failed_run_leaves_no_checkpoint(here, capsys, monkeypatch):
    monkeypatch.setattr(
        particle_summary, '_MIN_CONVERGED_SHARE', 1.1
    )  # no number of particles suffices
    out = ['--out', str(here / 'prior.yaml')]
    assert identify(here, *out) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert 'run.csv (recording 1): only 8 of 8' in error and 'give more iterations' in error
    assert not list(here.glob('*.npz'))
    monkeypatch.undo()
    assert identify(here, *out, '--iterations', '26') == 0
