"""`emppi identify --method rigid-body`: the payload of an arm, from its torques."""

import json

import arm_experiment
import mujoco
import numpy as np
import pytest
import yaml

from emppi_ros.cli import main
from emppi_ros.core.paths import ASSETS
from emppi_ros.identification.rigid_body import arm, composite_bodies

ARM = """
<mujoco><option timestep="0.01"/>
  <worldbody>
    <body name="base"><geom size="0.1" mass="5"/>
      <body name="upper" gravcomp="{held}">
        <joint name="shoulder" axis="0 0 1" damping="0.3" armature="{rotor}"
          frictionloss="{dry}"/>
        <inertial pos="0 0.02 0.1" mass="2" diaginertia="0.02 0.02 0.01"/>
        <body name="fore" pos="0 0 0.3" gravcomp="{held}">
          <joint name="elbow" axis="0 1 0" damping="0.2" armature="{rotor}" frictionloss="{dry}"/>
          <inertial pos="0.15 0 0" mass="1.5" diaginertia="0.003 0.02 0.02"/>
          <body name="wrist" pos="0.3 0 0" gravcomp="{held}">
            <joint name="roll" axis="1 0 1" damping="0.1" armature="{rotor}" frictionloss="{dry}"/>
            <inertial pos="0.05 0 0" mass="0.5" diaginertia="0.001 0.001 0.001"/>
            <body name="hand" pos="0.1 0 0" euler="0 30 0" gravcomp="{held}">
              <inertial pos="0 0 0.02" mass="0.7" diaginertia="0.002 0.002 0.001"/>
              <body name="payload" pos="0 0 0.1" euler="20 0 0" gravcomp="{held}">
                <inertial pos="0 0 0.02" mass="0.5" diaginertia="0.001 0.001 0.001"/>
              </body>
            </body>
          </body>
        </body>
      </body>
    </body>
    <body name="ball"><freejoint/><geom size="0.05"/></body>
  </worldbody>
  <actuator>
    {drives}
  </actuator>
</mujoco>
"""
JOINTS = 'shoulder', 'elbow', 'roll'
MOTORS = '\n'.join(f'<motor name="m_{j}" joint="{j}" gear="2"/>' for j in JOINTS)
SERVOS = '\n'.join(f'<velocity name="m_{j}" joint="{j}" kv="10"/>' for j in JOINTS)
MODEL = """scene: arm.xml
parameters:
  mass: {field: body_mass, of: payload, unit: kg, lower: 0.05, upper: 5.0}
  x: {field: body_ipos, of: payload, element: 0, unit: m, size: 0.05}
  y: {field: body_ipos, of: payload, element: 1, unit: m, size: 0.05}
  z: {field: body_ipos, of: payload, element: 2, unit: m, size: 0.05}
  friction: {field: dof_damping, of: elbow, unit: N m s/rad, lower: 0.0}
"""
DRY = '  dry: {field: dof_frictionloss, of: roll, unit: N m, lower: 0.0, size: 0.5}\n'
TRUTH = {'mass': 1.1, 'x': 0.03, 'y': -0.02, 'z': 0.06, 'friction': 0.25}
STEP, STEPS = 0.002, 3000
RATES = np.array([3.0, 4.3, 5.9])


def text(held=0, rotor=0.0, dry=0.0, drives=SERVOS):
    return ARM.format(held=held, rotor=rotor, dry=dry, drives=drives)


def true(xml):
    """Return the arm with the true payload."""
    spec = mujoco.MjSpec.from_string(xml)
    spec.delete(spec.body('ball'))
    body = spec.body('payload')
    body.mass, body.ipos, body.inertia = TRUTH['mass'], [TRUTH[k] for k in 'xyz'], 3 * [0.0022]
    spec.joint('elbow').damping[0] = TRUTH['friction']
    return spec


def done(xml, rng, speed=1.0):
    """Return positions and drive torques (2, 4 STEPS, 3) of the arm with the true payload."""
    model = true(xml).compile()
    model.opt.timestep = STEP / 4
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION.value
    rates, phase = speed * RATES, rng.uniform(0.0, 2.0 * np.pi, 3)
    turn = np.outer(model.opt.timestep * np.arange(4 * STEPS), rates) + phase
    wanted = [np.sin(turn), rates * np.cos(turn), -(rates**2) * np.sin(turn)]
    return arm_experiment.simulate(model, 0.8 * np.array(wanted))


