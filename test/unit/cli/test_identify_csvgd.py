"""`emppi identify --method csvgd`, and its reference `sysid`: a posterior as a prior."""

from dataclasses import replace
import json

import csvgd_systems
import mujoco
import numpy as np
import pytest
from scipy.optimize import least_squares
import yaml

from benchmarks.identify import pendulums
from emppi_ros.cli import main
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification import sysid
from emppi_ros.identification.common import checkpoint
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.csvgd import csvgd
from emppi_ros.identification.csvgd.csvgd import CsvgdConfig
from emppi_ros.identification.csvgd.method import STIFFNESS
from emppi_ros.identification.multiple_shooting import (
    particle_summary,
    training_data,
    window_search,
)
from emppi_ros.recordings.recordings import read_recording
from emppi_ros.tasks.task import load_task

XML = """
<mujoco><option timestep="0.01"/>
  <worldbody><body name="link" pos="0 0 1">
    <joint name="pivot" type="hinge" axis="0 1 0" damping="0.2"/>
    <inertial pos="0 0 -0.5" mass="1.3" diaginertia="0.1 0.1 0.1"/>
  </body></worldbody>
  <actuator><motor name="motor" joint="pivot"/></actuator>
</mujoco>
"""
MODEL = """scene: pendulum.xml
parameters:
  mass: {field: body_mass, of: link, unit: kg, initial: 1.0, lower: 0.5, upper: 3.0}
  friction: {field: dof_damping, of: pivot, unit: N m s/rad, lower: 0.0, upper: 1.0}
"""
HEIGHT = '  height: {field: body_pos, of: link, element: 2, unit: m, lower: 0.5, upper: 1.5}\n'
TRUTH = {'mass': 1.3, 'friction': 0.2}
NOISE = 1e-3
EFFORT = ['--particles', '12', '--iterations', '30']
ALL = ['--threads', '1', '--json']


def swing(folder, name, angle, torque=1.0, steps=300):
    """Write the motion of a pendulum from an angle, and return the file."""
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    data.qpos[0], rows = angle, []
    rng = np.random.default_rng([len(name), steps])
    for k in range(steps):
        data.ctrl[0] = 2.0 * np.sin(0.05 * k)
        seen = data.qpos[0] + NOISE * rng.standard_normal()
        rows.append([0.01 * k, seen, torque * data.ctrl[0]])
        mujoco.mj_step(model, data)
    header = 'time_s,position/pivot [rad],command/motor [N m]'
    np.savetxt(folder / name, rows, delimiter=',', header=header, comments='')
    return str(folder / name)


@pytest.fixture
def here(tmp_path):
    """Return a folder with a model and a recording."""
    (tmp_path / 'pendulum.xml').write_text(XML)
    (tmp_path / 'pendulum.yaml').write_text(MODEL)
    swing(tmp_path, 'run.csv', 1.0)
    return tmp_path


def identify(here, *words, data=('run.csv',)):
    command = ['identify', '--model', str(here / 'pendulum.yaml')]
    for name in data:
        command += ['--data', str(here / name)]
    method = words[words.index('--method') + 1] if '--method' in words else 'csvgd'
    effort = ['--method', 'csvgd', *EFFORT] if method == 'csvgd' else []
    return main([*command, *effort, *words, *ALL])


