"""
A simulator of another make, as a process: `python external_simulator.py TASK FACTOR`.

It has a controller manager with the rules of ros2_control, in simulated time, and shares no code
with our simulator: a joint_state_broadcaster, a forward_command_controller, and a
joint_trajectory_controller with `interpolate_from_desired_state` and quintic splines. The arm
moves as it is commanded, and the tracked objects lie where they begin.
"""

import sys
import time

from geometry_msgs.msg import PoseStamped
import numpy as np
import rclpy
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from scipy.interpolate import BPoly
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.core.pose import Pose
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.tasks.task import load_task

PERIOD_S = 0.004  # of the controller manager, simulated


def seconds(stamp):
    return stamp.sec + 1e-9 * stamp.nanosec


class ForwardCommandController:
    """Copies the newest command, which stays for ever."""

    def __init__(self, count):
        self.command, self.rejected = np.zeros(count), 0

    def receive(self, message):
        if len(message.data) == len(self.command):
            self.command = np.array(message.data)
        else:
            self.rejected += 1

    def update(self, _now):
        return self.command


class JointTrajectoryController:
    """Follows the newest valid trajectory, and holds its last point."""

    def __init__(self, joints, position):
        self._joints, self.rejected = joints, 0
        zero = np.zeros_like(position)
        self._splines, self._knots, self._end = [], [], (position, zero, zero)

    def receive(self, message, now):
        start = seconds(message.header.stamp) or now  # 0 is now
        times = start + np.array([seconds(p.time_from_start) for p in message.points])
        last = message.points[-1] if message.points else None
        if (
            last is None
            or sorted(message.joint_names) != sorted(self._joints)
            or np.any(np.diff(times) <= 0.0)
            or np.any(last.velocities)  # allow_nonzero_velocity_at_trajectory_end: false
            or times[-1] <= now  # ends in the past
        ):
            self.rejected += 1
            print(
                'rejected',
                now - start,
                times[-1:] - now,
                last and list(last.velocities),
                file=sys.stderr,
            )
            return
        order = [message.joint_names.index(joint) for joint in self._joints]
        future = int(np.searchsorted(times, now, side='right'))
        states = [self.desired(now)] + [
            tuple(np.array(row)[order] for row in (p.positions, p.velocities, p.accelerations))
            for p in message.points[future:]
        ]
        self._knots = [now, *times[future:]]
        self._splines = [
            BPoly.from_derivatives([a, b], [list(s), list(e)])
            for a, b, s, e in zip(self._knots, self._knots[1:], states, states[1:], strict=False)
        ]
        zero = np.zeros(len(order))
        self._end = (states[-1][0], zero, zero)

    def desired(self, now):
        """Return desired position, velocity and acceleration."""
        i = int(np.searchsorted(self._knots, now, side='right')) - 1
        if not self._splines or i >= len(self._splines):
            return self._end
        return tuple(self._splines[max(i, 0)](now, d) for d in range(3))

    def update(self, now):
        return self.desired(now)[1]


class ExternalSimulator(Node):
    """Robot, controllers, tracker and clock."""

    def __init__(self, task, factor):
        super().__init__('external_simulator')
        robot, self._task, self._factor = task.robot, task, factor
        self._now, self._position = 0.0, np.array(robot.home)
        self._forward = ForwardCommandController(len(robot.commanded))
        self._trajectory = JointTrajectoryController(robot.commanded, self._position)
        self._active = self._forward
        self._fastest, self._last = 0.0, np.zeros(len(robot.commanded))
        self._states = self.create_publisher(JointState, robot.topics.joint_states, 10)
        self._clock = self.create_publisher(Clock, '/clock', 10)
        self._report = self.create_publisher(String, 'external_simulator/report', 10)
        self._poses = {
            name: self.create_publisher(PoseStamped, f'tracking/{name}', 10)
            for name in task.tracked
        }
        commands = robot.topics.commands
        topics = (
            (Float64MultiArray, commands['velocity'], self._take_command),
            (JointTrajectory, commands['trajectory'], self._take_trajectory),
        )
        self._commands = [PolledSubscription(self, *one, qos.DEFAULT) for one in topics]

    def _take_command(self, message):
        self._active = self._forward
        self._forward.receive(message)

    def _take_trajectory(self, message):
        self._active = self._trajectory
        self._trajectory.receive(message, self._now)

    def step(self):
        """Advance by one period of the controller manager."""
        self._now += PERIOD_S
        for subscription in self._commands:
            subscription.poll()
        speed = self._active.update(self._now)
        self._position = self._position + PERIOD_S * speed
        self._fastest = max(self._fastest, float(np.max(np.abs(speed))))
        names = [*self._task.robot.joints, 'another_joint']  # in an order of its own
        state = JointState(name=names[::-1])
        state.position = [*self._position, 0.0][::-1]
        state.velocity = [*speed, 0.0][::-1]
        state.header.stamp = convert.to_stamp(self._now)
        self._states.publish(state)
        if round(self._now / PERIOD_S) % 5 == 0:
            start = self._task.start().qpos
            for name, publisher in self._poses.items():
                at = self._task.objects[name].qpos
                pose = Pose(start[at : at + 3], start[at + 3 : at + 7])
                publisher.publish(convert.write_pose(self._task.robot.frame, self._now, pose))
            rejected = self._forward.rejected + self._trajectory.rejected
            self._report.publish(String(data=f'{self._fastest} {rejected}'))
        self._clock.publish(Clock(clock=state.header.stamp))

    def run(self):
        """Run at the real-time factor until the process is ended."""
        due = time.monotonic()
        while rclpy.ok():
            due = max(due + PERIOD_S / self._factor, time.monotonic() - 0.1)
            time.sleep(max(0.0, due - time.monotonic()))
            self.step()


if __name__ == '__main__':
    rclpy.init()
    ExternalSimulator(load_task(sys.argv[1]), float(sys.argv[2])).run()