def run(xml, seed, noise=(1e-4, 0.1), speed=1.0):
    """Return time, positions and torques with sensor noise."""
    rng = np.random.default_rng(seed)
    rows = np.swapaxes(done(xml, rng, speed)[:, ::4], 0, 1)
    rows = rows + np.array(noise)[:, None] * rng.standard_normal(rows.shape)
    return np.column_stack([STEP * np.arange(STEPS), rows[:, 0], rows[:, 1]])


def save(path, table, kind='effort/{} [N m]', positions=JOINTS):
    names = [f'position/{j} [rad]' for j in positions] + [kind.format(j) for j in JOINTS]
    header = ','.join(['time_s', *names])
    np.savetxt(path, table, delimiter=',', header=header, comments='', fmt='%.9g')
    return str(path)


@pytest.fixture(scope='module')
def table():
    """Return readings of sensors at the links."""
    return run(text(), 0)


@pytest.fixture
def here(tmp_path):
    """Return a folder with the arm and a model file."""
    (tmp_path / 'arm.xml').write_text(text())
    (tmp_path / 'arm.yaml').write_text(MODEL)
    return tmp_path


def identify(here, table, *words, **how):
    data = save(here / 'run.csv', table, **how)
    command = ['identify', '--method', 'rigid-body', '--model', str(here / 'arm.yaml')]
    return main([*command, '--data', data, *words])


def found(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def fits(result):
    for name, row in result['parameters'].items():
        assert row['knowledge'] in ('found', 'vague')
        # all 30 such numbers of this file are within five standard deviations, with 1 - 1 / 60 000
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])


@pytest.mark.slow
@pytest.mark.parametrize('seed', [0, 1, 2])
def test_the_payload_of_an_arm_is_identified(seed, here, capsys):
    assert identify(here, run(text(), seed), '--json') == 0
    result = found(capsys)
    fits(result)
    assert result['parameters']['mass']['sd'] < 0.02 * TRUTH['mass']
    # only noise is left; standard error of its RMS with 150 samples: 6 %; five of these
    assert all(1.0 <= x < 1.3 for x in result['left_in_noise'].values())
    _check_possible(result['bodies'])


def _check_possible(bodies):
    for row in bodies.values():
        body = composite_bodies.BodyInertial(*row.values())
        xx, yy, zz, xy, xz, yz = body.inertia
        moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        assert body.mass > 0.0 < moments[0] and moments[2] < moments[0] + moments[1]


@pytest.mark.slow
def test_dry_friction_and_sensor_offsets_are_identified_with_it(here, capsys):
    """Friction of 0.4 N m and offsets of 0.5, 1.0 and 1.5 N m are not in the scene."""
    table = run(text(dry=0.4), 7)
    table[:, 4:] += [0.5, 1.0, 1.5]
    (here / 'arm.yaml').write_text(MODEL + DRY)
    out, scene = here / 'prior.yaml', here / 'found.xml'
    assert identify(here, table, '--out', str(out), '--mjcf', str(scene), '--json') == 0
    result = found(capsys)
    dry = result['parameters'].pop('dry')
    fits(result)
    assert dry['knowledge'] == 'found' and dry['value'] == result['dry_friction']['roll']
    drawn = yaml.safe_load(out.read_text())['parameters']['dry']['values']
    # standard errors of 500 samples: 3 % of a standard deviation, 5 % of a mean; five of these
    assert np.std(drawn) == pytest.approx(3.0 * dry['sd'], rel=0.25)
    assert np.mean(drawn) == pytest.approx(dry['value'], abs=3.0 * 0.25 * dry['sd'])
    model = mujoco.MjModel.from_xml_path(str(scene))
    assert model.joint('roll').frictionloss[0] == pytest.approx(dry['value'], rel=1e-4)
    # MuJoCo's dry friction is viscous near rest, which loses this much of it
    np.testing.assert_allclose(list(result['dry_friction'].values()), 0.4, atol=0.05)
    # the weight on the elbow varies by a third, which alone separates it from the offset
    np.testing.assert_allclose(
        list(result['recordings']['run.csv']['offset'].values()), [0.5, 1.0, 1.5], atol=0.15
    )


@pytest.mark.slow
def test_motor_commands_are_torques_minus_those_of_the_rotors(here, capsys):
    xml = text(held=1, rotor=0.05, drives=MOTORS)
    (here / 'arm.xml').write_text(xml)
    table = run(xml, 3)
    table[:, 4:] /= 2.0  # gear
    assert identify(here, table, '--json', kind='command/m_{} [N m]') == 0
    fits(found(capsys))


