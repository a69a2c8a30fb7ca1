"""The task is swapped in motion: at rest, by all nodes or by none, and whoever asked is told."""

import signal

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import DescribeParameters, SetParametersAtomically
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String
from std_srvs.srv import SetBool
import swaps
from swaps import SwapGraph

from emppi_ros.cli import main
from emppi_ros.core.errors import EmppiError, SwapError
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.planner import task_switch
from emppi_ros.nodes.tools.process_group import unused_domain
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.task import task_text

pytestmark = pytest.mark.alone

PUSH, TIP = task_text('panda_push'), task_text('panda_reconfigure')


@pytest.mark.slow
def test_who_cannot_follow_is_named_and_a_planner_that_is_gone_leaves_the_arm_held(harness):
    strict = {'simulator': {'truth': "['block_mass=0.3']"}}
    arm = SwapGraph(harness, bridge={**swaps.PATIENT, 'swap_timeout_s': 1.0}, **strict)
    other = TIP.replace('block_mass', 'mass')
    answer = arm.ask(other)
    assert answer.said == switch_protocol.REFUSED
    assert '/simulator' in answer.reason and "unknown parameter 'block_mass'" in answer.reason
    # the arm is told to rest, and then nobody says anything
    arm.arm()
    arm.get_moving()
    assert not harness.call(SetBool, 'emppi/swap', SetBool.Request(data=True)).success
    harness.spin_until(lambda: 'did not end it in time' in harness.says('bridge')[1])
    assert harness.says('bridge')[2]['fault'] == 'swap-lost' and arm.speed() == 0.0
    answer = harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True))
    assert not answer.success and 'Disarm to acknowledge' in answer.message
    assert harness.call(SetBool, 'emppi/arm', SetBool.Request(data=False)).success
    # a node that is gone does not answer
    arm.children.end('belief', signal.SIGKILL)
    harness.spin_until(lambda: arm.children.processes['belief'].poll() is not None)
    arm.arm()
    answer = arm.ask('panda_reconfigure')
    assert answer.said == switch_protocol.REFUSED and '/belief' in answer.reason
    assert len(arm.texts) == 1
    assert harness.says('bridge')[2]['swapping'] == 'False'


@pytest.fixture(scope='module')
def running(module_harness):
    return SwapGraph(module_harness)


@pytest.fixture
def arm(running):
    """Return a graph that the tests below share; the one above has its own."""
    running.start_over()
    return running


def bad_requests():
    return {
        'an unknown task': ('panda_pusch', "did you mean 'panda_push'"),
        'another robot': ('cartpole_swingup', "for 'cartpole', this robot is 'panda'"),
        'a wrong key': (PUSH.replace('horizon:', 'horizont:'), "did you mean 'horizon'"),
        'a wrong value': (PUSH.replace('temperature: ', 'temperature: -'), 'above 0'),
        'no YAML': ('name: [broken', 'not valid YAML'),
        'a scene that there is not': (PUSH.replace('panda_push.xml', 'no.xml'), "'no.xml'"),
    }


@pytest.mark.slow
def test_tasks_are_swapped_in_motion_and_bad_requests_change_nothing(arm):
    harness = arm.harness
    arm.arm()
    for request, name in (('panda_reconfigure', 'panda_reconfigure'), (PUSH, 'panda_push')):
        swap = arm.swap(request)
        assert (swap.answer.said, swap.answer.reason) == (switch_protocol.DONE, '')
        assert swap.answer.figures['task'] == name and f'name: {name}' in arm.running()
        assert swap.speed_before > swaps.SPEED
        assert swap.commanded == 0.0 and swap.rested <= swaps.SINCE_REST_S
        assert swap.steps <= 1.0 + 1e-6  # rounding
        arm.get_moving()  # it goes on by itself
    before = arm.running()
    for request, words in bad_requests().values():
        arm.get_moving()
        answer = arm.ask(request)
        assert answer.said == switch_protocol.REFUSED and words in answer.reason
    assert arm.running() == before == PUSH and {text.data for text in arm.texts} == {PUSH, TIP}
    harness.spin_until(lambda: 'bridge' in harness.statuses)
    assert harness.says('bridge')[2]['fault'] == ''
    arm.get_moving()


def test_of_two_requests_at_once_one_is_refused(arm):
    harness = arm.harness
    first, second = arm.send('panda_reconfigure'), arm.send(PUSH)
    harness.spin_until(lambda: arm.answer(first) and arm.answer(second), 40.0)
    answers = [arm.answer(first), arm.answer(second)]
    assert [answer.said for answer in answers] == [switch_protocol.DONE, switch_protocol.REFUSED]
    assert 'try again when it is done' in answers[1].reason
    assert 'name: panda_reconfigure' in arm.running()
    # nobody was armed, and nobody is now; a pause stays one
    assert answers[0].figures['bridge'] == 'not armed' and arm.speed() == 0.0
    assert harness.call(SetBool, 'emppi/pause', SetBool.Request(data=True)).success
    arm.arm()
    assert arm.ask(PUSH).figures['bridge'] == 'paused'
    harness.spin_for(0.3)
    assert arm.speed() == 0.0


