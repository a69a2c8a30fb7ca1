"""The launch file brings up the whole graph, and takes it down in order."""

import os
from pathlib import Path
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
