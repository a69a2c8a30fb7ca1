"""`emppi excite` writes a feasible trajectory that identifies a payload."""

import json

import numpy as np
import pytest

from emppi_ros.app.synthetic_recording import write_recording
from emppi_ros.app.trace import Trace
from emppi_ros.cli import main
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body import excitation
from emppi_ros.identification.rigid_body.excitation import ClearanceChecker, MotionLimits
from emppi_ros.recordings.recordings import read_recording
from emppi_ros.robots.robot import load_robot
from emppi_ros.sim.simulated_robot import SimulatedRobot
from emppi_ros.tasks.task import load_task, task_text

TRUTH = {'payload_mass': 0.75, 'wrist_damping': 0.3}


@pytest.fixture(scope='module')
def written(tmp_path_factory):
    """Return a motion of the FR3, and the words that make it."""
    path = tmp_path_factory.mktemp('motion') / 'motion.csv'
    words = ['excite', 'fr3_follow', '--out', str(path), '--trials', '20', '--rate', '1000']
    words += ['--period', '5']  # half of the usual: less to simulate and to identify
    assert main([*words, '--json']) == 0
    return path, words


def _columns(path):
    signals = read_recording([path]).signals
    names = load_robot('fr3').commanded
    time = signals['position', names[0]].time
    return time, *(
        np.stack([signals[kind, name].values for name in names], axis=1)
        for kind in ('position', 'velocity')
    )


@pytest.mark.slow
def test_a_motion_begins_and_ends_at_rest_and_keeps_limits(written):
    time, position, velocity = _columns(written[0])
    robot = load_robot('fr3')
    limits, share = robot.limits, robot.dynamics_factor
    for end in (0, -1):
        np.testing.assert_allclose(position[end], robot.home, atol=1e-12)  # rounding
        np.testing.assert_allclose(velocity[end], 0.0, atol=1e-12)
    assert np.all(position >= limits.position.lower) and np.all(position <= limits.position.upper)
    assert np.all(np.abs(velocity) <= share * np.array(limits.velocity))
    # differences are means of derivatives between samples, and no larger than the largest of them
    speed, push = (np.diff(rows, axis=0) / np.diff(time)[:, None] for rows in (position, velocity))
    assert np.all(np.abs(push) <= share * np.array(limits.acceleration) + 1e-9)
    np.testing.assert_allclose(speed, 0.5 * (velocity[1:] + velocity[:-1]), atol=1e-4)  # h^2 jerk


def test_nothing_comes_near_and_a_fist_through_the_floor_is_seen(written):
    task = load_task('fr3_follow')
    home = np.array(task.robot.home)
    checker = ClearanceChecker(
        task.scene_file.path, task.scene_file.root, task.robot.commanded, home, 0.02
    )
    _, position, _ = _columns(written[0])
    assert checker.first_violation(position[::10]) is None
    low = home.copy()
    low[1], low[3] = 1.5, -1.0
    assert 'world' in checker.first_violation(low[None])


def test_furniture_that_opens_is_in_the_way(rng):
    task = load_task('panda_drawer')
    robot = task.robot
    checker = ClearanceChecker(
        task.scene_file.path, task.scene_file.root, robot.commanded, np.array(robot.home), 0.02
    )
    limits = robot.limits.position
    anywhere = rng.uniform(limits.lower, limits.upper, (300, 7))
    met = {name for row in anywhere for name in checker.first_violation(row[None]) or ()}
    assert 'handle' in task.jointed and 'handle' in met


