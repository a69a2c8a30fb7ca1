"""The command loop with a backend that reads joint states from the robot, as `franky` does."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge.commander import BridgeConfig
from emppi_ros.bridge.monitors import MonitorConfig
from emppi_ros.bridge.state_machine import Phase
from emppi_ros.nodes.backends import Backend, BackendState
from emppi_ros.nodes.bridge.command_loop import CommandLoop
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.clock_sync import CommandClock
from emppi_ros.robots import plan as plans

SPEED = 0.2  # rad/s
# generous ages, so that a busy machine does not look like a dead robot
PATIENT = BridgeConfig(plan_timeout_s=1.0, plan_lost_s=2.0, rest_within_s=2.0, state_timeout_s=2.0)
MONITORS = MonitorConfig(frozen_after_s=2.0, residual_after_s=2.0)


class MeasuringBackend(Backend):
    """A robot that moves as commanded, and whose joint states only this backend reads."""

    measures = True

    def __init__(self, _node, robot, clock):
        self._clock = clock
        self._rows = [robot.joints.index(name) for name in robot.commanded]
        self._position, self._velocity = np.array(robot.home), np.zeros(len(robot.joints))
        self._stamp, self.states = clock.stamp_now(), []

    def send(self, cycle):
        self._velocity[self._rows] = cycle.command.value
        return cycle.command.value

    def measure(self):
        now = self._clock.stamp_now()
        self._position = self._position + (now - self._stamp) * self._velocity
        self._stamp = now
        self.states.append(BackendState(now, self._position, self._velocity.copy()))
        return self.states[-1]


@pytest.fixture
def command_loop(harness):
    """Return a started command loop with the backend above."""
    task, node = harness.publish_task('panda_push'), harness.tester
    clock = CommandClock(node)
    backend = MeasuringBackend(node, task.robot, clock)
    command_loop = CommandLoop(node, task, backend, clock, PATIENT, MONITORS)
    loop = command_loop.start()
    yield command_loop
    loop.stop()
    command_loop.stop()
    command_loop.close()
    assert not loop.failure


def test_joint_states_of_the_backend_are_published_as_measured(harness, command_loop):
    published = harness.listen(JointState, 'joint_states', qos.SENSOR)
    harness.spin_until(lambda: len(published) > 10)
    measured = {round(state.stamp, 6): state for state in list(command_loop.backend.states)}
    for message in published:
        stamp, position, velocity = convert.read_joints(command_loop.robot, message)
        state = measured[round(stamp, 6)]  # stamps of messages are whole nanoseconds
        assert np.array_equal(position, state.position)
        assert np.array_equal(velocity, state.velocity)


def test_the_measured_robot_follows_plans_when_armed(harness, command_loop):
    robot = command_loop.robot
    applied = harness.listen(JointState, 'emppi/applied')
    sender = harness.publisher(JointTrajectory, 'emppi/plan')
    row = np.full(len(robot.commanded), SPEED)

    def plan():
        controls = np.tile(row, (10, 1))
        return plans.make(robot, harness.now(), row, controls, 0.05, 'linear')

    harness.feeds.append(lambda: sender.publish(convert.write_plan(robot, plan())))
    harness.spin_until(lambda: command_loop.commander.ready)
    command_loop.arm(command_loop.robot)
    harness.spin_until(lambda: applied and np.allclose(applied[-1].velocity, SPEED))
    assert command_loop.commander.machine.phase is Phase.MOVING
    moved = command_loop.backend.states[-1].position - np.array(robot.home)
    assert np.all(moved > 0.0)
