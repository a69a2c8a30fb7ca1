"""A planner and a robot, in processes of their own, that can be broken on demand."""

import math
import os
import signal
import time
from typing import NamedTuple

import numpy as np

PERIOD_S = 0.05  # of the planner
ROBOT_HZ = 250.0
LISTENERS = 2  # to a plan: the bridge, and we who record
# in the middle of every joint's range, so that half a radian each way is far from all stops
START = np.array([0.0, 0.0, 0.0, -1.6, 0.0, 1.8, 0.0])
_PRIORITY = 10  # the bridge's
_NOISE = 1e-6  # rad and rad/s: a robot's measurements are never the same twice
BAD = {'nan': float('nan'), 'inf': float('inf'), 'huge': 1e308}


class Speeds(NamedTuple):
    """What the planner asks for: speeds (joints,) that swing by a share of themselves."""

    mean: tuple[float, ...]  # rad/s
    swing: float = 0.0
    rate: float = 0.5  # Hz

    def at(self, times):
        """Return speeds (n, joints) at times [s]."""
        factor = 1.0 - self.swing * (0.5 - 0.5 * np.cos(2 * np.pi * self.rate * times))
        return factor[:, None] * np.array(self.mean)

    @property
    def gentle(self):
        """How hard the plan itself brakes at most [rad/s^2]."""
        return np.pi * self.rate * self.swing * max(map(abs, self.mean))


def plan(domain, robot, pipe, last):
    """
    Publish plans at 20 Hz as told through `pipe`; each starts half a period later.

    `last` (double) is the stamp of the newest good plan, written before it is sent: whoever is
    killed in between leaves no doubt about what may be on its way.
    """
    from rclpy.node import Node
    from trajectory_msgs.msg import JointTrajectory

    from emppi_ros.nodes.common import convert, qos
    from emppi_ros.robots import plan as plans

    context = _context(domain)
    node = Node('planner', context=context)
    publisher = node.create_publisher(JointTrajectory, 'emppi/plan', qos.DEFAULT)
    speeds, mode, delay, origin = None, 'silent', 0.0, 0.0
    while publisher.get_subscription_count() < LISTENERS:
        time.sleep(0.01)
    pipe.send('ready')
    moment = time.time()
    while True:
        while pipe.poll(max(0.0, moment - time.time())):
            order = pipe.recv()
            if order[0] == 'quit':
                return
            mode, delay = order[0], order[1] if order[0] == 'late' else 0.0
            if mode == 'go':
                speeds, origin = order[1], time.time()
        begin, moment = moment, moment + PERIOD_S
        moment = max(moment, time.time())  # woken late: late once, not for ever
        if mode == 'silent' or speeds is None:
            continue
        start = begin + 0.5 * PERIOD_S - delay
        steps = 0.05 * np.arange(11)
        rows = speeds.at(start + steps - origin)
        made = plans.make(robot, start, rows[0], rows[1:], 0.05, 'linear')
        message = convert.write_plan(robot, made)
        if mode in BAD:
            point = message.points[np.random.default_rng().integers(len(message.points))]
            point.velocities[np.random.default_rng().integers(7)] = BAD[mode]
        elif mode == 'go':
            last.value = start
        publisher.publish(message)


