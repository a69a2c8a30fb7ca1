"""The whole graph on a simulated FR3: planner, belief, bridge with `franky`, and an operator."""

import contextlib
import dataclasses
import os
import threading
import time

from diagnostic_msgs.msg import DiagnosticArray
from franka_processes import Sim
from geometry_msgs.msg import PoseStamped
import numpy as np
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool
import yaml

from emppi_ros.core import config, paths
from emppi_ros.core.pose import Pose
from emppi_ros.nodes.common import convert, middleware, qos
from emppi_ros.nodes.common.graph import describe
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.tools.process_group import ProcessGroup, isolated_environment, unused_domain
from emppi_ros.robots.robot import load_robot

TASK = 'fr3_follow'
CENTRE, RADIUS, TURN_S = np.array([0.5, 0.1, 0.25]), 0.12, 12.0  # of the target's slow circle
TRACKER_HZ = 20.0
_EVERY = QoSProfile(depth=5000)  # none is lost while this process is kept waiting
# robot, graph and operator share two threads
_BRIDGE = {'fci_address': '127.0.0.1', 'realtime': 'ignore', 'rate_hz': 100.0}


def prefer(pid):
    """
    Let a process go before what else the machine does; robot and bridge come first anyway.

    Nothing in the graph needs this on a machine of its own; here it plans, learns and simulates
    the robot on one core.
    """
    with contextlib.suppress(OSError):  # not permitted
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))


class Operator(Node):
    """Moves the target, arms the bridge, and keeps what it says."""

    def __init__(self, context):
        super().__init__('operator', context=context)
        self._robot = load_robot('fr3')
        self._target = self.create_publisher(PoseStamped, 'tracking/target', qos.SENSOR)
        self._arm = self.create_client(SetBool, 'emppi/arm')
        self.bridge, self.planner = {}, {}  # what they said last
        self.stamps, self.states = [], []  # one per command; one per state of the bridge
        self.create_subscription(DiagnosticArray, '/diagnostics', self._hear, 10)
        self._applied = PolledSubscription(self, JointState, 'emppi/applied', self._note, _EVERY)
        self.create_timer(1.0 / TRACKER_HZ, self._work)

    def arm(self, armed):
        """Ask for it; return the answer."""
        assert self._arm.wait_for_service(10.0)
        done = threading.Event()
        future = self._arm.call_async(SetBool.Request(data=armed))
        future.add_done_callback(lambda _: done.set())
        assert done.wait(15.0), 'the bridge does not answer'
        return future.result()

    def _work(self):
        """Take what was applied; move the target."""
        self._applied.poll()
        now = self.get_clock().now().nanoseconds * 1e-9
        angle = 2 * np.pi * now / TURN_S
        place = CENTRE + RADIUS * np.array([np.cos(angle), np.sin(angle), 0.0])
        pose = Pose(place, np.array([1.0, 0.0, 0.0, 0.0]))
        self._target.publish(convert.write_pose(self._robot.frame, now, pose))

    def _hear(self, message):
        for status in message.status:
            if status.name.endswith('planner'):
                self.planner = {pair.key: pair.value for pair in status.values}
            elif status.name.endswith('bridge'):
                self.bridge = {pair.key: pair.value for pair in status.values}
                told = [self.bridge.get(key, '') for key in ('state', 'fault', 'reason')]
                if not self.states or self.states[-1][1:] != told:
                    self.states.append([time.monotonic(), *told])

    def _note(self, message):
        self.stamps.append(convert.to_seconds(message.header.stamp))


def lighter(folder):
    """Return the task with a planner so small that it is in time on a busy machine too."""
    task = config.load(paths.find_config('tasks', TASK, None))
    task['planner'] |= {'models': 4, 'rollouts': 6}
    task['belief'] |= {'particles': 16}
    path = folder / f'{TASK}.yaml'
    path.write_text(yaml.safe_dump(dict(task), sort_keys=False))
    return path


class Graph:
    """All processes, and the operator in this one."""

    def __init__(self, folder, task=TASK):
        self.sim = Sim(folder)
        specs = [s for s in describe(str(task), '', 0, 'franky', True) if not s.simulated_only]
        self.specs = {
            s.name: dataclasses.replace(s, parameters={**s.parameters, **_BRIDGE})
            if s.name == 'bridge'
            else s
            for s in specs
        }
        domain = unused_domain()
        middleware.configure()
        self.children = ProcessGroup(self.specs.values(), isolated_environment(domain), folder)
        prefer(self.pid('planner'))
        self._context = rclpy.Context()
        self._context.init(domain_id=domain)
        self.operator = Operator(self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.operator)
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def pid(self, name):
        """Return the number of a node's process."""
        return self.children.processes[name].pid

    def start(self, name):
        """Start a node again."""
        self.children.start(self.specs[name])
        if name == 'planner':
            prefer(self.pid(name))

    def _spin(self):
        prefer(0)  # tracker and operator are computers of their own
        with contextlib.suppress(ExternalShutdownException):
            self._executor.spin()

    def says(self, key='state'):
        """Return what the bridge said last."""
        return self.operator.bridge.get(key, '')

    def wait(self, state, timeout=30.0):
        """Wait for a state of the bridge."""
        deadline = time.monotonic() + timeout
        while self.says() != state:
            assert time.monotonic() < deadline, (
                f'not {state}: {self.operator.bridge}; {self.children.last_words("bridge")}'
            )
            self.children.check()
            time.sleep(0.02)

    def start_moving(self, timeout=60.0):
        """Acknowledge whatever was, and arm; again, if a busy machine let the plans come late."""
        self.wait_for_any()
        deadline = time.monotonic() + timeout
        while self.says() != 'moving':
            assert time.monotonic() < deadline, self.operator.bridge
            if self.says() in ('held', 'inactive'):
                self.operator.arm(False)
                self.operator.arm(True)
            time.sleep(0.3)

    def wait_for_any(self, timeout=60.0):
        """Wait until the bridge works at all."""
        deadline = time.monotonic() + timeout
        while self.says('state') not in ('inactive', 'armed', 'moving', 'stopping', 'held'):
            assert time.monotonic() < deadline, self.children.last_words('bridge')
            self.children.check()
            time.sleep(0.05)

    def close(self):
        codes = self.children.stop()
        self._context.try_shutdown()
        self._thread.join(5.0)
        self.sim.end()
        return codes
