"""Record running nodes, and replay the bag bit by bit."""

import json
import signal
import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped
from mcap.records import Schema
from mcap_ros2.decoder import DecoderFactory
from rclpy.serialization import serialize_message
from rosbags.highlevel import AnyReader
from sensor_msgs.msg import JointState, PointCloud2, PointField
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from swaps import SWAPS, SwapGraph
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.cli import interrupt, main
from emppi_ros.cli import record as record_command
from emppi_ros.nodes.common import graph
from emppi_ros.nodes.tools import bag_recorder, message_definitions
from emppi_ros.nodes.tools.process_group import isolated_environment
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.task import task_text


def record(harness, *words):
    """Start `emppi record` as a process, in the nodes' domain."""
    return subprocess.Popen(
        [sys.executable, '-m', 'emppi_ros.cli', 'record', '--json', *words],
        env=isolated_environment(harness.domain),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.alone
def test_a_recorder_that_comes_late_records_what_can_be_replayed(harness, tmp_path, capsys):
    folder = tmp_path / 'bag'
    specs = graph.describe('cartpole_swingup', '', 5)
    # on a busy machine plans are late; nobody is here to arm again
    patient = {'plan_timeout_s': 0.5, 'plan_lost_s': 1000.0, 'late_plans': 1000}
    specs[2] = graph.NodeSpec('bridge', {**patient, 'state_timeout_s': 1000.0})
    plans = harness.listen(JointTrajectory, 'emppi/plan')
    harness.spawn(*specs)
    harness.spin_until(lambda: len(plans) > 5, 60.0)
    assert harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True)).success
    recorder = record(harness, '--out', str(folder))

    def listens():
        ears = harness.tester.get_subscriptions_info_by_topic('joint_states')
        return any(ear.node_name == 'recorder' for ear in ears)

    try:
        harness.spin_until(lambda: listens() or recorder.poll(), 60.0)
        harness.spin_for(3.5)  # each node finds it by itself; where an announcement is lost in 3 s
        began = len(plans)
        harness.spin_until(lambda: len(plans) > began + 70, 60.0)
    finally:
        recorder.send_signal(signal.SIGINT)
        said, errors = recorder.communicate(timeout=20.0)
    assert recorder.returncode == 0, errors
    harness.children.stop()  # what follows needs the processor
    counts = json.loads(said)['topics']
    heard = {name for name, count in counts.items() if count}
    assert heard >= {
        '/emppi/task',
        '/emppi/plan',
        '/emppi/belief',
        '/joint_states',
        '/diagnostics',
    }
    with AnyReader([folder]) as reader:  # another's reading of `ros2 bag`'s format
        assert {c.topic: c.msgcount for c in reader.connections} == {
            name: counts[name] for name in heard
        }
    assert main(['replay', str(folder), '--json']) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict['planner']['bit_identical'] > 50 and verdict['belief']['bit_identical'] > 5
    assert verdict['planner']['seed'] == verdict['belief']['seed'] == 5
    assert main(['report', str(folder), '--out', str(tmp_path / 'report')]) == 0
    assert (tmp_path / 'report' / 'belief.png').exists()
    bag = Bag(folder)
    assert not list(bag.messages([]))  # read to its end
    assert not bag.cut and bag.span_ns[1] - bag.span_ns[0] > 1e9


@pytest.mark.alone
@pytest.mark.skipif(not SWAPS, reason='make swaps')
def test_a_bag_over_a_tuning_and_a_swap_has_the_same_bits_again(harness, tmp_path, capsys):
    folder = tmp_path / 'bag'
    beliefs = harness.listen(PointCloud2, 'emppi/belief')
    arm = SwapGraph(harness)
    recorder = record(harness, '--out', str(folder))
    try:
        count = harness.tester.count_subscribers
        harness.spin_until(lambda: count('emppi/belief/journal') or recorder.poll(), 60.0)
        # each node finds the recorder by itself, and later where an announcement is lost: 3 s
        began = len(arm.plans)
        harness.spin_until(lambda: len(arm.plans) > began + 100 or recorder.poll(), 60.0)
        arm.arm()
        arm.get_moving()
        tuned = arm.ask(task_text('panda_push').replace('temperature: 0.02', 'temperature: 0.05'))
        assert tuned.said == switch_protocol.DONE and tuned.figures['tuned']
        arm.get_moving()
        assert arm.ask('panda_reconfigure').said == switch_protocol.DONE
        began = len(arm.plans)
        beliefs.clear()
        harness.spin_until(lambda: len(arm.plans) > began + 20 and len(beliefs) > 5, 60.0)
    finally:
        recorder.send_signal(signal.SIGINT)
        _, errors = recorder.communicate(timeout=20.0)
    assert recorder.returncode == 0, errors
    assert main(['replay', str(folder), '--json']) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict['planner']['tasks'] == verdict['belief']['tasks'] == 2
    assert verdict['planner']['bit_identical'] > 20 and verdict['belief']['bit_identical'] > 5
    assert not verdict['notes']


def test_a_recorder_that_hears_nothing_says_so_and_overwrites_nothing(
    harness, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv('ROS_DOMAIN_ID', str(harness.domain))
    monkeypatch.setattr(record_command, '_STATUS_S', 0.4)
    monkeypatch.setattr(bag_recorder, '_SILENT_S', 0.2)
    monkeypatch.setattr(interrupt.signal, 'signal', lambda *_: None)  # pytest keeps its own
    words = ['record', '--json', '--out', str(tmp_path / 'bag'), '--duration', '0.5']
    assert main(words) == 0
    said = capsys.readouterr()
    assert '/emppi/task (no publisher)' in said.err
    assert json.loads(said.out)['messages'] == 0
    assert main(words) == 2
    errors = capsys.readouterr().err
    assert f'{tmp_path / "bag"}: already exists' in errors and '--overwrite' in errors


@pytest.mark.parametrize(
    'message',
    [
        JointState(name=['a', 'b'], position=[0.1, -0.0], velocity=[1e-300]),
        PointCloud2(fields=[PointField(name='x', datatype=8, count=1)], data=b'\x01\x02', width=3),
        DiagnosticArray(status=[DiagnosticStatus(values=[KeyValue(key='k', value='v')])]),
        Float64MultiArray(data=[1.5, 2.5]),
        PoseStamped(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_definitions_let_others_read_the_bytes_of_messages(message):
    kind = type(message)
    schema = Schema(
        1, message_definitions.text(kind).encode(), 'ros2msg', message_definitions.name(kind)
    )
    decoded = DecoderFactory().decoder_for('cdr', schema)(serialize_message(message))
    assert_alike(decoded, message)


def assert_alike(decoded, message):
    if hasattr(message, 'get_fields_and_field_types'):
        for name in message.get_fields_and_field_types():
            assert_alike(getattr(decoded, name), getattr(message, name))
    elif isinstance(message, (bytes, str, int, float)):
        assert decoded == (message[0] if isinstance(message, bytes) else message)
    else:
        assert len(decoded) == len(message)
        for one, other in zip(decoded, message, strict=True):
            assert_alike(one, other)
