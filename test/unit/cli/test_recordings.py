"""Runs are recorded with sensor noise, and `emppi identify` recovers their parameters."""

import json

import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.cli import main
from emppi_ros.identification.common import checkpoint
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.filter import method
from emppi_ros.identification.rigid_body import arm as arms
from emppi_ros.identification.rigid_body import recordings as arm_recordings
from emppi_ros.identification.states import residuals
from emppi_ros.recordings.motion import resample
from emppi_ros.recordings.recordings import read_recording
from emppi_ros.tasks.task import load_task, task_text

TRUTH = {'pole_mass': 0.31, 'pole_inertia': 0.022}


@pytest.fixture
def task(tmp_path):
    """Return the cart-pole with encoders at the rate of its physics."""
    path = tmp_path / 'fast.yaml'
    text = task_text('cartpole_swingup')
    path.write_text(text.replace('simulation:', 'simulation:\n  joint_state_rate_hz: 1000.0'))
    return str(path)


@pytest.mark.slow
def test_simulated_parameters_are_identified(tmp_path, capsys):
    path, task = tmp_path / 'run.csv', 'cartpole_swingup'
    given = [f'--truth={name}={value}' for name, value in TRUTH.items()]
    words = ['run', task, '--duration', '1.5', *given, '--record', str(path), '--json']
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)['recorded'] == str(path)
    beside = json.loads((tmp_path / 'run.truth.json').read_text())
    assert beside['truth'] == TRUTH and beside['noise_sd']['joint_position'] == 1e-4
    signals = read_recording([path]).signals
    rates = {key: round(1.0 / signal.period) for key, signal in signals.items()}
    assert rates['position', 'hinge'] == 250 and rates['command', 'slider'] == 250
    assert signals['velocity', 'slider'].unit == 'm/s'
    words = ['identify', '--data', str(path), '--task', task, '--json']
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    # of the simulation, whereas the scene has 0.01 s
    assert 'notes' not in found and found['step_s'] == 0.001
    for name, row in found['parameters'].items():
        assert row['knowledge'] == 'found'
        # linearised: five standard deviations
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])
    # too long steps look like a lag of the commands, and leave correlated residuals
    assert main([*words, '--step', '0.01']) == 0
    found = json.loads(capsys.readouterr().out)
    assert found['notes'].startswith('the step of 0.01 s is too long for this motion')
    assert 'give --step 0.001; residuals are correlated' in found['notes']
    assert '--lag' not in found['notes']


@pytest.mark.slow
def test_commands_are_averaged_over_steps_longer_than_recorded_ones(task, tmp_path, capsys):
    path, masses = tmp_path / 'run.csv', []
    for seed in range(4):
        words = ['run', task, '--seed', str(seed), '--duration', '1.5']
        given = [f'--truth={name}={value}' for name, value in TRUTH.items()]
        assert main([*words, *given, '--record', str(path)]) == 0
        capsys.readouterr()
        words = ['identify', '--data', str(path), '--task', task, '--json', '--step', '0.01']
        assert main(words) == 0
        found = json.loads(capsys.readouterr().out)
        masses.append(found['parameters']['pole_mass']['value'])
        path.unlink()
    # the discretization biases each by 0.5 to 1.3 %; sampled commands would add 1.2 %
    assert np.mean(masses) == pytest.approx(TRUTH['pole_mass'], rel=0.01)


@pytest.mark.slow
def test_a_recorded_push_satisfies_the_model(tmp_path, capsys):
    pytest.importorskip('pyarrow', reason='the extra `identify` is not installed')
    exact = """simulation:
  joint_position_noise_sd: 0.0
  position_noise_sd_m: 0.0
  rotation_noise_sd_rad: 0.0
  joint_state_rate_hz: 1000.0
  tracking_rate_hz: 1000.0
"""
    task, path = tmp_path / 'exact.yaml', tmp_path / 'run.parquet'
    task.write_text(task_text('panda_push').replace('simulation:', exact.strip(), 1))
    words = ['run', str(task), '--controller', 'mppi-true', '--duration', '2.5']
    # friction is 2.5 times that of the prior's mean, which must therefore fit far worse
    words += ['--truth', 'block_mass=0.45', '--truth', 'block_friction=0.5']
    assert main([*words, '--record', str(path), '--json']) == 0
    capsys.readouterr()
    recording = read_recording([path])
    signals = recording.signals
    assert signals['command', 'panda_joint7'].unit == 'rad/s'
    assert signals['pose', 'block'].time[0] == 0.0  # time of the measurement, not of its arrival
    plant = Plant.from_task(load_task(str(task)))
    plant.model.opt.timestep = 0.001
    motion = resample(recording, plant.model, plant.bodies)
    truth = json.loads((tmp_path / 'run.truth.json').read_text())['truth']

    def lacking(theta):
        left = residuals.evaluate(plant, motion, 1.0, theta, motion.qpos)
        return np.sqrt(np.mean(left.impulses**2))

    # the scene stops MuJoCo's solver early: contact forces are exact to a few thousandths
    assert lacking(np.array(list(truth.values()))) < 0.02 * lacking(plant.initial)


