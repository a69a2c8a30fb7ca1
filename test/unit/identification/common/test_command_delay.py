"""A delay of commands among the unknowns: every method that simulates or predicts finds it."""

import copy
import json

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import yaml

from benchmarks.identify import pendulums
from emppi_ros.cli import main
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.filter import likelihood
from emppi_ros.identification.filter.likelihood import RecordingLikelihood
from emppi_ros.recordings.motion import delay_rows
from emppi_ros.recordings.recordings import delay_inputs, read_recording
from emppi_ros.tasks.task import load_task

TRUTH = {'pole_mass': 0.31, 'pole_inertia': 0.022, 'delay': 0.014}
STEP_S = 0.01
ROWS = np.random.default_rng(0).standard_normal((12, 2))


@given(st.integers(0, 20))
def test_a_delay_of_whole_steps_shifts_the_rows_of_each_recording(steps):
    found = delay_rows(ROWS, [0, 5], steps)
    for part in (ROWS[:5], ROWS[5:]):
        expected = part[np.maximum(np.arange(len(part)) - steps, 0)]
        own = found[:5] if len(part) == 5 else found[5:]
        assert np.array_equal(own, expected)


@given(st.floats(0.0, 20.0), st.floats(0.0, 0.5))
def test_delayed_rows_are_continuous_in_the_delay(steps, change):
    one, other = delay_rows(ROWS, [0, 5], np.array([steps, steps + change]))
    # neighbours differ by at most the range; a rounding of numbers below 4
    assert np.all(np.abs(other - one) <= change * np.ptp(ROWS, axis=0) + 1e-14)


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """Return 6 s of a cart-pole whose commands act 14 ms after their record, and its task."""
    folder = tmp_path_factory.mktemp('delay')
    data = copy.deepcopy(dict(load_task('cartpole_swingup').data))
    data['parameters']['delay'] = {
        'field': 'command_delay', 'lower': 0.0, 'upper': 0.05, 'unit': 's',
        'prior': {'distribution': 'uniform', 'lower': 0.0, 'upper': 0.04},
    }  # fmt: skip
    data['simulation']['truth']['delay'] = {'distribution': 'fixed', 'value': TRUTH['delay']}
    task = folder / 'cartpole.yaml'
    task.write_text(yaml.safe_dump(data, sort_keys=False))
    plant = Plant.from_task(load_task('cartpole_swingup'))
    time = STEP_S * np.arange(600)

    def push(at):
        # of the last step that began before
        held = STEP_S * np.floor(at / STEP_S + 1e-9)
        return 4.0 * np.sin(3.1 * held) + 5.0 * np.sin(8.3 * held) * (held >= 0.0)

    late = TRUTH['delay'] / STEP_S
    share = late - np.floor(late)

    def drive(state):
        begin = state.time - STEP_S * np.floor(late)
        return [(1.0 - share) * push(begin) + share * push(begin - STEP_S)]

    theta = np.array([TRUTH['pole_mass'], TRUTH['pole_inertia']])
    qpos, _ = pendulums.simulate(plant, theta, [0.0, np.pi], 600, drive)
    noise = np.random.default_rng(0).standard_normal((2, *qpos.shape))
    velocity = np.gradient(qpos, time, axis=0) + 3e-3 * noise[1]
    columns = [time, qpos + 1e-4 * noise[0], velocity, push(time)]
    header = (
        'time_s,position/slider [m],position/hinge [rad],velocity/slider [m/s],'
        'velocity/hinge [rad/s],command/slider [N]'
    )
    table = folder / 'run.csv'
    np.savetxt(table, np.column_stack(columns), delimiter=',', header=header, comments='')
    return table, task


@pytest.mark.slow
@pytest.mark.parametrize('method', ['states', 'sysid'])
def test_the_delay_is_estimated_beside_masses(files, method, capsys, tmp_path):
    table, task = map(str, files)
    mjcf = tmp_path / 'scene.xml'
    words = ['--task', task, '--method', method, '--step', str(STEP_S), '--mjcf', str(mjcf)]
    assert main(['identify', '--data', table, *words, '--held-out', '0.2', '--json']) == 0
    found = json.loads(capsys.readouterr().out)
    values = {name: row['value'] for name, row in found['parameters'].items()}
    # the recording has the steps of the model, so that only noise is left: a percent
    for name, truth in TRUTH.items():
        assert values[name] == pytest.approx(truth, rel=0.02)
    assert 'command_lag_s' not in found  # it is a parameter
    assert 'without the command_delay, which has no place in an MJCF file' in found['notes']


def test_the_likelihood_of_a_delay_is_that_of_later_commands(files):
    table, file = files
    task, recording = load_task(str(file)), read_recording([table])
    theta = np.array([list(TRUTH.values()), [*list(TRUTH.values())[:2], 0.0]])
    data = likelihood.build(task, recording)
    late = likelihood.build(task, delay_inputs(recording, TRUTH['delay'])).commands
    found, same = (
        RecordingLikelihood(task, [data._replace(commands=commands)], 2, threads=1)
        .log_likelihood(theta)
        for commands in (data.commands, late)
    )  # fmt: skip
    # averages over 6 s of commands round to 1e-13, and the sum has thousands of terms
    assert found[0] == pytest.approx(same[1], abs=1e-5)
    assert abs(found[0] - found[1]) > 100.0  # the delay matters
