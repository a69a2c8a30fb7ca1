"""`emppi identify` on the command line: it writes usable priors, and errors advise the user."""

import importlib
import json

import numpy as np
import pytest
import yaml

from benchmarks.identify import pendulums
from emppi_ros.cli import main
from emppi_ros.identification.common.plant import Plant
from emppi_ros.tasks.task import load_task

TRUTH = {'pole_mass': 0.31, 'pole_inertia': 0.022}
COLUMNS = {
    'time_s': 0,
    'position/slider [m]': 1,
    'position/hinge [rad]': 2,
    'velocity/hinge [rad/s]': 3,
    'command/slider [N]': 4,
}


def drive(data):
    push = 6.0 * np.sin(3.1 * data.time) + 5.0 * np.sin(5.3 * data.time)
    return [push - 8.0 * data.qpos[0] - 2.0 * data.qvel[0]]


def swing(seed=0, start=(0.0, np.pi), mass=TRUTH['pole_mass']):
    """Return 6 s of sensor readings of a cart-pole."""
    plant = Plant.from_task(load_task('cartpole_swingup'))
    theta = np.array([mass, TRUTH['pole_inertia']])
    qpos, ctrl = pendulums.simulate(plant, theta, list(start), 600, drive)
    noise = np.random.default_rng(seed).standard_normal(qpos.shape)
    time = 0.01 * np.arange(600)
    velocity = np.gradient(qpos[:, 1], time)
    return np.column_stack([time, qpos + 3e-4 * noise, velocity, ctrl])


@pytest.fixture(scope='module')
def table():
    return swing()


def write(folder, table, columns=COLUMNS, name='run.csv'):
    path = folder / name
    used = table[:, list(columns.values())]
    np.savetxt(path, used, delimiter=',', header=','.join(columns), comments='')
    return str(path)


def identify(data, *words):
    return main(['identify', '--data', data, '--task', 'cartpole_swingup', *words])