@pytest.mark.slow
def test_an_arm_of_unknown_links_predicts_torques(here, table, capsys):
    out = here / 'found.xml'
    words = ['--links', 'unknown', '--mjcf', str(out), '--json']
    assert identify(here, table, *words) == 0
    result = found(capsys)
    assert list(result['bodies']) == ['upper', 'fore', 'payload']
    _check_possible(result['bodies'])
    # MJCF has six digits
    model = mujoco.MjModel.from_xml_path(str(out))
    for name, row in result['bodies'].items():
        assert model.body(name).mass[0] == pytest.approx(row['mass'], rel=1e-4)
        np.testing.assert_allclose(model.body(name).ipos, row['centre'], rtol=1e-4, atol=1e-5)
    for name, value in result['friction'].items():
        assert np.ravel(model.joint(name).damping)[0] == pytest.approx(value, rel=1e-4)
    # on other motions the torques are nearly those of the true arm
    spec = true(text())
    spec.compile()
    (here / 'true.xml').write_text(spec.to_xml())
    states = np.random.default_rng(4).uniform(-1.0, 1.0, (3, 50, 3))
    arms = [arm.load(here / name, joints=JOINTS) for name in ('found.xml', 'true.xml')]
    ours, theirs = (arm.motion_torques(model, states) for model in arms)
    # noise of 0.1 N m in 3000 samples, 27 excited parameters: 0.01 N m; four of these
    assert np.sqrt(np.mean((ours - theirs) ** 2)) < 0.04


@pytest.mark.slow
def test_a_prior_is_written_and_run(tmp_path, capsys):
    """The task is one of this package."""
    out, data = str(tmp_path / 'prior.yaml'), tmp_path / 'run.csv'
    scene = ASSETS / 'fr3_follow.xml'
    model = arm.load(scene, joints=['fr3_joint1'])
    time = 0.01 * np.arange(1000)
    rates = np.linspace(1.0, 2.5, 7)
    turn, home = np.outer(time, rates), np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.7])
    states = [
        home + 0.5 * np.sin(turn),
        0.5 * rates * np.cos(turn),
        -0.5 * rates**2 * np.sin(turn),
    ]
    rng = np.random.default_rng(5)
    torque = arm.motion_torques(model, np.array(states)) + 0.2 * rng.standard_normal((1000, 7))
    names = [f'fr3_joint{i}' for i in range(1, 8)]
    columns = [f'position/{n} [rad]' for n in names] + [f'effort/{n} [N m]' for n in names]
    seen = states[0] + 1e-4 * rng.standard_normal((1000, 7))
    header = ','.join(['time_s', *columns])
    np.savetxt(data, np.column_stack([time, seen, torque]), delimiter=',', header=header,
               comments='', fmt='%.9g')  # fmt: skip
    command = ['identify', '--method', 'rigid-body', '--task', 'fr3_follow', '--data', str(data)]
    assert main([*command, '--out', out, '--json']) == 0
    rows = found(capsys)['parameters']
    truth = {'payload_mass': 0.4, 'wrist_damping': 0.05}
    for name, row in rows.items():
        assert row['value'] == pytest.approx(truth[name], abs=5.0 * row['sd'])
    assert rows['payload_mass']['knowledge'] == 'found'
    assert main(['run', 'fr3_follow', '--prior', out, '--duration', '0.1', '--json']) == 0
    assert found(capsys)['prior'] == out
    assert main([*command, '--out', out]) == 2
    assert 'exists; give another name, or --overwrite' in capsys.readouterr().err


def changed(table, column, change):
    other = table.copy()
    other[:, column] = change(table[:, column])
    return other


def all_late(table, rows):
    other = table[rows:].copy()
    other[:, 4:] = table[:-rows, 4:]
    return other


def touch(torque):
    return torque + 5.0 * (np.arange(len(torque)) % 700 < 200)


def unlike(old, new):
    return lambda here: (here / 'arm.yaml').write_text(MODEL.replace(old, new))


def nothing(here):
    """Change nothing."""