def move(domain, robot, pipe, last):
    """
    Be a robot that moves exactly as told, and say so 250 times a second.

    `last` (double) is the stamp of the newest good joint state. Orders: ok, lost, frozen, nan,
    jump (rad), renamed; of its controller inactive, goal (another client's), scaled. A robot is a
    computer of its own: here it comes first, as the bridge does.
    """
    from rclpy.node import Node
    from sensor_msgs.msg import JointState
    from std_msgs.msg import Float64MultiArray
    from trajectory_msgs.msg import JointTrajectory

    from emppi_ros.nodes.common import convert, process, qos
    from emppi_ros.nodes.common.polling import PolledSubscription

    process.set_real_time_priority(_PRIORITY)
    node = Node('robot', context=_context(domain))
    rng = np.random.default_rng(0)
    publisher = node.create_publisher(JointState, robot.topics.joint_states, qos.SENSOR)
    controller, arm = _Controller(node, robot), {'velocity': np.zeros(7), 'position': START.copy()}

    def follow(message, sent):
        stamp = convert.to_seconds(message.header.stamp)
        controller.follower.accept(convert.read_trajectory(robot, message), stamp or math.nan)
        arm['velocity'] = None

    def take(message, _sent):
        arm['velocity'] = convert.read_command(robot, message)

    topics = robot.topics.commands
    inputs = [
        PolledSubscription(node, JointTrajectory, topics['trajectory'], follow, qos.DEFAULT, True),
        PolledSubscription(node, Float64MultiArray, topics['velocity'], take, qos.DEFAULT, True),
    ]
    mode, amount, frozen, moment = 'ok', 0.0, None, time.time()
    pipe.send('ready')
    while True:
        while pipe.poll(max(0.0, moment - time.time())):
            order = pipe.recv()
            if order[0] == 'quit':
                return
            mode, amount = (*order, 0.0)[:2]
            controller.obey(mode)
        moment = max(moment + 1.0 / ROBOT_HZ, time.time())
        for topic in inputs:
            topic.poll()
        now = time.time()
        if arm['velocity'] is None:
            arm['position'], velocity = controller.step(now, arm['position'])
        else:
            velocity = arm['velocity']
            arm['position'] = arm['position'] + velocity / ROBOT_HZ
        if mode == 'lost':
            continue
        if frozen is None or mode != 'frozen':
            frozen = [row + rng.normal(0.0, _NOISE, 7) for row in (arm['position'], velocity)]
        message = convert.write_joints(robot, now, *frozen)
        _spoil(message, mode, amount, rng)
        if mode == 'ok':
            last.value = now
        publisher.publish(message)


class _Controller:
    """A joint_trajectory_controller, where control_msgs is installed with its states."""

    def __init__(self, node, robot):
        from action_msgs.msg import GoalStatusArray

        from emppi_ros.nodes.backends import controller_monitor
        from emppi_ros.nodes.common import interfaces, qos
        from emppi_ros.sim.trajectory_controller import TrajectoryController

        topic = robot.topics.commands['trajectory']
        kind = interfaces.JointTrajectoryControllerState
        self.follower, self._robot = TrajectoryController(START, 1.0 / ROBOT_HZ), robot
        self._mode, self._write = 'ok', controller_monitor.write_state
        self._states = self._goals = None
        if kind is not None:
            states = controller_monitor.state_topic(topic)
            goals = controller_monitor.goal_topic(topic)
            self._states = node.create_publisher(kind, states, qos.NEWEST)
            self._goals = node.create_publisher(GoalStatusArray, goals, qos.LATCHED)

    def obey(self, mode):
        """Take an order."""
        from action_msgs.msg import GoalStatus, GoalStatusArray

        if self._goals is not None and 'goal' in (self._mode, mode):
            executing, ended = GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_SUCCEEDED
            status = GoalStatus(status=executing if mode == 'goal' else ended)
            self._goals.publish(GoalStatusArray(status_list=[status]))
        self._mode = mode

    def step(self, now, position):
        """Return the arm's next position and its velocity (joints,)."""
        if self._mode == 'inactive':
            self.follower.activate(position)  # where it is, as often as it may be active again
            return position, np.zeros(7)
        self.follower.update(now, position)
        state = self.follower.reference
        if self._states is not None:
            message = self._write(self._robot, now, state)
            message.speed_scaling_factor = 0.5 if self._mode == 'scaled' else 1.0
            self._states.publish(message)
        return state.position, state.velocity


def _spoil(message, mode, amount, rng):
    """Make a joint state wrong, as told."""
    if mode == 'nan':
        message.position[rng.integers(7)] = float('nan')
    elif mode == 'jump':
        message.position[2] += amount
    elif mode == 'renamed':
        message.name = [f'other_{name}' for name in message.name]


def kill(process):
    """Kill a process now."""
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def _context(domain):
    import rclpy

    context = rclpy.Context()
    context.init(domain_id=domain)
    return context
