"""What is asked for and answered when the task is swapped; what is wrong is told, and why."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
import pytest

from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError, EmppiError, SwapError
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.switch_protocol import SwitchReply
from emppi_ros.tasks.task import load_task, task_text

PUSH = task_text('panda_push')
PANDA = load_task('panda_push').robot


@given(st.text(), st.text(), st.text())
def test_an_answer_arrives_as_it_was_sent(node, about, reason):
    answer = SwitchReply(node, about, switch_protocol.REFUSED, reason, {'seconds': 0.5})
    assert switch_protocol.read_reply(answer.to_text()) == answer


@given(st.text() | st.sampled_from(['{}', '[]', '1', 'null', '{"node": 1}', '[' * 100_000]))
def test_what_is_no_answer_is_none(text):
    assert switch_protocol.read_reply(text) is None


def test_two_requests_for_the_same_task_are_told_apart_and_ask_for_the_same():
    one, other = switch_protocol.tagged(PUSH), switch_protocol.tagged(PUSH)
    assert switch_protocol.digest(one) != switch_protocol.digest(other)
    assert switch_protocol.requested(one) == switch_protocol.requested(other) == PUSH


def test_a_task_may_be_asked_for_by_its_name_or_by_its_yaml():
    assert (
        switch_protocol.requested('panda_push')
        == switch_protocol.requested(' panda_push\n')
        == PUSH
    )
    assert switch_protocol.requested(PUSH) == PUSH
    assert switch_protocol.requested(switch_protocol.tagged('panda_push')) == PUSH
    assert 'robot: fr3' in switch_protocol.requested('panda_push', 'fr3')


@pytest.mark.parametrize('task', ['panda_push', PUSH])
def test_a_request_with_a_prior_is_for_the_task_with_that_prior(task):
    text = switch_protocol.requested(switch_protocol.request(task, 'seen.yaml'))
    assert config.parse(text, 'x') == {**config.parse(PUSH, 'x'), 'prior': 'seen.yaml'}
    assert switch_protocol.request(task, '') == task


def test_an_unknown_name_with_a_prior_is_told_and_the_robot_is_replaced():
    with pytest.raises(ConfigError, match="did you mean 'panda_push'"):
        switch_protocol.requested(switch_protocol.request('panda_pusch', 'seen'))
    request = switch_protocol.request('panda_push', 'seen')
    assert 'robot: fr3' in switch_protocol.requested(request, 'fr3')


def test_an_unknown_name_is_told_with_what_there_is():
    with pytest.raises(ConfigError, match="unknown task 'panda_pusch'.*did you mean 'panda_push'"):
        switch_protocol.requested('panda_pusch')


@pytest.mark.parametrize('name', ['/etc/passwd', '../panda_push.yaml', 'x.yaml', ''])
def test_a_name_is_no_way_to_read_files(name):
    with pytest.raises(ConfigError, match='unknown task'):
        switch_protocol.requested(name)


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        (
            task_text('cartpole_swingup'),
            "this robot is 'panda': to change the robot, restart",
        ),
        (task_text('fr3_follow'), "for 'fr3'"),
        (PUSH.replace('temperature: 0.02', 'temperature: -1'), 'temperature.*above 0'),
        (PUSH.replace('of: block\n', 'of: blok\n', 1), "line 10.*'blok'"),
        (PUSH.replace('duration_s: 20.0', 'real_time: false'), 'cannot be planned in real time'),
        ('name: [broken', 'not valid YAML'),
    ],
)
def test_what_cannot_be_gone_over_to_is_told_with_the_reason(text, words):
    with pytest.raises(EmppiError, match=words):
        switch_protocol.checked(text, 'request', PANDA)


def test_the_same_robot_with_other_limits_is_another():
    faster = dataclasses.replace(PANDA, dynamics_factor=1.0)
    with pytest.raises(SwapError, match='differs from the running one in dynamics_factor'):
        switch_protocol.checked(PUSH, 'request', faster)
    with pytest.raises(SwapError, match='dynamics_factor'):
        switch_protocol.check_robot(config.parse(PUSH, 'request'), 'request', faster)


def test_a_task_for_the_robot_that_runs_is_taken():
    assert switch_protocol.checked(task_text('panda_reconfigure'), 'request', PANDA).name.endswith(
        'figure'
    )
    switch_protocol.check_robot(config.parse(PUSH, 'request'), 'request', PANDA)
    with pytest.raises(ConfigError, match='robot: expected the name'):
        switch_protocol.check_robot({'name': 'x'}, 'request', PANDA)
