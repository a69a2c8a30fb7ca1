"""A monitor of a run records all states, also those that it reads late."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from sensor_msgs.msg import JointState

from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.tools.demo import RunMonitor
from emppi_ros.tasks.task import load_task


def test_a_success_between_two_looks_at_the_messages_counts(harness):
    task = load_task('cartpole_swingup')
    monitor = RunMonitor(harness.tester, task)
    publisher = harness.publisher(JointState, 'joint_states', qos.MEASURED)
    harness.spin_until(lambda: publisher.get_subscription_count() > 0)
    monitor.start(100.0)
    upright, hanging = (0.0, 0.0), (0.0, np.pi)  # slider, hinge
    states = [upright] * 100 + [hanging] * 20
    for k, position in enumerate(states):
        message = JointState(name=list(task.robot.joints), position=position, velocity=(0.0, 0.0))
        message.header.stamp = convert.to_stamp(100.0 + 0.02 * k)
        publisher.publish(message)
    harness.spin_for(0.5)
    monitor.poll()
    _, record = monitor.summarize()
    assert len(record.times) >= 0.95 * len(states)  # best effort: some may be lost
    held = task.file.success.hold_s
    assert monitor.success_time == pytest.approx(held, abs=0.05)
