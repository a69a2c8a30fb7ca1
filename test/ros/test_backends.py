"""Ways to the robot: which one is taken, what refuses hardware, and who sends what."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import plan as plans
from emppi_ros.nodes import convert, qos
from emppi_ros.nodes.backends import BACKENDS
from emppi_ros.nodes.bridge import BridgeNode
from emppi_ros.nodes.diagnostics import ERROR
from emppi_ros.tasks import robot as robots

# generous ages, so that a busy machine does not look like a dead robot
PATIENT = {'plan_timeout_s': 1.0, 'state_timeout_s': 2.0}


def test_a_robot_may_name_every_backend_that_there_is():
    assert set(robots.BACKENDS) == set(BACKENDS)


def _feed(harness, task):
    """Pretend to be a robot that stays at home."""
    robot = task.robot
    states = harness.publisher(JointState, 'joint_states', qos.SENSOR)
    home = np.array(robot.home)
    harness.feeds.append(
        lambda: states.publish(
            convert.write_joints(robot, harness.now(), home, np.zeros_like(home))
        )
    )


def _plan(harness, task, speed):
    """Pretend to be a planner that wants one speed of all joints."""
    robot = task.robot
    sender = harness.publisher(JointTrajectory, 'emppi/plan')
    row = np.full(len(robot.commanded), speed)

    def send():
        plan = plans.make(robot, harness.now(), row, np.tile(row, (10, 1)), 0.05, 'linear')
        sender.publish(convert.write_plan(robot, plan))

    harness.feeds.append(send)


def _arm(harness, applied):
    harness.spin_until(lambda: applied)
    assert harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True)).success


def test_dry_run_says_what_it_would_send_and_sends_nothing(harness):
    task = harness.publish_task('panda_push')
    applied = harness.listen(JointState, 'emppi/applied')
    harness.make(BridgeNode, backend='dry-run', hardware=True, **PATIENT)
    _feed(harness, task)
    _arm(harness, applied)
    _plan(harness, task, 0.2)
    harness.spin_until(lambda: np.allclose(applied[-1].velocity, 0.2))
    for topic in task.robot.topics.commands.values():
        assert harness.tester.count_publishers(topic) == 0


def test_forward_refuses_hardware_and_says_why_and_what_else(harness):
    harness.publish_task('panda_push')
    node = harness.make(BridgeNode, backend='forward', hardware=True)
    harness.spin_until(lambda: 'refuses' in harness.says('bridge')[1])
    level, message, _ = harness.says('bridge')
    assert level == ERROR and node.state == 'unconfigured'
    for words in ('for ever', 'backend:=', 'forward_on_hardware:=true'):
        assert words in message


def test_forward_drives_hardware_if_told_twice(harness):
    task = harness.publish_task('panda_push')
    commands = harness.listen(Float64MultiArray, task.robot.topics.commands['velocity'])
    harness.make(BridgeNode, hardware=True, forward_on_hardware=True, **PATIENT)
    _feed(harness, task)
    harness.spin_until(lambda: commands)