@pytest.mark.slow
def test_a_recorded_arm_has_the_torques_of_its_links(tmp_path, capsys):
    path = tmp_path / 'run.csv'
    assert main(['run', 'fr3_follow', '--record', str(path), '--json']) == 0
    capsys.readouterr()
    recording = read_recording([path])
    beside = json.loads((tmp_path / 'run.truth.json').read_text())
    assert beside['noise_sd']['joint_effort'] == 0.05
    assert len(recording.names('effort')) == 7
    arm = arm_recordings.read(Plant.from_task(load_task('fr3_follow')), recording)
    links = arm.recordings[0].training.samples
    needed = arms.motion_torques(arm.model, links.states)
    # joint 2 carries the arm; the payload is wrong by at most 0.5 kg, at most 0.9 m away
    assert np.mean(links.torque[:, 1]) == pytest.approx(np.mean(needed[:, 1]), abs=5.0)
    assert abs(np.mean(needed[:, 1])) > 2.0


@pytest.mark.slow
def test_a_push_becomes_a_prior_through_contact(tmp_path, capsys):
    path, out = tmp_path / 'push.csv', tmp_path / 'known.yaml'
    words = ['run', 'panda_push', '--seed', '3', '--duration', '2.2', '--record', str(path)]
    assert main([*words, '--json']) == 0
    capsys.readouterr()
    words = ['identify', '--method', 'filter', '--data', str(path), '--particles', '12', '--json']
    model = tmp_path / 'model.yaml'
    model.write_text(
        'scene: cartpole.xml\n'
        'parameters: {m: {field: body_mass, of: pole, unit: kg, lower: 0.1}}\n'
    )
    assert main([*words, '--model', str(model)]) == 2
    assert '--method filter needs a task' in capsys.readouterr().err
    few = ['--task', 'panda_push', '--threads', '1', '--step', '0.005']
    scene = tmp_path / 'found.xml'
    assert main([*words, *few, '--out', str(out), '--mjcf', str(scene)]) == 0
    assert mujoco.MjModel.from_xml_path(str(scene)).opt.timestep == 0.005  # of the predictions
    found = json.loads(capsys.readouterr().out)
    assert set(found['parameters']) == {'block_mass', 'block_friction'}
    text = yaml.safe_load(out.read_text())
    assert (text['method'], text['sources'][0]['name']) == ('filter', 'push.csv')
    assert text['settings']['substep_s'] == 0.005 and len(text['weights']) == 12
    words = ['run', 'panda_push', '--prior', str(out), '--duration', '0.2', '--json']
    assert main(words) == 0


@pytest.mark.slow
def test_an_interrupted_filter_resumes_bit_for_bit(tmp_path, capsys, monkeypatch):
    path, out = tmp_path / 'push.csv', tmp_path / 'known.yaml'
    words = ['run', 'panda_push', '--seed', '3', '--duration', '2.2', '--record', str(path)]
    assert main([*words, '--json']) == 0
    words = ['identify', '--method', 'filter', '--data', str(path), '--task', 'panda_push']
    words += ['--threads', '1', '--step', '0.005', '--particles', '30', '--out', str(out)]
    assert main(words) == 0
    whole = out.read_text()
    out.unlink()
    write = checkpoint.Checkpoint.write

    def interrupted(saved, state):
        write(saved, state)
        if len(state['powers']) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Checkpoint, 'write', interrupted)
    assert main(words) == 130
    monkeypatch.undo()
    capsys.readouterr()
    assert not out.exists() and checkpoint.path_beside(out).exists()
    assert main([*words, '--seed', '1']) == 2
    assert 'another seed: 0, now 1: resume with the same, or' in capsys.readouterr().err
    assert main(words) == 0
    assert out.read_text() == whole and not checkpoint.path_beside(out).exists()
    monkeypatch.setattr(method, '_MAX_INNOVATION', 0.0)  # no measurement is that exact
    assert main([*words, '--overwrite']) == 2
    assert 'the model does not match' in capsys.readouterr().err
    assert out.read_text() == whole and not checkpoint.path_beside(out).exists()


@pytest.mark.parametrize(
    ('name', 'words'),
    [
        ('run.txt', 'expected a name that ends in .csv or .parquet'),
        ('no/run.csv', 'no such folder'),
    ],
)
def test_an_unwritable_recording_is_an_error_before_the_run(tmp_path, capsys, name, words):
    assert main(['run', 'cartpole_swingup', '--record', str(tmp_path / name)]) == 2
    assert words in capsys.readouterr().err