MORE = '  friction:'
HAND = '  hand: {field: body_mass, of: hand, unit: kg, lower: 0.0}\n'
BALL = '  ball: {field: body_mass, of: ball, unit: kg, lower: 0.0}\n'
DELAY = '  delay: {field: command_delay, unit: s, initial: 0.01, lower: 0.0, upper: 0.1}\n'
SPRING = '  spring: {field: jnt_stiffness, of: elbow, unit: N m/rad, lower: 0.0, size: 1.0}\n'
WRONG = {
    'sign': (lambda t: changed(t, 5, np.negative), {}, nothing, 'check their sign'),
    'millinewtons': (lambda t: changed(t, 5, lambda x: 1e3 * x), {}, nothing, 'check units'),
    'all late': (lambda t: all_late(t, 20), {}, nothing, 'torques lag the motion by 0.0'),
    'still': (lambda t: changed(t, 2, np.zeros_like), {}, nothing, 'it never moves'),
    'no torque': (np.copy, {'kind': 'velocity/{} [rad/s]'}, nothing, 'record effort/shoulder'),
    'command': (np.copy, {'kind': 'command/m_{} [N m]'}, nothing, "servo 'm_shoulder' are"),
    'joint': (np.copy, {'positions': ('shoulder', 'elbo', 'roll')}, nothing, "mean 'elbow'"),
    'unit': (np.copy, {'kind': 'effort/{} [N]'}, nothing, "expected 'N m' for this"),
    'nan': (lambda t: changed(t, 5, lambda x: x * np.nan), {}, nothing, 'it has no values'),
    'short': (lambda t: t[:80], {}, nothing, 'too short: 80 samples'),
    'welded': (np.copy, {}, unlike(MORE, HAND + MORE), 'are welded together'),
    'another body': (np.copy, {}, unlike(MORE, BALL + MORE), "'ball' is not a part"),
    'field': (np.copy, {}, unlike(MORE, SPRING + MORE), 'jnt_stiffness cannot be identified by'),
    'delay': (np.copy, {}, unlike(MORE, DELAY + MORE), 'command_delay cannot be identified by'),
    'bounds': (np.copy, {}, unlike('upper: 5.0', 'upper: 0.6'), 'not within 0.05 and 0.6'),
}


@pytest.mark.slow
def test_a_given_lag_of_torques_is_corrected(here, table, capsys):
    late = all_late(table, 20)
    assert identify(here, late) == 2
    told = capsys.readouterr().err.split()
    lag = float(told[told.index('--lag') + 1])
    assert identify(here, late, '--lag', str(lag), '--json') == 0
    fits(found(capsys))


@pytest.mark.slow
@pytest.mark.parametrize('name', WRONG)
def test_wrong_recordings_are_named(name, here, table, capsys):
    change, how, edit, words = WRONG[name]
    edit(here)
    assert identify(here, change(table), '--out', str(here / 'prior.yaml'), **how) == 2
    assert words in capsys.readouterr().err
    assert not (here / 'prior.yaml').exists()


@pytest.mark.slow
def test_misfit_is_a_warning_and_widens_intervals(here, table, capsys):
    """Somebody touched the arm: pulses of 5 N m on the elbow."""
    assert identify(here, table, '--json') == 0
    before = found(capsys)
    assert identify(here, changed(table, 5, touch), '--json') == 0
    after = found(capsys)
    assert 'the model leaves more than noise: ' in after['notes'] and 'notes' not in before
    assert ' elbow ' in after['notes'] and 'that nothing was touched' in after['notes']
    assert after['recordings']['run.csv']['widened_by']['elbow'] > 10.0
    for name, row in after['parameters'].items():
        assert row['sd'] > before['parameters'][name]['sd']


@pytest.mark.slow
def test_residuals_that_explain_nothing_are_an_error(here, table, capsys):
    """Torques of another motion."""
    mixed = np.column_stack([table[:, :4], run(text(), 5, speed=1.7)[:, 4:]])
    assert identify(here, mixed) == 2
    assert 'the model does not match: it explains no torque' in capsys.readouterr().err


@pytest.mark.slow
def test_torques_of_servos_may_be_called_torque(here, table, capsys):
    """They are those of the drives: a servo's own torque is not known otherwise."""
    results = []
    for kind in ('effort/{} [N m]', 'torque/{} [N m]'):
        assert identify(here, table, '--json', kind=kind) == 0
        results.append(found(capsys)['parameters'])
    assert results[0] == results[1]


