"""A run of the action ends once, for one reason, and succeeds only by measurements of its own."""

import math
from pathlib import Path
import re

from hypothesis import given
from hypothesis import strategies as st
import pytest

from emppi_ros.nodes.task_server import task_run
from emppi_ros.nodes.task_server.task_run import (
    BridgeReport,
    EndCode,
    RunObservation,
    RunPhase,
    StatusCode,
    TaskRun,
)
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.schema import Condition
from emppi_ros.tasks.switch_protocol import SwitchReply

MSGS = Path(__file__).resolve().parents[2] / 'emppi_msgs'
RULE = Condition({}, below=0.1, hold_s=0.5)
TIMEOUT_S = 10.0
MOVING = BridgeReport(StatusCode.FOLLOWING, 'following the plan', armed=True)
VALUES = {'lifecycle': 'active', 'armed': 'True', 'paused': 'False', 'swapping': 'False'}


def advance(run, observation, success):
    return task_run.advance(run, observation, success, TIMEOUT_S)


def see(now, report=MOVING, **others):
    """Return an observation with fresh reports of an armed robot."""
    return RunObservation(
        now, now, report, others.pop('reported', now), task='push', text='digest', **others
    )


def reply(said, reason='', text='digest'):
    return SwitchReply('/planner', 'x', said, reason, {'task': 'push', 'digest': text})


def running(now=0.0):
    run = advance(TaskRun(now, switches_task=False), see(now), RULE)
    assert run.phase is RunPhase.RUNNING
    return run


def switching():
    run = advance(TaskRun(0.0, switches_task=True), see(0.0), RULE)
    assert run.phase is RunPhase.SWITCHING
    return run


@pytest.mark.parametrize(
    'kind, name', [(EndCode, 'action/RunTask.action'), (StatusCode, 'msg/Status.msg')]
)
def test_codes_are_those_of_the_interface(kind, name):
    declared = re.findall(r'^u?int8 (\w+) = (-?\d+)', (MSGS / name).read_text(), re.M)
    assert {one.name: one.value for one in kind} == {key: int(value) for key, value in declared}


@pytest.mark.parametrize(
    'values, code',
    [
        ({'state': 'moving'}, StatusCode.FOLLOWING),
        ({'state': 'armed'}, StatusCode.WAITING),
        ({'state': 'stopping'}, StatusCode.WAITING),
        ({'armed': 'False'}, StatusCode.NOT_ARMED),
        ({'paused': 'True'}, StatusCode.PAUSED),
        ({'swapping': 'True', 'paused': 'True'}, StatusCode.SWITCHING),
        ({'fault': 'plan-lost', 'swapping': 'True'}, StatusCode.FAULT),
        ({'lifecycle': 'inactive'}, StatusCode.INVALID),
    ],
)
def test_the_report_of_the_bridge_has_one_code(values, code):
    assert task_run.read_report('why', {**VALUES, **values}).code is code


def test_a_bridge_without_a_robot_has_no_valid_report():
    report = task_run.read_report('waiting for emppi/task', {'lifecycle': 'unconfigured'})
    assert report.code is StatusCode.INVALID and 'waiting for emppi/task' in report.message


@pytest.mark.parametrize(
    'report, code, words',
    [
        (BridgeReport(), EndCode.NO_REPORT, 'is it running'),
        (MOVING._replace(armed=False), EndCode.NOT_ARMED, 'emppi/arm'),
        (MOVING._replace(paused=True), EndCode.PAUSED, 'emppi/pause'),
        (MOVING._replace(fault='plan-lost', message='held: x'), EndCode.FAULT, 'held: x'),
    ],
)
@pytest.mark.parametrize('switches', [False, True])
def test_a_robot_that_cannot_move_ends_a_run_before_it_begins(report, code, words, switches):
    run = TaskRun(0.0, switches)
    for now in (0.0, task_run.CHECK_S):
        run = advance(run, see(now, report), RULE)
        assert run.phase is RunPhase.CHECKING
    ending = advance(run, see(task_run.CHECK_S + 0.1, report), RULE).ending
    assert ending.code is code and words in ending.message and not ending.stop


def test_a_robot_that_was_armed_just_before_may_run():
    run = advance(TaskRun(0.0, False), see(0.0, MOVING._replace(armed=False)), RULE)
    assert advance(run, see(0.1), RULE).phase is RunPhase.RUNNING


def test_a_goal_that_is_canceled_before_it_begins_leaves_the_robot_as_it_is():
    ending = advance(TaskRun(0.0, True), see(0.0, BridgeReport(), canceled=True), RULE).ending
    assert ending.code is EndCode.CANCELED and not ending.stop


def test_an_old_report_does_not_count():
    run = advance(TaskRun(4.0, False), see(6.0, reported=0.9), RULE)
    assert run.ending.code is EndCode.NO_REPORT
    run = advance(running(), see(5.1, reported=0.0, measured=5.1), RULE)
    assert run.ending.code is EndCode.NO_REPORT and run.ending.stop