@pytest.mark.slow
def test_the_command_swaps_and_tells_how_long_it_took(arm, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv('ROS_DOMAIN_ID', str(unused_domain()))
    monkeypatch.setattr(task_switch, '_DISCOVERY_S', 0.5)
    assert main(['task', 'panda_pusch']) == 2
    assert "did you mean 'panda_push'" in capsys.readouterr().err
    assert main(['task', 'panda_push', '--timeout', '1']) == 2
    assert 'is the planner running' in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv('ROS_DOMAIN_ID', str(arm.harness.domain))
    moved = tmp_path / 'moved.yaml'
    moved.write_text(PUSH.replace('duration_s: 20.0', 'duration_s: 16.0'))
    assert main(['task', str(moved), '--json']) == 0
    assert '"said": "done"' in (out := capsys.readouterr().out) and '"to_first_plan_s": ' in out
    assert main(['task', 'cartpole_swingup']) == 2
    assert "refused: robot: the task is for 'cartpole'" in capsys.readouterr().err
    arm.harness.spin_until(lambda: 'duration_s: 16.0' in arm.running())


def as_messages(values):
    double, array = ParameterType.PARAMETER_DOUBLE, ParameterType.PARAMETER_DOUBLE_ARRAY
    return [
        Parameter(
            name=name,
            value=ParameterValue(type=array, double_array_value=value)
            if isinstance(value, list)
            else ParameterValue(type=double, double_value=value),
        )
        for name, value in values.items()
    ]


def test_numbers_are_tuned_between_cycles_all_or_none(arm):
    harness = arm.harness
    beliefs = harness.listen(PointCloud2, 'emppi/belief', qos.LATCHED)

    def tune(**values):
        request = SetParametersAtomically.Request(
            parameters=as_messages({k.replace('__', '.'): v for k, v in values.items()})
        )
        return harness.call(
            SetParametersAtomically, 'planner/set_parameters_atomically', request
        ).result

    request = DescribeParameters.Request(names=['cost.reach.weight', 'planner.temperature'])
    described = harness.call(DescribeParameters, 'planner/describe_parameters', request)
    assert [d.floating_point_range[0].from_value for d in described.descriptors] == [0.0, 1e-9]
    assert 'distance' in described.descriptors[0].description

    arm.arm()
    arm.get_moving()
    count, learned = len(arm.plans), int(harness.says('belief')[2]['updates'])
    assert tune(cost__reach__weight=3.0, belief__likelihood__joint_velocity_sd=0.1).successful
    harness.spin_until(lambda: 'joint_velocity_sd: 0.1' in arm.running())
    assert 'weight: 3.0' in arm.running()
    harness.spin_until(lambda: len(arm.plans) > count + 3)
    arm.get_moving()
    assert int(harness.says('belief')[2]['updates']) >= learned and beliefs  # nothing began anew
    before = arm.running()
    for values, words in (
        ({'cost__reach__weight': 4.0, 'planner__temperature': -1.0}, 'temperature'),
        ({'planner__noise_variance': [0.1, 0.1]}, 'noise_variance'),
        ({'cost__force__weight': 0.0}, 'the term has no effect'),
        ({'seed': 3.0}, 'read-only'),
        ({'cost__reech__weight': 1.0}, 'declared'),
    ):
        answer = tune(**values)
        assert not answer.successful and words in answer.reason
    harness.spin_for(0.3)
    assert arm.running() == before
    # the task as its file says it differs in numbers alone: no need to stop
    answer = arm.ask('panda_push')
    assert answer.said == switch_protocol.DONE and answer.figures['tuned']
    harness.spin_until(lambda: 'joint_velocity_sd: 0.04' in arm.running())


@pytest.mark.slow
def test_the_web_source_switches_tasks_and_invalid_ones_change_nothing(arm, monkeypatch):
    pytest.importorskip('viser', reason="viser is not installed: pip install 'emppi_ros[view]'")
    from emppi_ros.nodes.tools.web_source import RosSource

    harness = arm.harness
    monkeypatch.setenv('ROS_DOMAIN_ID', str(harness.domain))  # requests come from a node apart
    seen = RosSource(patience_s=60.0, domain=harness.domain)
    try:
        seen.set_watched(True)  # what nobody watches gets no newer pictures
        harness.spin_until(lambda: seen.snapshot().state == 'inactive', 60.0)
        run = seen.snapshot().run
        with pytest.raises(EmppiError, match='panda_pusch'):
            seen.switch_task('panda_pusch')
        with pytest.raises(SwapError, match='robot.*cartpole'):
            seen.switch_task('cartpole_swingup')
        assert (seen.snapshot().task.name, seen.snapshot().run) == ('panda_push', run)
        seen.switch_task('panda_reconfigure')
        assert seen.snapshot().task.name == 'panda_reconfigure'
        assert seen.snapshot().run != run
    finally:
        seen.close()


def test_who_is_not_the_planner_may_speak_and_nothing_happens(arm):
    harness = arm.harness
    answers = harness.publisher(String, 'emppi/task/answers')
    harness.spin_until(lambda: answers.get_subscription_count() > 0)
    for text in ('', '{}', 'ready', '{"node": 1}', np.random.default_rng(0).bytes(99).hex()):
        answers.publish(String(data=text))
    tasks = harness.publisher(String, 'emppi/task', qos.LATCHED)
    harness.spin_until(lambda: tasks.get_subscription_count() > 2)
    for text in ('a: 1', '{planner: 3}', '[', 'robot: panda'):
        tasks.publish(String(data=text))
    count = len(arm.plans)
    harness.spin_until(lambda: len(arm.plans) > count + 3)
    harness.children.check()
    for publisher in (answers, tasks):
        harness.tester.destroy_publisher(publisher)
    del arm.texts[1:]  # what the strangers said
