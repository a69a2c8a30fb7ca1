"""The launch file brings up the whole graph, and takes it down in order."""

import os
from pathlib import Path
import re
import shutil
import signal
import subprocess
import time

import pytest

REASON = 'launch, launch_ros and launch_pytest come with a ROS 2 installation; none is sourced'
pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
launch = pytest.importorskip('launch', reason=REASON)
launch_ros = pytest.importorskip('launch_ros', reason=REASON)
launch_pytest = pytest.importorskip('launch_pytest', reason=REASON)
ament = pytest.importorskip('ament_index_python', reason=REASON)
try:
    SHARE = Path(ament.get_package_share_directory('emppi_ros'))
except (LookupError, ValueError):
    pytest.skip('emppi_ros is not installed: colcon build, then source', allow_module_level=True)

if not hasattr(pytest.fixture(lambda: None), '_pytestfixturefunction'):
    pytest.skip('launch_pytest needs pytest below 8.4', allow_module_level=True)

from launch.actions import IncludeLaunchDescription  # noqa: E402
from launch.launch_description_sources import PythonLaunchDescriptionSource  # noqa: E402

os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
NAMESPACE = f'test{os.getpid()}'  # whatever else runs in this domain


@launch_pytest.fixture
def graph():
    return launch.LaunchDescription(
        [
            IncludeLaunchDescription(
                PythonLaunchDescriptionSource(str(SHARE / 'launch' / 'emppi.launch.py')),
                launch_arguments={
                    'task': 'cartpole_swingup',
                    'namespace': NAMESPACE,
                    'seed': '1',
                }.items(),
            ),
            launch_pytest.actions.ReadyToTest(),
        ]
    )


@pytest.mark.launch(fixture=graph)
def test_the_graph_comes_up_and_obeys():
    import rclpy
    from rclpy.node import Node
    from sensor_msgs.msg import JointState
    from std_srvs.srv import SetBool
    from trajectory_msgs.msg import JointTrajectory

    from emppi_ros.nodes.common import interfaces

    context = rclpy.Context()
    context.init()
    node = Node('tester', namespace=NAMESPACE, context=context)
    executor = rclpy.executors.SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def spin_until(condition, timeout=40.0):
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f'timed out; nodes: {node.get_node_names()}'
            executor.spin_once(timeout_sec=0.05)

    plans, applied = [], []
    node.create_subscription(JointTrajectory, 'emppi/plan', plans.append, 10)
    node.create_subscription(JointState, 'emppi/applied', applied.append, 10)
    client = node.create_client(SetBool, 'emppi/arm')
    try:
        spin_until(lambda: plans and applied and client.service_is_ready())
        expected = {'planner', 'belief', 'bridge', 'simulator', 'markers'}
        expected |= {'task_server'} if interfaces.AVAILABLE else set()
        spin_until(lambda: expected <= set(node.get_node_names()))  # discovery takes its time
        assert not any(applied[-1].effort)
        future = client.call_async(SetBool.Request(data=True))
        spin_until(future.done)
        assert future.result().success
        spin_until(lambda: any(applied[-1].effort))
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()


@pytest.fixture
def ros2_launch(tmp_path):
    """Return a function that calls `ros2 launch`, and returns the process and its output."""
    if shutil.which('ros2') is None:
        pytest.skip('ros2cli is not installed')
    from emppi_ros.nodes.tools.process_group import isolated_environment, unused_domain

    log, processes = tmp_path / 'launch.log', []

    def start(*arguments):
        with log.open('wb') as stream:
            processes.append(
                subprocess.Popen(
                    ['ros2', 'launch', 'emppi_ros', 'emppi.launch.py', *arguments],
                    stdout=stream, stderr=stream, env=isolated_environment(unused_domain()),
                )
            )  # fmt: skip
        return processes[-1], log.read_text

    yield start
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def started(output):
    """Return the process numbers of the nodes that were started, by executable."""
    found = re.findall(r'\[(emppi_\w+)-\d+\]: process started with pid \[(\d+)\]', output)
    return {name: int(number) for name, number in found}  # the last one of each


def wait_for(condition, process, output, timeout=90.0):
    deadline = time.monotonic() + timeout
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, output()
        time.sleep(0.1)


@pytest.mark.parametrize(
    ('argument', 'words'),
    [
        ('task:=nonsense', "task: unknown task 'nonsense'"),
        ('takss:=panda_push', "did you mean 'task'"),
        ('description:=/no/such.urdf', 'description: '),
        ('respawn:=maybe', "respawn: found 'maybe'"),
    ],
)
def test_a_wrong_argument_ends_the_launch_before_any_node_starts(ros2_launch, argument, words):
    process, output = ros2_launch(argument)
    assert process.wait(60) != 0
    assert words in output()
    assert not started(output())


def test_the_end_of_a_node_that_the_robot_needs_ends_the_launch(ros2_launch):
    process, output = ros2_launch('task:=cartpole_swingup')
    wait_for(lambda: '[bridge]: configured' in output(), process, output)
    nodes = started(output())
    os.kill(nodes['emppi_bridge'], signal.SIGKILL)
    assert process.wait(60) != 0
    assert 'bridge ended with exit code -9' in output()
    assert not [name for name, number in nodes.items() if Path(f'/proc/{number}').exists()]


def test_respawn_brings_a_node_back(ros2_launch):
    process, output = ros2_launch('task:=cartpole_swingup', 'respawn:=true')
    wait_for(lambda: '[bridge]: configured' in output(), process, output)
    os.kill(started(output())['emppi_bridge'], signal.SIGKILL)
    wait_for(lambda: output().count('[bridge]: configured') == 2, process, output)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
