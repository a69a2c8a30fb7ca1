"""`emppi identify --method rigid-body` with several recordings: their information adds up."""

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.cli import main
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.rigid_body import arm, inference, report
from emppi_ros.identification.rigid_body import recordings as arm_recordings
from emppi_ros.identification.rigid_body.torque_fit import RigidBodyOptions
from emppi_ros.recordings.recordings import read_recording

ARM = """
<mujoco>
  <worldbody>
    <body name="upper" gravcomp="{held}">
      <joint name="shoulder" axis="0.3 1 0" damping="0.3"/>
      <inertial pos="0 0.02 0.1" mass="2" diaginertia="0.02 0.02 0.01"/>
      <body name="fore" pos="0 0 0.3" gravcomp="{held}">
        <joint name="elbow" axis="0 1 0.3" damping="0.2"/>
        <inertial pos="0.15 0 0" mass="1.5" diaginertia="0.003 0.02 0.02"/>
        <body name="wrist" pos="0.3 0 0" gravcomp="{held}">
          <joint name="roll" axis="1 0 1" damping="0.1"/>
          <inertial pos="0.05 0 0" mass="0.5" diaginertia="0.001 0.001 0.001"/>
          <body name="payload" pos="0.1 0 0.1" gravcomp="{held}">
            <inertial pos="0 0 0.02" mass="0.5" diaginertia="0.001 0.001 0.001"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    {motors}
  </actuator>
</mujoco>
"""
MODEL = """scene: arm.xml
parameters:
  mass: {field: body_mass, of: payload, unit: kg, lower: 0.05, upper: 5.0}
  x: {field: body_ipos, of: payload, element: 0, unit: m, size: 0.05}
  friction: {field: dof_damping, of: elbow, unit: N m s/rad, lower: 0.0}
"""
JOINTS = 'shoulder', 'elbow', 'roll'
MOTORS = ''.join(f'<motor name="m_{j}" joint="{j}"/>' for j in JOINTS)
TRUTH = {'mass': 1.1, 'x': 0.03, 'friction': 0.25}
STEP, STEPS = 0.002, 3000


def text(held=0):
    return ARM.format(held=held, motors=MOTORS)


@pytest.fixture
def here(tmp_path):
    """Return a folder with the arm and a model file."""
    (tmp_path / 'arm.xml').write_text(text())
    (tmp_path / 'arm.yaml').write_text(MODEL)
    return tmp_path


def run(here, seed, mass=TRUTH['mass'], noise=0.2, gravity=True):
    """Return time, positions and torques of a motion of the arm with the true payload."""
    spec = mujoco.MjSpec.from_string(text())
    body = spec.body('payload')
    body.mass, body.ipos, body.inertia = mass, [TRUTH['x'], -0.02, 0.06], 3 * [0.0022]
    spec.joint('elbow').damping[0] = TRUTH['friction']
    spec.compile()
    (here / 'true.xml').write_text(spec.to_xml())
    model = arm.load(here / 'true.xml', joints=JOINTS)
    model.opt.gravity[:] *= gravity
    rng = np.random.default_rng(seed)
    rates, phase = rng.uniform(5.0, 8.0, 3), rng.uniform(0.0, 2.0 * np.pi, 3)
    time = STEP * np.arange(STEPS)
    turn = np.outer(time, rates) + phase
    states = np.array([np.sin(turn), rates * np.cos(turn), -(rates**2) * np.sin(turn)])
    seen = states[0] + 1e-4 * rng.standard_normal(turn.shape)
    torque = arm.motion_torques(model, states) + noise * rng.standard_normal(turn.shape)
    return np.column_stack([time, seen, torque])


def save(path, table, kind='effort/{} [N m]', joints=JOINTS):
    names = [f'position/{j} [rad]' for j in joints] + [kind.format(j) for j in joints]
    header = ','.join(['time_s', *names])
    np.savetxt(path, table, delimiter=',', header=header, comments='', fmt='%.9g')
    return str(path)


def identify(here, *tables, words=()):
    """Run the command with recordings a.csv, b.csv and so on."""
    data = [save(here / f'{name}.csv', table) for name, table in zip('abc', tables, strict=False)]
    return command(here, *data, words=words)


def command(here, *data, words=()):
    each = [word for path in data for word in ('--data', path)]
    start = ['identify', '--method', 'rigid-body', '--model', str(here / 'arm.yaml')]
    return main([*start, *each, *words, '--json'])