def test_velocities_are_the_derivatives_of_positions(rng):
    limits = MotionLimits(*np.outer([-1.0, 1.0, 1.3, 4.0], np.ones(3)))
    motion = excitation.random_motion(excitation.motion_limits(limits), 5.0, rng)
    one = excitation.plan_trajectory(rng.uniform(-1.0, 1.0, 3), motion, 2, limits)
    time = np.linspace(0.0, one.duration_s, 20_001)
    states = excitation.sample_trajectory(one, time)
    assert np.all(np.abs(states[0]) <= 1.0) and np.all(np.abs(states[1]) <= 1.3)
    assert np.all(np.abs(states[2]) <= 4.0)
    h = time[1]
    between = (states[:2, 2:] - states[:2, :-2]) / (2.0 * h)
    # errors of central differences: h^2 / 6 of a third derivative, below 100 where jerk jumps not
    np.testing.assert_allclose(between, states[1:, 1:-1], atol=0.02)


def done(folder, motion, seed):
    """Return a task with fast sensors, and a recording of a robot that does a motion."""
    task = folder / 'fast.yaml'
    quick = 'simulation:\n  joint_state_rate_hz: 1000.0'
    task.write_text(task_text('fr3_follow').replace('simulation:', quick, 1))
    loaded = load_task(str(task))
    robot = SimulatedRobot(loaded, np.array([TRUTH[p.name] for p in loaded.parameters]), seed)
    trace = Trace([(0.0, robot.truth)])
    for place, speed in zip(*_columns(motion)[1:], strict=True):
        trace.readings.append(robot.read_joints())
        command = speed + 10.0 * (place - robot.commanded_position)
        trace.commands.append((robot.time, command))
        robot.command(command)
        robot.step()
    data = folder / f'run{seed}.csv'
    write_recording(data, loaded, trace, seed)
    return str(task), str(data)


def identified(capsys, task, *data):
    words = ['identify', '--method', 'rigid-body', '--task', task, '--json']
    assert main([*words, *(word for path in data for word in ('--data', path))]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])['parameters']
    for name, row in rows.items():
        # one in a million is five standard deviations off
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])
        assert row['knowledge'] == 'found'
    return rows


@pytest.mark.slow
def test_a_payload_is_identified_and_better_with_two_recordings(written, tmp_path, capsys):
    task, first = done(tmp_path, written[0], 0)
    motion = tmp_path / 'other.csv'
    words = ['excite', 'fr3_follow', '--out', str(motion), '--trials', '1', '--rate', '1000']
    assert main([*words, '--seed', '1', '--period', '4']) == 0
    second = done(tmp_path, motion, 1)[1]
    one, both = (identified(capsys, task, *data) for data in ((first,), (first, second)))
    for name, row in both.items():
        assert row['sd'] < one[name]['sd']


@pytest.mark.slow
def test_infeasible_requests_are_errors(written, capsys, tmp_path, monkeypatch):
    path, words = written
    before = path.read_bytes()
    assert main(words) == 2 and 'exists' in capsys.readouterr().err
    assert path.read_bytes() == before
    other = ['--out', str(tmp_path / 'm.csv')]
    assert main(['excite', 'cartpole_swingup', *other]) == 2
    assert 'with all joints commanded' in capsys.readouterr().err
    assert main(['excite', 'fr3_follow', *other, '--period', '0.5']) == 2
    assert 'to accelerate' in capsys.readouterr().err
    monkeypatch.setattr(excitation, '_CHECK_STEP_S', 0.05)  # no motion is that far from all
    assert main(['excite', 'fr3_follow', *other, '--clearance', '0.3', '--trials', '1']) == 2
    assert 'come within 0.3 m of' in capsys.readouterr().err
    assert main(['excite', 'fr3_follow', '--out', str(tmp_path / 'm.txt')]) == 2
    assert '.csv or .parquet' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_other_errors_are_not_reported_as_clearance(monkeypatch, capsys, tmp_path):
    def broken(*_):
        raise IdentificationError('expected a fixed base')

    monkeypatch.setattr(excitation, 'optimize_motion', broken)
    assert main(['excite', 'fr3_follow', '--out', str(tmp_path / 'm.csv')]) == 2
    error = capsys.readouterr().err
    assert 'expected a fixed base' in error and 'clear' not in error
