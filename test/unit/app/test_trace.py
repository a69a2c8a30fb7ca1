"""When a task is done, and how targets follow one another."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.app.closed_loop import ClosedLoop, summarize
from emppi_ros.app.trace import SuccessMonitor, Trace
from emppi_ros.core.errors import ConfigError

TARGETS = {
    'body': 'goal_body',
    'attempt_s': 0.5,
    'turn_rad': 1.0,
    'lost': {'residual': {'residual': 'height', 'of': 'body:block'}, 'above': 0.5},
}
GOAL = '<body name="goal_body" pos="0 0 0.3"><freejoint/><geom size="0.01" mass="1"/></body>'


@pytest.fixture
def turning_within(task_data, make_task):
    """Return a maker of tasks whose block is to be turned to one orientation after another."""

    def make(least):
        data = task_data('block')
        data['targets'] = {**TARGETS, 'least_turn_rad': least}
        data['success']['residual'] = {
            'residual': 'rotation',
            'of': 'body:block',
            'to': 'body:goal_body',
        }
        data['success']['hold_s'] = 0.1
        return make_task('block', data, bodies=GOAL)

    return make


@pytest.fixture
def turning(turning_within):
    return turning_within(0.0)


def _monitor(task):
    trace = Trace([(0.0, np.zeros(1))])
    return SuccessMonitor(task, trace, np.random.default_rng(0)), trace


def test_success_is_noted_once_after_it_has_held(make_task, task_data):
    data = task_data('slider')
    data['success']['hold_s'] = 0.1
    monitor, trace = _monitor(make_task('slider', data))
    for now, error in [(0.0, 0.01), (0.05, 0.5), (0.06, 0.01), (0.1, 0.01)]:
        assert not monitor.update(error, False, now)
        assert not trace.success
    for now in (0.17, 0.3):
        assert not monitor.update(0.01, False, now)
        assert trace.success_time == 0.17


def test_an_attempt_ends_when_reached_or_lost_or_too_late(turning):
    monitor, trace = _monitor(turning)
    for now, error, lost, ended in [
        (0.1, 0.0, False, False), (0.2, 0.0, False, True),  # reached
        (0.4, 1.0, False, False), (0.7, 1.0, False, True),  # too late
        (0.8, 1.0, True, True),  # lost
    ]:  # fmt: skip
        assert monitor.update(error, lost, now) == ended
    assert [(one.reached, one.lost) for one in trace.attempts] == [
        (True, False), (False, False), (False, True),
    ]  # fmt: skip
    assert [one.start for one in trace.attempts] == [0.0, 0.2, 0.7]


def test_targets_turn_no_farther_than_they_may(turning_within):
    monitor, _ = _monitor(turning_within(0.0))
    last, angles = Rotation.identity(), []
    for _ in range(200):
        turn = Rotation.from_quat(np.roll(monitor.sample_target(), -1))
        angles.append((turn * last.inv()).magnitude())
        last = turn
    assert 0.95 < max(angles) <= 1.0 + 1e-9


def test_targets_turn_as_far_as_they_must_also_after_a_loss(turning_within):
    monitor, _ = _monitor(turning_within(0.9))
    angles, last = [], Rotation.identity()
    for i in range(200):
        turn = Rotation.from_quat(np.roll(monitor.sample_target(), -1))
        angles.append((turn * last.inv()).magnitude())
        lost = i % 3 == 0
        assert monitor.update(1.0, lost, 0.1 * i) or not lost
        last = Rotation.identity() if lost else turn
    assert 0.9 - 1e-9 <= min(angles) and max(angles) <= 1.0 + 1e-9  # rounding


def test_the_nearest_target_is_not_beyond_the_farthest(turning_within):
    with pytest.raises(ConfigError, match='targets: least_turn_rad: 1.2 rad exceeds turn_rad, 1'):
        turning_within(1.2)


def test_the_target_is_seen_by_planner_and_robot_and_what_is_lost_is_put_back(turning):
    assert turning.model.nmocap == 1 and turning.model.nq == turning.model.nv + 1
    loop = ClosedLoop(turning, 0)
    first = loop.robot.data.mocap_quat[0].copy()
    assert np.array_equal(loop.planner.ensemble._world.mocap_quat[0], first)
    block = turning.objects['block']
    loop.robot.data.qpos[block.qpos + 2] = 0.9  # thrown up
    loop.run(0.3)
    (attempt,) = loop.trace.attempts
    assert attempt.lost and not attempt.reached
    assert loop.robot.data.qpos[block.qpos + 2] < 0.1  # back where it began
    assert not np.array_equal(loop.robot.data.mocap_quat[0], first)
    found = summarize(loop, 'emppi', 0)['attempts']
    assert found == {'all': 1, 'reached': 0, 'lost': 1}