def found(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.slow
def test_the_information_of_two_motions_adds_up(here, capsys):
    """Precisions add up; more, where only both motions together separate parameters."""
    tables, rows = [run(here, 0), run(here, 1)], []
    out = here / 'prior.yaml'
    for given in ([tables[0]], [tables[1]], tables):
        assert identify(here, *given, words=['--out', str(out), '--overwrite']) == 0
        result = found(capsys)
        rows.append(result['parameters'])
    one, other, both = rows
    for name, row in both.items():
        sd = (one[name]['sd'] ** -2 + other[name]['sd'] ** -2) ** -0.5
        # standard error of a standard deviation of 500 samples: 3 %, of three: 5 %; three of these
        assert 0.7 * sd < row['sd'] < 1.15 * sd
        assert row['sd'] < min(one[name]['sd'], other[name]['sd'])
        # one in a million is beyond five standard deviations
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])
    assert list(result['recordings']) == ['a.csv', 'b.csv']
    # the payload's height is estimated, too, and differs from that of the scene
    assert 'add {field: body_ipos, of: payload, element: 2}' in result['notes']
    assert all(0.9 < row['left_in_noise'] < 1.3 for row in result['recordings'].values())
    prior = yaml.safe_load(out.read_text())
    assert [source['name'] for source in prior['sources']] == ['a.csv', 'b.csv']
    assert len(prior['settings']['window_s']) == 2


@pytest.mark.slow
def test_a_recording_in_two_parts_gives_the_same_estimate(here, capsys):
    table = run(here, 2)
    assert identify(here, table) == 0
    whole = found(capsys)['parameters']
    first, second = np.split(table, [14 * 107])  # every 14th sample is kept
    assert identify(here, first, second - second[0] * (np.arange(7) == 0)) == 0
    parts = found(capsys)['parameters']
    for name, row in whole.items():
        # the parts lack four of 211 samples, and estimate their noise from half as many
        assert parts[name]['value'] == pytest.approx(row['value'], abs=0.5 * row['sd'])
        assert parts[name]['sd'] == pytest.approx(row['sd'], rel=0.25)


@pytest.mark.slow
def test_sensors_may_drift_between_recordings(here, capsys):
    """Each recording has its own offsets, which absorb the drift."""
    one, other = run(here, 0), run(here, 1)
    assert identify(here, one, other) == 0
    before = found(capsys)
    drift = [0.5, -0.3, 0.1]
    assert identify(here, one, other + [*4 * [0.0], *drift]) == 0
    after = found(capsys)
    for name, row in before['parameters'].items():
        # offsets have a prior of ten times the torques, so agreement is not exact
        value = after['parameters'][name]['value']
        assert value == pytest.approx(row['value'], abs=0.01 * row['sd'])
    offsets = [[list(of['offset'].values()) for of in all_['recordings'].values()]
               for all_ in (before, after)]  # fmt: skip
    np.testing.assert_allclose(np.subtract(*offsets[::-1]), [[0.0] * 3, drift], atol=1e-4)


def late(table):
    other = table[8:].copy()
    other[:, 4:] = table[:-8, 4:]
    return other


def turned(table):
    return table * np.where(np.arange(7) == 5, -1.0, 1.0)


def touched(table):
    other = table.copy()
    other[:, 5] += 16.0 * (np.arange(STEPS) % 700 < 200)
    return other


WRONG = {
    'sign': (turned, "b.csv: joint 'elbow': torques are -1"),
    'late': (late, 'b.csv: unsynchronised: torques lag the motion by 0.0'),
    'short': (lambda table: table[:80], 'too short: 80 samples'),
}


@pytest.mark.slow
@pytest.mark.parametrize('name', WRONG)
def test_the_wrong_recording_is_named(name, here, capsys):
    change, words = WRONG[name]
    assert identify(here, run(here, 0), change(run(here, 1)), run(here, 2)) == 2
    error = capsys.readouterr().err
    assert words in error and 'b.csv' in error and 'a.csv' not in error


@pytest.mark.slow
def test_misfit_is_reported_for_its_recording(here, capsys):
    assert identify(here, run(here, 0), touched(run(here, 1))) == 0
    result = found(capsys)
    assert 'b.csv: the model leaves more than noise: ' in result['notes']
    widened = {name: row['widened_by'] for name, row in result['recordings'].items()}
    assert widened['b.csv']['elbow'] > 10.0