def test_a_run_starts_when_the_switch_is_done_and_this_node_has_followed():
    run = switching()
    for seen in (see(1.0), see(2.0, reply=reply(switch_protocol.DONE, text='other'))):
        run = advance(run, seen, RULE)
        assert run.phase is RunPhase.SWITCHING
    run = advance(run, see(3.0, reply=reply(switch_protocol.DONE)), RULE)
    assert (run.started, run.phase) == (3.0, RunPhase.RUNNING)


@pytest.mark.parametrize(
    'said, code',
    [
        (switch_protocol.REFUSED, EndCode.REFUSED),
        (switch_protocol.FAILED, EndCode.SWITCH_FAILED),
    ],
)
def test_a_switch_that_is_refused_or_fails_ends_the_run_with_its_reason(said, code):
    run = switching()
    ending = advance(run, see(1.0, reply=reply(said, 'robot: another one')), RULE).ending
    assert (ending.code, ending.message) == (code, 'robot: another one')
    assert not ending.stop  # the switch leaves the robot as it was, or at rest


def test_a_planner_that_does_not_reply_ends_the_run():
    run = switching()
    now = task_run.SWITCH_S
    assert advance(run, see(now), RULE).ending is None
    assert advance(run, see(now + 0.1), RULE).ending.code is EndCode.SWITCH_FAILED


def test_success_takes_an_error_that_stays_small_long_enough():
    run = running()
    for stamp, error in ((0.2, 0.05), (0.6, 0.2), (0.7, 0.05), (1.1, 0.05)):
        run = advance(run, see(stamp, error=error, measured=stamp), RULE)
        assert run.ending is None
    run = advance(run, see(1.2, error=0.05, measured=1.2), RULE)
    assert run.ending.success and not run.ending.stop


def test_measurements_from_before_the_start_do_not_count():
    run = running(5.0)
    run = advance(run, see(5.6, error=0.0, measured=4.9), RULE)
    assert run.ending is None and math.isinf(run.near_since)


@pytest.mark.parametrize(
    'change, code, stop',
    [
        ({'report': MOVING._replace(fault='state-late')}, EndCode.FAULT, False),
        ({'report': MOVING._replace(armed=False)}, EndCode.NOT_ARMED, False),
        ({'canceled': True}, EndCode.CANCELED, True),
        ({'measured': -math.inf, 'now': 5.1}, EndCode.NO_REPORT, True),
        ({'now': 10.1, 'measured': 10.1}, EndCode.TIMEOUT, True),
    ],
)
def test_what_ends_a_run_says_so_and_the_robot_does_not_go_on_alone(change, code, stop):
    now = change.pop('now', 1.0)
    seen = see(now, **{'error': 1.0, 'measured': now, **change})
    ending = advance(running(), seen, RULE).ending
    assert (ending.code, ending.stop) == (code, stop)


def test_a_pause_by_an_operator_is_waited_for():
    paused = see(
        1.0, MOVING._replace(code=StatusCode.PAUSED, paused=True), error=1.0, measured=1.0
    )
    assert advance(running(), paused, RULE).ending is None


def test_a_task_that_somebody_else_switches_to_ends_the_run():
    ending = advance(running(), see(1.0)._replace(task='drawer', switches=1), RULE).ending
    assert ending.code is EndCode.TASK_CHANGED and 'drawer' in ending.message


reports = st.builds(
    BridgeReport,
    st.sampled_from(StatusCode),
    st.just('why'),
    st.sampled_from(['', 'plan-lost']),
    st.booleans(),
    st.booleans(),
)
replies = st.none() | st.builds(
    reply,
    st.sampled_from([switch_protocol.DONE, switch_protocol.FAILED, switch_protocol.REFUSED]),
    st.just('why'),
    st.sampled_from(['digest', 'other']),
)
steps = st.tuples(st.floats(0.01, 2.0), reports | st.just(MOVING), replies, st.floats(0.0, 0.3))


@given(st.lists(steps, max_size=40), st.booleans())
def test_whatever_happens_a_run_ends_once_and_never_succeeds_without_a_cause(moments, switches):
    now, run = 0.0, TaskRun(0.0, switches)
    near_since = math.inf
    for wait, report, answer, error in moments:
        now += wait
        before = run
        run = advance(run, see(now, report, reply=answer, error=error, measured=now), RULE)
        if before.ending is not None:
            assert run == before
            continue
        near_since = min(near_since, now) if error < RULE.below else math.inf
        if run.ending is not None and run.ending.success:
            assert report.armed and not report.fault and report.code is not StatusCode.INVALID
            assert now - near_since >= RULE.hold_s - 1e-9  # rounding of sums of steps
            assert before.phase is RunPhase.RUNNING and run.started <= now - RULE.hold_s + 1e-9