def result(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.slow
def test_the_posterior_agrees_with_the_method_states(here, capsys):
    assert identify(here) == 0
    ours = result(capsys)
    data = str(here / 'run.csv')
    model = str(here / 'pendulum.yaml')
    assert main(['identify', '--model', model, '--data', data, '--json']) == 0
    theirs = result(capsys)['parameters']
    for name, row in ours['parameters'].items():
        assert row['knowledge'] == 'found'
        # the spread of twelve particles is known to about a third; four standard deviations
        assert row['value'] == pytest.approx(TRUTH[name], abs=4.0 * 1.3 * row['sd'])
        both = np.hypot(row['sd'], theirs[name]['sd'])
        assert row['value'] == pytest.approx(theirs[name]['value'], abs=4.0 * 1.3 * both)
    # standard error of the RMS of 240 residuals: 1 / sqrt(480); five of these
    assert ours['residual_in_noise']['position/pivot'] == pytest.approx(1.0, abs=0.23)
    assert ours['noise']['position/pivot'] == pytest.approx(NOISE, rel=0.23)
    # a forecast differs from the measurements by little more than their noise
    assert ours['held_out_error']['position/pivot'] < 2.0 * NOISE


@pytest.mark.slow
def test_residuals_above_the_noise_are_reported_with_advice(here, capsys, monkeypatch):
    assert identify(here, '--noise', f'position/pivot={0.1 * NOISE}') == 0
    narrow = result(capsys)
    assert narrow['notes'].startswith('the model leaves more than the noise')
    given = narrow['notes'].partition('--noise ')[2]
    # standard error of the RMS of 240 residuals: 1 / sqrt(480); five of these
    assert float(given.partition('=')[2]) == pytest.approx(NOISE, rel=0.23)
    assert identify(here, '--noise', given) == 0
    assert 'notes' not in result(capsys)

    def lost(*given):
        whole = examine(*given)
        return whole._replace(theta=whole.theta[:1], stranded=23)

    examine = particle_summary.select_converged
    monkeypatch.setattr(particle_summary, 'select_converged', lost)
    assert identify(here) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert 'only 1 of 24 particles' in told and told.endswith('best: give more iterations')


@pytest.mark.slow
def test_an_interrupted_run_resumes_bit_for_bit(here, capsys, monkeypatch):
    whole, parts = here / 'whole.yaml', here / 'parts.yaml'
    assert identify(here, '--out', str(whole)) == 0
    infer = csvgd.infer

    def interrupted(problem, settings, threads, watch, *more):
        def until(state, log_p):
            watch(state, log_p)
            if state.iteration == 11:
                raise KeyboardInterrupt

        return infer(problem, settings, threads, until, *more)

    monkeypatch.setattr(csvgd, 'infer', interrupted)
    assert identify(here, '--out', str(parts)) == 130
    monkeypatch.undo()
    kept = checkpoint.path_beside(parts).read_bytes()
    assert not parts.exists()
    capsys.readouterr()
    assert identify(here, '--out', str(parts), '--window', '0.6') == 2
    assert 'another window_s: 0.5, now 0.6: resume with the same, or' in capsys.readouterr().err
    assert identify(here, '--out', str(parts), '--seed', '1') == 2
    assert 'another seed: 0, now 1' in capsys.readouterr().err
    swing(here, 'other.csv', 1.1)
    assert identify(here, '--out', str(parts), data=['other.csv']) == 2
    assert 'another data' in capsys.readouterr().err
    assert checkpoint.path_beside(parts).read_bytes() == kept
    assert identify(here, '--out', str(parts)) == 0
    assert parts.read_text() == whole.read_text()
    assert not checkpoint.path_beside(parts).exists()
    checkpoint.path_beside(parts).write_bytes(b'no archive')
    parts.unlink()
    assert identify(here, '--out', str(parts)) == 2
    assert 'start again with --overwrite' in capsys.readouterr().err
    assert identify(here, '--out', str(parts), '--overwrite') == 0
    assert parts.read_text() == whole.read_text()


@pytest.mark.slow
def test_unexcited_parameters_are_left_out_of_the_prior(here, capsys):
    (here / 'pendulum.yaml').write_text(MODEL + HEIGHT)
    assert identify(here, '--out', str(here / 'prior.yaml')) == 0
    summary = result(capsys)
    assert summary['parameters']['height']['knowledge'] == 'unexcited'
    assert summary['unexcited_directions'] in (['+1.00 height'], ['-1.00 height'])
    prior = yaml.safe_load((here / 'prior.yaml').read_text())
    assert list(prior['parameters']) == ['mass', 'friction'] and prior['method'] == 'csvgd'
    assert prior['sources'][0]['name'] == 'run.csv' and prior['settings']['windows'] == 4


@pytest.mark.slow
def test_several_recordings_of_one_system_reduce_the_uncertainty(here, capsys):
    swing(here, 'second.csv', -0.5, steps=420)
    assert identify(here) == 0
    one = result(capsys)['parameters']
    assert identify(here, data=['run.csv', 'second.csv']) == 0
    two = result(capsys)
    assert two['windows'] == 4 + 6  # of 240 and of 335 steps
    for name, row in two['parameters'].items():
        assert row['value'] == pytest.approx(TRUTH[name], abs=4.0 * 1.3 * row['sd'])
        assert row['sd'] < one[name]['sd']


FREE = '<body name="ball" pos="2 0 1"><freejoint name="loose"/><geom size="0.1"/></body>'
WRONG = {
    'sign': ((), lambda here: swing(here, 'run.csv', 1.0, -1.0), 'the model does not match'),
    'limit': ((), lambda here: edit(here, 'upper: 3.0', 'size: 1'), 'mass: found limits [0.5, in'),
    'free': ((), lambda here: edit(here, '<actuator>', f'<worldbody>{FREE}</worldbody><actuator>',
             'pendulum.xml'), "joint 'loose' is neither hinge nor slide"),
    'window': (('--window', '3'), None, 'run.csv: shorter than one window of 3 s, with 20%'),
    'held out': (('--held-out', '1'), None, '--held-out: found 1, expected a number from 0 to'),
    'noise': (('--noise', 'position/pivo=1'), None, "unknown measurement 'position/pivo' (did"),
    'no noise': (('--noise', 'position/pivot=0'), None, 'found 0, expected more than 0'),
    'no number': (('--noise', 'position/pivot'), None, 'such as position/hinge=0.001'),
}  # fmt: skip


def edit(here, old, new, name='pendulum.yaml'):
    text = (here / name).read_text()
    (here / name).write_text(text.replace(old, new))


@pytest.mark.slow
@pytest.mark.parametrize('name', WRONG)
def test_wrong_input_is_named(name, here, capsys):
    words, change, said = WRONG[name]
    if change is not None:
        change(here)
    assert identify(here, *words) == 2
    assert said in capsys.readouterr().err


def learned_in(here, window):
    plant = Plant.from_file(here / 'pendulum.yaml')
    recording = read_recording([here / 'run.csv'])
    return plant, training_data.prepare(plant, [recording], window, 0.2, {'position/pivot': NOISE})


@pytest.mark.slow
def test_sysid_is_single_shooting_least_squares_for_any_windows(here):
    plant, one = learned_in(here, 2.0)
    several = learned_in(here, 0.5)[1]
    assert (one.windows, several.windows) == (1, 4)
    problem = one.problem

    def residuals(x):
        theta, start = x[None, :2], x[2:]
        states = csvgd_systems.rollout(
            plant.model, problem.parameters, theta, start, problem.controls
        )
        return (states[0, :, 0] - problem.references[:, 0]) / NOISE

    begin = np.concatenate([plant.initial, problem.start[0]])
    theirs = least_squares(residuals, begin, x_scale=[1.0, 0.1, 0.1, 0.1], xtol=1e-12)
    squares = 2.0 * theirs.cost / (len(theirs.fun) - 4)
    sd = np.sqrt(squares * np.diag(np.linalg.inv(theirs.jac.T @ theirs.jac)))[:2]
    for learned in (one, several):
        found = window_search.estimate(learned, plant.initial, lambda *_: None, 1)
        value, ours = sysid.in_units(learned, found)
        # forward differences, and three (or fifteen) fewer degrees of freedom
        np.testing.assert_allclose(value, theirs.x[:2], atol=0.01 * sd.min())
        np.testing.assert_allclose(ours, sd, rtol=0.05)


def test_forecasts_that_begin_anew_use_commands_and_samples_of_their_time(here):
    plant, learned = learned_in(here, 0.5)
    theta = np.tile([TRUTH[unknown.name] for unknown in plant.unknowns], (30, 1))
    errors = np.array([[NOISE, np.nan]])
    (found,) = particle_summary.forecast_pieces(plant, learned, theta, errors, seed=0, threads=1)
    assert found.measured.shape == (50, 1)  # the half second that fits into the held-out part
    away = np.median(found.forecast, axis=0) - found.measured
    # with commands one step late or early it would be ten times as much
    assert np.sqrt(np.mean(away**2)) < 2.0 * NOISE


@pytest.mark.slow
def test_sysid_leaves_windows_independent_if_the_model_does_not_explain_longer_ones(here):
    plant, learned = learned_in(here, 0.5)
    problem, count = learned.problem, learned.windows
    order = np.arange(len(problem.controls)).reshape(count, -1)[[0, 2, 1, 3]].ravel()
    mixed = replace(
        problem, controls=problem.controls[order], references=problem.references[order]
    )
    found = window_search.estimate(
        replace(learned, problem=mixed), plant.initial, lambda *_: None, 1
    )
    assert found.windows == count and found.worse > 2.0
    assert 'independent windows of 0.5 s' in found.note(learned)
    value, sd = sysid.in_units(learned, found)
    truth = [TRUTH[unknown.name] for unknown in plant.unknowns]
    np.testing.assert_array_less(np.abs(value - truth), 5.0 * sd)
    whole = window_search.estimate(learned, plant.initial, lambda *_: None, 1)
    assert whole.worse is None and not whole.note(learned)


@pytest.mark.slow
def test_sysid_writes_a_prior_with_its_standard_deviations(here, capsys):
    out = here / 'prior.yaml'
    assert identify(here, '--method', 'sysid', '--out', str(out)) == 0
    summary, prior = result(capsys), yaml.safe_load(out.read_text())
    assert prior['method'] == 'sysid' and summary['out'] == str(out)
    for name, row in summary['parameters'].items():
        assert row['value'] == pytest.approx(TRUTH[name], abs=4.0 * row['sd'])
        values = prior['parameters'][name]['values']
        # standard error of 500 samples: 3 %; five of these; --spread is 3
        assert np.std(values) == pytest.approx(3.0 * row['sd'], rel=0.16)
    (here / 'pendulum.yaml').write_text(MODEL + HEIGHT)
    assert identify(here, '--method', 'sysid', '--out', str(out), '--overwrite') == 0
    assert result(capsys)['parameters']['height']['knowledge'] == 'unexcited'
    assert list(yaml.safe_load(out.read_text())['parameters']) == ['mass', 'friction']
    swing(here, 'run.csv', 1.0, -1.0)
    assert identify(here, '--method', 'sysid') == 2
    assert 'the model does not match' in capsys.readouterr().err


@pytest.mark.slow
def test_a_posterior_of_a_task_is_a_prior_to_run_from(tmp_path, capsys):
    plant = Plant.from_task(load_task('cartpole_swingup'))

    def drive(data):
        return [6.0 * np.sin(3.1 * data.time) - 8.0 * data.qpos[0] - 2.0 * data.qvel[0]]

    qpos, ctrl = pendulums.simulate(plant, np.array([0.31, 0.022]), [0.0, np.pi], 200, drive)
    noise = 3e-4 * np.random.default_rng(0).standard_normal(qpos.shape)
    table = np.column_stack([0.01 * np.arange(200), qpos + noise, ctrl])
    header = 'time_s,position/slider [m],position/hinge [rad],command/slider [N]'
    data, out = str(tmp_path / 'run.csv'), str(tmp_path / 'prior.yaml')
    np.savetxt(data, table, delimiter=',', header=header, comments='')
    words = ['--method', 'csvgd', '--particles', '8', '--iterations', '25', '--threads', '1']
    command = ['identify', '--task', 'cartpole_swingup', '--data', data, '--out', out]
    assert main([*command, *words, '--json']) == 0
    capsys.readouterr()
    assert main(['run', 'cartpole_swingup', '--prior', out, '--duration', '0.2', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['prior'] == out


@pytest.mark.slow
@pytest.mark.parametrize('method', ['states', 'csvgd', 'sysid'])
def test_the_estimate_is_written_as_mjcf(method, here, capsys):
    (here / 'pendulum.yaml').write_text(MODEL + HEIGHT)
    out = here / 'found.xml'
    assert identify(here, '--method', method, '--mjcf', str(out)) == 0
    rows = result(capsys)['parameters']
    model = mujoco.MjModel.from_xml_path(str(out))
    # MJCF has six digits
    assert model.body('link').mass[0] == pytest.approx(rows['mass']['value'], rel=1e-5)
    assert model.dof_damping[0] == pytest.approx(rows['friction']['value'], rel=1e-5)
    assert rows['height']['knowledge'] == 'unexcited'
    assert model.body('link').pos[2] == 1.0  # as in the scene
    before = out.read_text()
    assert identify(here, '--method', method, '--mjcf', str(out)) == 2
    assert 'found.xml: exists; give another name, or --overwrite' in capsys.readouterr().err
    assert out.read_text() == before


@pytest.mark.slow
def test_a_report_has_its_figures_and_is_not_overwritten(here, capsys):
    folder = here / 'report'
    swing(here, 'second.csv', -0.5)
    words = ['--report', str(folder), '--iterations', '25']
    assert identify(here, *words, data=['run.csv', 'second.csv']) == 0
    assert result(capsys)['report'] == str(folder)
    for name in ('posterior', 'convergence', 'held_out'):
        assert (folder / f'{name}.png').stat().st_size > 5_000
    assert identify(here, *words) == 2
    assert 'report: exists; give another name, or --overwrite' in capsys.readouterr().err


@pytest.mark.parametrize('method', ['states', pytest.param('sysid', marks=pytest.mark.slow)])
def test_other_methods_write_reports_too(method, here, capsys):
    folder = here / 'report'
    words = ['--method', method, '--report', str(folder), '--held-out', '0.2']
    assert identify(here, *words) == 0
    summary = result(capsys)
    (error,) = summary['held_out_error'].values()
    assert error == pytest.approx(
        NOISE, rel=0.5
    )  # standard error of 60 numbers: 9 %; five of these
    for name in ('posterior', 'convergence', 'held_out'):
        assert (folder / f'{name}.png').stat().st_size > 5_000
    assert identify(here, *words[:-1], '0', '--overwrite') == 0
    later = result(capsys).get('held_out_error')  # of the rest after whole windows
    assert (folder / 'held_out.png').exists() == bool(
        later
    )  # no figure of the previous run is left


@pytest.mark.slow
@pytest.mark.parametrize('method', ['csvgd', 'sysid'])
def test_nothing_needs_to_be_held_out(method, here, capsys):
    swing(here, 'run.csv', 1.0, steps=301)  # exactly six windows
    out = str(here / 'prior.yaml')
    assert identify(here, '--method', method, '--held-out', '0', '--out', out) == 0
    summary = result(capsys)
    assert summary['held_out_error'] == {} and summary['windows'] == 6


@pytest.fixture
def two(here):
    """Return a plant, two recordings of it, and their posterior."""
    swing(here, 'second.csv', -0.5)
    plant = Plant.from_file(here / 'pendulum.yaml')
    recordings = [read_recording([here / name]) for name in ('run.csv', 'second.csv')]
    learned = training_data.prepare(plant, recordings, 0.5, 0.2, {})
    settings = CsvgdConfig(12, 30, learned.windows, stiffness=STIFFNESS)
    return plant, learned, csvgd.infer(learned.problem, settings, 1)


@pytest.mark.slow
def test_a_particle_of_one_system_explains_all_of_its_recordings(two):
    _, learned, posterior = two
    before = particle_summary.select_converged(learned, posterior.z, 1)
    z = posterior.z.copy()
    z[:4, -2 * learned.windows // 2 :] += 0.5  # start states of the second recording
    found = particle_summary.select_converged(learned, z, 1)
    assert found.stranded >= 4 and len(found.theta) <= len(before.theta)


@pytest.mark.slow
def test_a_joint_that_hardly_moves_may_deviate_by_its_noise(two):
    plant, learned, posterior = two
    found = particle_summary.select_converged(learned, posterior.z, 1)
    still = replace(learned.problem, references=1e-3 * learned.problem.references)
    particle_summary.check(plant, replace(learned, problem=still), found)
    with pytest.raises(IdentificationError, match='no particle comes closer than'):
        far = found._replace(residual_rms=2.0 * found.residual_rms)
        particle_summary.check(plant, replace(learned, problem=still), far)


@pytest.mark.parametrize(
    ('words', 'error'),
    [
        (['--noise', 'velocity/pivot=0.1'], '--noise velocity/pivot: was not measured in every'),
        (
            ['--method', 'sysid', '--iterations', '9'],
            '--method sysid does not take it: leave',
        ),
        (['--particles', '4'], '--particles: found 4, expected 5 or more: fewer do not'),
        (
            ['--particles', '20000', '--out', 'p.yaml'],
            'what a prior file of 2 parameters can hold',
        ),
        (['--report', 'run.csv/deep'], 'run.csv is not a folder'),
        (['--report', 'run.csv', '--overwrite'], '--report run.csv: cannot be created'),
    ],
)
def test_wrong_options_are_named_before_any_work(words, error, here, capsys, monkeypatch):
    monkeypatch.chdir(here)
    assert identify(here, *words) == 2
    assert error in capsys.readouterr().err


@pytest.mark.slow
def test_an_empty_checkpoint_is_named(here, capsys):
    (here / 'prior.state.npz').write_bytes(b'')
    out = ['--out', str(here / 'prior.yaml')]
    assert identify(here, *out) == 2
    assert 'not a readable checkpoint' in capsys.readouterr().err
    assert identify(here, *out, '--overwrite') == 0


def test_rounding_costs_no_window(here):
    plant = Plant.from_file(here / 'pendulum.yaml')
    swing(here, 'long.csv', 1.0, steps=1001)
    recordings = [read_recording([here / 'long.csv'])]
    # (1 - 0.8) of 1000 steps are 199.99999999999997
    assert training_data.prepare(plant, recordings, 2.0, 0.8, {}).windows == 1
