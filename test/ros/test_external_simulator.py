"""With `simulate:=false` a simulator of another make is the robot, and simulated time its own."""

import dataclasses
from pathlib import Path
import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.nodes.common import convert, graph, qos
from emppi_ros.nodes.tools.process_group import isolated_environment
from emppi_ros.robots import plan as plans

pytestmark = pytest.mark.alone
TASK, SPEED = 'panda_push', 0.2  # rad/s
# generous ages, so that a busy machine does not look like a dead robot
PATIENT = {'plan_timeout_s': 1.0, 'plan_lost_s': 2.0, 'rest_within_s': 2.0, 'state_timeout_s': 2.0}


class World:
    """The simulator's process, and what it says."""

    def __init__(self, harness, factor):
        self.harness = harness
        script = Path(__file__).with_name('external_simulator.py')
        self._process = subprocess.Popen(
            [sys.executable, str(script), TASK, str(factor)],
            env=isolated_environment(harness.domain),
        )
        self.clocks = harness.listen(Clock, '/clock', qos.NEWEST)
        self.applied = harness.listen(JointState, 'emppi/applied', qos.NEWEST)
        self._reports = harness.listen(String, 'external_simulator/report', qos.NEWEST)

    def now(self):
        return convert.to_seconds(self.clocks[-1].clock) if self.clocks else 0.0

    def speed(self):
        return np.max(np.abs(self.applied[-1].velocity)) if self.applied else 0.0

    def report(self):
        """Return the fastest joint so far [rad/s], and how many messages were rejected."""
        count = len(self._reports)
        self.harness.spin_until(lambda: len(self._reports) > count)
        fastest, rejected = self._reports[-1].data.split()
        return float(fastest), int(rejected)

    def start(self, names, bridge):
        extra = {'bridge': bridge}
        specs = [spec for spec in graph.describe(TASK, '', 0) if spec.name in names]
        specs = [
            dataclasses.replace(spec, parameters={**spec.parameters, **extra.get(spec.name, {})})
            for spec in specs
        ]
        for spec in specs:
            spec.parameters['use_sim_time'] = True
        return self.harness.spawn(*specs)

    def arm(self):
        self.harness.spin_until(lambda: self.applied)
        answer = self.harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True))
        assert answer.success, answer.message

    def close(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def start(harness):
    made = []

    def begin(factor):
        made.append(World(harness, factor))
        return made[-1]

    yield begin
    for world in made:
        world.close()


@pytest.mark.parametrize(
    ('backend', 'factor'),
    [('trajectory', 0.5), pytest.param('forward', 2.0, marks=pytest.mark.slow)],
)
def test_the_bridge_moves_it_as_planned_at_any_rate_of_its_clock(harness, start, backend, factor):
    world, robot = start(factor), harness.publish_task(TASK).robot
    sender = harness.publisher(JointTrajectory, 'emppi/plan')
    row = np.full(len(robot.commanded), SPEED)

    def plan():
        made = plans.make(robot, world.now(), row, np.tile(row, (10, 1)), 0.05, 'linear')
        sender.publish(convert.write_plan(robot, made))

    world.start(['bridge'], {'backend': backend, **PATIENT})
    world.arm()
    harness.feeds.append(plan)
    harness.spin_until(lambda: world.speed() > 0.99 * SPEED)
    began = world.now()
    harness.spin_until(lambda: world.now() > began + 0.3)
    harness.feeds.clear()
    harness.spin_until(lambda: world.speed() == 0.0)
    fastest, rejected = world.report()
    # a message that is late is joined by a spline, which is faster for a moment: 0.2036 rad/s on a
    # busy machine
    assert rejected == 0 and 0.99 * SPEED < fastest < 1.05 * SPEED
    harness.spin_until(lambda: harness.says('bridge')[2]['fault'] == 'plan-late')


@pytest.mark.slow
def test_the_whole_graph_works_and_learns_with_it(harness, start):
    world = start(0.3)
    world.start(['planner', 'belief', 'bridge'], {'backend': 'trajectory'})
    harness.spin_until(lambda: 'planner' in harness.statuses and 'belief' in harness.statuses)

    def says(name, word):
        return harness.statuses.get(name, (0, '', {}))[2].get(word, '')

    harness.spin_until(lambda: says('planner', 'plan_ms_p50') not in ('', 'nan'), 60.0)
    world.arm()
    harness.spin_until(lambda: world.speed() > 0.05)
    harness.spin_until(lambda: float(says('belief', 'updates') or 0) > 20, 60.0)
    assert world.report()[1] == 0
    assert says('bridge', 'fault') == ''