def test_clocks_must_overlap(here, table, capsys):
    later = table.copy()
    later[:, 0] += 5.9
    first, second = (save(here / n, t) for n, t in (('a.csv', table), ('b.csv', later)))
    command = ['identify', '--method', 'rigid-body', '--model', str(here / 'arm.yaml')]
    for path, kind in ((first, 'position'), (second, 'effort')):
        lines = [line.split(',') for line in (here / path).read_text().splitlines()]
        kept = [0, *(i for i, name in enumerate(lines[0]) if name.startswith(kind))]
        (here / path).write_text('\n'.join(','.join(row[i] for i in kept) for row in lines))
    assert main([*command, '--data', first, second]) == 2
    error = capsys.readouterr().err
    assert 'unsynchronised' in error and 'begins at 5.9 s' in error and 'on one clock' in error


CLOCKS = {
    'half a sample apart': lambda time, rng: time + 0.5 * STEP,
    'jitter': lambda time, rng: time + 0.05 * STEP * rng.standard_normal(len(time)),
    'another rate': lambda time, rng: 1.0005 * time,
}


@pytest.mark.slow
@pytest.mark.parametrize('name', CLOCKS)
def test_clocks_may_differ(name, here, capsys):
    """The noise is that of the samples, which interpolation would reduce."""
    rng = np.random.default_rng(0)
    fine, (position, torque) = STEP / 4 * np.arange(4 * STEPS), done(text(), rng)
    time = STEP * np.arange(1, STEPS - 20)
    moments = CLOCKS[name](time, rng)
    seen = np.stack([np.interp(moments, fine, column) for column in position.T], axis=1)
    torque = torque[4 : 4 * (STEPS - 20) : 4]
    for file, columns, measured, when in (
        ('a.csv', 'position/{} [rad]', 1e-4 * rng.standard_normal(seen.shape) + seen, moments),
        ('b.csv', 'effort/{} [N m]', 0.1 * rng.standard_normal(torque.shape) + torque, time),
    ):
        header = ','.join(['time_s', *map(columns.format, JOINTS)])
        rows = np.column_stack([when, measured])
        np.savetxt(here / file, rows, delimiter=',', header=header, comments='')
    command = ['identify', '--method', 'rigid-body', '--model', str(here / 'arm.yaml'), '--json']
    assert main([*command, '--data', str(here / 'a.csv'), str(here / 'b.csv')]) == 0
    result = found(capsys)
    fits(result)
    assert result['parameters']['mass']['sd'] < 0.02 * TRUTH['mass']


@pytest.mark.slow
def test_springs_of_the_scene_are_known(here, capsys):
    xml = text().replace('name="elbow"', 'name="elbow" stiffness="4" springref="30"')
    (here / 'arm.xml').write_text(xml)
    assert identify(here, run(xml, 3), '--json') == 0
    fits(found(capsys))


def test_a_constant_torque_is_named(here, table, capsys):
    table = table.copy()
    table[:, 5] = 0.0
    assert identify(here, table) == 2
    error = capsys.readouterr().err
    assert 'effort/elbow [N m]: never changes: does the driver measure torques?' in error


def test_partial_gravity_compensation_is_an_error(here, table, capsys):
    (here / 'arm.xml').write_text(text(held=0.5, drives=MOTORS))
    assert identify(here, table, kind='command/m_{} [N m]') == 2
    assert 'compensates gravity for some bodies only' in capsys.readouterr().err


@pytest.mark.slow
def test_a_scene_with_too_heavy_links_is_named(here, table, capsys):
    (here / 'arm.xml').write_text(text().replace('mass="0.7"', 'mass="3.7"'))
    assert identify(here, table) == 2
    error = capsys.readouterr().err
    assert "body 'payload': no mass is left for it" in error and 'wrist, hand' in error


@pytest.mark.slow
def test_an_unexciting_motion_is_named(here, capsys):
    """It is slow, with large noise, so that only the centre of mass has an effect."""
    said = MODEL[: MODEL.index('  mass')] + (
        '  inertia: {field: body_inertia, of: payload, unit: kg m^2, lower: 0.0}\n'
    )
    (here / 'arm.yaml').write_text(said)
    assert identify(here, run(text(), 6, (1e-3, 2.0), 0.1)) == 2
    error = capsys.readouterr().err
    assert 'unexciting: this motion does not excite inertia: record a motion that moves' in error


@pytest.mark.slow
def test_the_posterior_is_drawn(here, table, capsys):
    assert identify(here, table, '--report', str(here / 'report'), '--json') == 0
    assert found(capsys)['report'] == str(here / 'report')
    assert [path.name for path in (here / 'report').iterdir()] == ['posterior.png']