@pytest.mark.slow
def test_a_prior_is_written_and_run(table, tmp_path, capsys):
    out = str(tmp_path / 'prior.yaml')
    assert identify(write(tmp_path, table), '--out', out, '--json') == 0
    found = json.loads(capsys.readouterr().out)
    assert found['converged'] and found['unexcited_directions'] == []
    for name, row in found['parameters'].items():
        assert row['knowledge'] == 'found' and not row['at_bound']
        # linearised: five standard deviations
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])
    prior = yaml.safe_load((tmp_path / 'prior.yaml').read_text())
    assert prior['method'] == 'states' and prior['sources'][0]['name'] == 'run.csv'
    values = np.array([prior['parameters'][name]['values'] for name in TRUTH])
    sd = [3.0 * found['parameters'][name]['sd'] for name in TRUTH]
    # 500 draws know their standard deviation to 1 / sqrt(1000) = 3 %: five of these
    np.testing.assert_allclose(values.std(axis=1), sd, rtol=0.16)
    assert main(['run', 'cartpole_swingup', '--prior', out, '--duration', '0.2', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['prior'] == out


@pytest.mark.slow
def test_no_prior_is_written_that_its_own_forecast_contradicts(table, tmp_path, capsys):
    out, other = tmp_path / 'prior.yaml', table.copy()
    other[480:, 4] *= -1.0  # the fifth that is held out
    data = write(tmp_path, other)
    assert identify(data, '--out', str(out)) == 2
    error = capsys.readouterr().err
    assert 'forecasts of the held-out part miss slider by' in error
    assert 'no prior is written' in error and not out.exists()
    assert identify(data, '--json') == 0  # without a prior it is a note
    assert 'no prior is written' in json.loads(capsys.readouterr().out)['notes']


@pytest.mark.slow
def test_nothing_is_overwritten_unless_asked(table, tmp_path, capsys):
    out = tmp_path / 'prior.yaml'
    out.write_text('mine')
    data = write(tmp_path, table)
    assert identify(data, '--out', str(out)) == 2
    assert 'exists; give another name, or --overwrite' in capsys.readouterr().err
    assert out.read_text() == 'mine'
    assert identify(data, '--out', str(tmp_path / 'nowhere' / 'prior.yaml')) == 2
    assert '--out: no such folder' in capsys.readouterr().err
    assert identify(data, '--out', str(out), '--overwrite') == 0
    assert 'method: states' in out.read_text()


def scaled(table, column, factor):
    other = table.copy()
    other[:, column] *= factor
    return other


def late(table, column, by):
    other = table.copy()
    other[:, column] = np.roll(table[:, column], by)
    return other


def without(name):
    return {key: column for key, column in COLUMNS.items() if key != name}


def renamed(old, new):
    return {new if key == old else key: column for key, column in COLUMNS.items()}


WRONG = {
    'degrees': (lambda t: scaled(t, 2, 180 / np.pi), COLUMNS, 'units are confused (radians for'),
    'degrees a second': (lambda t: scaled(t, 3, 180 / np.pi), COLUMNS, 'confused (degrees?)'),
    'sign': (lambda t: scaled(t, 4, -1.0), COLUMNS, 'the model does not match'),
    'late command': (lambda t: late(t, 4, 20), COLUMNS, 'the model does not match'),
    'late velocity': (lambda t: late(t, 3, 20), COLUMNS, 'unsynchronised: 0.18 s behind'),
    'still': (lambda t: scaled(t, 2, 0.0), COLUMNS, 'unexciting: it never moves'),
    'joint': (np.copy, renamed('position/hinge [rad]', 'position/hing [rad]'), "mean 'hinge'"),
    'actuator': (np.copy, renamed('command/slider [N]', 'command/cart [N]'), 'unknown actuator'),
    'no command': (np.copy, without('command/slider [N]'), 'was not recorded: record it (zeros'),
    'no joint': (np.copy, without('position/slider [m]'), "a joint 'slider', whose position was"),
    'kind': (np.copy, renamed('position/slider [m]', 'position/slider [rad]'), "expected 'm'"),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', WRONG)
def test_recordings_that_do_not_fit_are_named(name, table, tmp_path, capsys):
    change, columns, words = WRONG[name]
    assert identify(write(tmp_path, change(table), columns)) == 2
    assert words in capsys.readouterr().err


def test_joints_are_sampled_often_enough_for_the_steps(table, tmp_path, capsys):
    assert identify(write(tmp_path, table), '--step', '0.0004') == 2
    assert 'the model steps every 0.0004 s: record more often, or' in capsys.readouterr().err


@pytest.mark.slow
def test_a_recording_with_half_of_the_samples_gives_an_estimate_as_good(table, tmp_path, capsys):
    motion = write(tmp_path, table[::2], without('command/slider [N]'))
    command = write(tmp_path, table, {'time_s': 0, 'command/slider [N]': 4}, 'command.csv')
    words = ['identify', '--data', motion, command, '--task', 'cartpole_swingup', '--json']
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found['step_s'] == 0.01
    for name, row in found['parameters'].items():
        # linearised: five standard deviations
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])


def test_clocks_must_overlap(table, tmp_path, capsys):
    later = table.copy()
    later[:, 0] += 5.5
    motion = write(tmp_path, table, without('command/slider [N]'))
    command = write(tmp_path, later, {'time_s': 0, 'command/slider [N]': 4}, 'command.csv')
    words = ['identify', '--data', motion, command, '--task', 'cartpole_swingup']
    assert main(words) == 2
    error = capsys.readouterr().err
    assert 'unsynchronised' in error and 'begins at 5.5 s' in error and 'one clock' in error


@pytest.mark.slow
def test_a_model_file_is_identified(table, tmp_path, capsys):
    model = tmp_path / 'cart.yaml'
    text = """scene: cartpole.xml
parameters:
  cart_mass: {field: body_mass, of: cart, unit: kg, initial: 2.0, lower: 0.1, upper: 10.0}
  friction: {field: dof_damping, of: slider, unit: N s/m, initial: 0.1, lower: 0.0}
  stop: {field: jnt_stiffness, of: hinge, unit: N m/rad, initial: 0.0, lower: 0.0, size: 0.01}
"""
    model.write_text(text)
    plant = Plant.from_file(model)
    theta = np.array([1.3, 0.2, 0.0])
    qpos, ctrl = pendulums.simulate(plant, theta, [0.0, np.pi], 600, drive)
    other = table.copy()
    other[:, 1:3], other[:, 4:] = qpos, ctrl
    data = write(tmp_path, other, without('velocity/hinge [rad/s]'))
    assert main(['identify', '--data', data, '--model', str(model), '--json']) == 0
    found = json.loads(capsys.readouterr().out)['parameters']
    # no noise: rounding in the CSV file, and the stopping criteria
    assert found['cart_mass']['value'] == pytest.approx(1.3, rel=1e-4)
    assert found['friction']['value'] == pytest.approx(0.2, rel=1e-3)
    model.write_text(text.replace('of: slider', 'of: sliders'))
    assert main(['identify', '--data', data, '--model', str(model)]) == 2
    assert "friction: of: unknown joint 'sliders' (did you mean 'slider'?)" in (
        capsys.readouterr().err
    )


@pytest.mark.slow
def test_a_parameter_without_effect_is_unexcited(table, tmp_path, capsys):
    model, out = tmp_path / 'cart.yaml', tmp_path / 'prior.yaml'
    useless = """scene: cartpole.xml
parameters:
  cart_inertia: {field: body_inertia, of: cart, unit: kg m^2, lower: 0.0}
"""
    model.write_text(useless)  # the cart only slides
    data = write(tmp_path, table)
    assert main(['identify', '--data', data, '--model', str(model)]) == 2
    assert 'unexciting: no parameter shows in this motion: record one' in capsys.readouterr().err
    model.write_text(f'{useless}  pole_mass: {{field: body_mass, of: pole, unit: kg, lower: 0.0}}')
    words = ['--model', str(model), '--out', str(out), '--json']
    assert main(['identify', '--data', data, *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found['parameters']['cart_inertia']['knowledge'] == 'unexcited'
    assert found['unexcited_directions'] == ['+1.00 cart_inertia']
    assert list(yaml.safe_load(out.read_text())['parameters']) == ['pole_mass']


@pytest.mark.slow
def test_several_recordings_reduce_the_uncertainty(table, tmp_path, capsys):
    first = write(tmp_path, table)
    second = write(tmp_path, swing(1, (0.3, 2.0)), name='second.csv')
    assert identify(first, '--json') == 0
    one = json.loads(capsys.readouterr().out)
    words = '--report', str(tmp_path / 'report'), '--out', str(tmp_path / 'prior.yaml'), '--json'
    assert identify(first, '--data', second, '--held-out', '0.1', *words) == 0
    two = json.loads(capsys.readouterr().out)
    assert two['steps'] == 1080 and 'notes' not in two
    assert set(two['held_out_error']) == {'slider', 'hinge'}
    for name, row in two['parameters'].items():
        # as above; both recordings are about equally informative
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])
        assert row['sd'] < 0.9 * one['parameters'][name]['sd']
    prior = yaml.safe_load((tmp_path / 'prior.yaml').read_text())
    assert [source['name'] for source in prior['sources']] == ['run.csv', 'second.csv']


@pytest.mark.slow
def test_a_recording_in_two_parts_gives_the_same_estimate(table, tmp_path, capsys):
    assert identify(write(tmp_path, table), '--json') == 0
    whole = json.loads(capsys.readouterr().out)['parameters']
    halves = [write(tmp_path, part, name=f'{i}.csv') for i, part in enumerate(np.split(table, 2))]
    assert identify(halves[0], '--data', halves[1], '--json') == 0
    for name, row in json.loads(capsys.readouterr().out)['parameters'].items():
        # the start of the second half is unknown: four more numbers
        assert row['value'] == pytest.approx(whole[name]['value'], abs=whole[name]['sd'])
        assert row['sd'] == pytest.approx(whole[name]['sd'], rel=0.2)


def test_the_recording_that_is_wrong_is_named(table, tmp_path, capsys):
    good = write(tmp_path, table)
    bad = write(tmp_path, scaled(swing(1), 4, -1.0), name='bad.csv')
    assert identify(good, '--data', bad) == 2
    assert "error: bad.csv: joint 'slider': the model does not match" in capsys.readouterr().err
    assert (
        identify(
            good, '--data', write(tmp_path, swing(1)[:150], name='short.csv'), '--held-out', '0.5'
        )
        == 2
    )
    assert 'error: short.csv: 50.000% held out of 150 steps' in capsys.readouterr().err


@pytest.mark.slow
def test_jumps_of_an_encoder_by_a_turn_are_removed(table, tmp_path, capsys):
    assert identify(write(tmp_path, table), '--json') == 0
    whole = json.loads(capsys.readouterr().out)['parameters']
    wrapped = table.copy()
    wrapped[:, 2] = np.mod(table[:, 2] + np.pi, 2.0 * np.pi) - np.pi
    assert np.ptp(wrapped[:, 2]) > 6.0  # it wraps
    assert identify(write(tmp_path, wrapped, name='wrapped.csv'), '--json') == 0
    found = json.loads(capsys.readouterr().out)
    assert 'position/hinge [rad]: removed jumps by a whole turn' in found['notes']
    for name, row in found['parameters'].items():
        assert row['value'] == pytest.approx(whole[name]['value'], rel=1e-6)  # rounding


def test_a_recording_counts_once(table, tmp_path, capsys):
    first, again = (write(tmp_path, table, name=name) for name in ('run.csv', 'again.csv'))
    assert identify(first, '--data', again) == 2
    assert 'again.csv is run.csv again, byte by byte, and would count' in capsys.readouterr().err


@pytest.mark.slow
def test_disagreement_of_recordings_is_reported(table, tmp_path, capsys):
    first = write(tmp_path, table)
    heavier = write(tmp_path, swing(1, mass=0.33), name='heavier.csv')
    assert identify(first, '--data', heavier, '--json') == 0
    notes = json.loads(capsys.readouterr().out)['notes']
    assert 'do not agree: pole_mass is 0.31' in notes and 'in run.csv, 0.33' in notes
    other = write(tmp_path, swing(1, mass=0.9), name='other.csv')
    assert identify(first, '--data', other) == 2
    error = capsys.readouterr().err
    assert 'not all together: joint' in error and 'in run.csv, 0.9' in error


def test_a_method_without_forecasts_takes_no_held_out_share(table, tmp_path, capsys):
    words = ['--method', 'filter', '--held-out', '0.2']
    assert identify(write(tmp_path, table), *words) == 2
    assert '--held-out: --method filter cannot forecast: leave it out' in capsys.readouterr().err


@pytest.mark.slow
def test_a_cluster_is_for_long_running_methods(table, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.import_module('emppi_ros.parallel.cluster'), 'CONNECT_S', 0.5)
    address, data = 'tcp://127.0.0.1:1', write(tmp_path, table)
    assert identify(data, '--scheduler', address) == 2
    assert '--scheduler: --method states computes on this machine' in capsys.readouterr().err
    assert identify(data, '--method', 'csvgd', '--scheduler', address) == 2
    assert f'--scheduler {address}: no scheduler answers there' in capsys.readouterr().err


@pytest.mark.parametrize('option', ['--state-weight', '--spread', '--step'])
def test_settings_are_positive(option, table, tmp_path, capsys):
    assert identify(write(tmp_path, table), option, '-1') == 2
    assert f'{option}: found -1, expected a number above 0' in capsys.readouterr().err


@pytest.mark.slow
def test_the_lag_of_commands_is_reported_and_can_be_given(table, tmp_path, capsys):
    early = table.copy()
    early[:-1, 4] = table[1:, 4]  # each command is recorded one step before it acts
    file = write(tmp_path, early)
    assert identify(file, '--json') == 0
    found = json.loads(capsys.readouterr().out)
    assert found['command_lag_s'] == pytest.approx(0.01, abs=1e-3)
    assert 'commands seem to act 10 ms later than recorded' in found['notes']
    out = tmp_path / 'prior.yaml'
    assert identify(file, '--lag', '0.01', '--out', str(out), '--json') == 0
    found = json.loads(capsys.readouterr().out)
    assert abs(found['command_lag_s']) < 1e-3 and 'notes' not in found
    for name, row in found['parameters'].items():
        # linearised: five standard deviations
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])
    assert yaml.safe_load(out.read_text())['settings']['lag_s'] == 0.01
    assert identify(file, '--lag', '10') == 2
    assert '--lag: found 10, expected seconds, between -1 and 1' in capsys.readouterr().err