def test_recordings_of_other_joints_are_named(here, capsys):
    tables = run(here, 0), run(here, 1)
    first = save(here / 'a.csv', tables[0])
    second = save(here / 'b.csv', tables[1][:, [0, 1, 2, 4, 5]], joints=JOINTS[:2])
    assert command(here, first, second) == 2
    error = capsys.readouterr().err
    assert 'b.csv: other joints than in a.csv: in one of them only: roll' in error


@pytest.mark.slow
def test_mixed_gravity_compensation_is_named(here, capsys):
    (here / 'arm.xml').write_text(text(held=1))
    first = save(here / 'a.csv', run(here, 0))
    second = save(here / 'b.csv', run(here, 1, gravity=False), 'command/m_{} [N m]')
    assert command(here, second) == 0
    capsys.readouterr()
    assert command(here, first, second) == 2
    assert 'torques of a.csv include gravity, those of b.csv do not' in capsys.readouterr().err


@pytest.mark.slow
def test_disagreement_of_recordings_is_reported(here, capsys):
    assert identify(here, run(here, 0), run(here, 1, mass=1.2)) == 0
    note = found(capsys)['notes']
    assert 'recordings do not agree' in note and 'was the same held in all' in note
    assert identify(here, run(here, 0, noise=0.05), run(here, 1, mass=3.0, noise=0.05)) == 0
    note = found(capsys)['notes']
    assert 'recordings do not agree' in note and 'as in the other recordings' in note


@pytest.mark.slow
def test_the_held_out_part_is_forecast_and_not_learned_from(here, capsys):
    """Another payload in the held-out part changes the forecast error only."""
    tables, folder = (run(here, 0), run(here, 1)), here / 'report'
    held = ['--held-out', '0.25']
    assert identify(here, *tables, words=[*held, '--report', str(folder)]) == 0
    result = found(capsys)
    assert (folder / 'held_out.png').stat().st_size > 5_000
    counts = [row['held_out'] for row in result['recordings'].values()]
    assert 80 < sum(counts) == 2 * counts[0] < 0.4 * STEPS
    for name, share in result['held_out_in_noise'].items():
        # standard error of an RMS of a hundred samples: 7 %; five of these
        assert share == pytest.approx(1.0, abs=0.35)
        assert result['held_out_error'][name] == pytest.approx(
            result['torque_left'][name], rel=0.5
        )
    other = run(here, 1, mass=2.0)
    end = STEPS - STEPS // 4
    swapped = np.concatenate([tables[1][:end], other[end:]])
    assert identify(here, tables[0], swapped, words=held) == 0
    wrong = found(capsys)
    for name, row in result['parameters'].items():  # unchanged, up to rounding
        assert wrong['parameters'][name]['value'] == pytest.approx(row['value'], rel=1e-6)
    assert min(wrong['held_out_in_noise'].values()) > 2.0


@pytest.mark.slow
def test_noisy_forecasts_cover_the_measurements(here):
    plant = Plant.from_file(here / 'arm.yaml')
    recording = read_recording([Path(save(here / 'a.csv', run(here, 3)))])
    seen = arm_recordings.read(plant, recording, held_out=0.5)
    learned = inference.identify_bodies(plant, seen, RigidBodyOptions())
    drawn = report.forecast(learned, report.draw(learned, 1.0, 500, 0))
    (future,) = report.futures(seen, drawn, 0)
    low, high = np.quantile(future.forecast, [0.05, 0.95], axis=0)
    inside = np.mean((low < future.measured) & (future.measured < high))
    # of about 300 numbers, standard error 2 %, with 500 samples of each; five of these
    assert inside == pytest.approx(0.9, abs=0.1)
    assert future.quantities[1] == ('elbow', 'N m')
    assert (
        3.0 - 1e-6 < future.time[-1] + seen.recordings[0].held_out.window_s / 2 + STEP * 14 < 3.1
    )


@pytest.mark.parametrize(
    ('share', 'words'), [('0.01', 's are held out, less than the window'), ('0.97', '90 samples')]
)
def test_parts_that_are_too_short_are_named(share, words, here, capsys):
    assert identify(here, run(here, 0), words=['--held-out', share]) == 2
    error = capsys.readouterr().err
    assert 'a.csv: ' in error and words in error
