"""A graph of real processes whose task is swapped, and what is to hold while that happens."""

import os
from typing import NamedTuple

import numpy as np
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.nodes.common import graph, qos
from emppi_ros.nodes.common.convert import to_seconds
from emppi_ros.robots.robot import load_robot
from emppi_ros.tasks import switch_protocol
from emppi_ros.tasks.task import task_text

SWAPS = int(os.environ.get('EMPPI_SWAPS', '0'))  # of the campaign, `make swaps`
# a busy machine plans late, and an arm that follows old plans presses on the table; and here
# nobody arms again what is held
PATIENT = {
    'plan_timeout_s': 0.5, 'rest_within_s': 1.0, 'plan_lost_s': 1000.0, 'late_plans': 1000,
    'state_timeout_s': 1000.0, 'residual_after_s': 1000.0,
}  # fmt: skip
SPEED, REST_S = 0.05, 0.1  # rad/s: in motion; below it for so long: at rest
# from rest to the new task: the bridge's answer, the planner's next step, its going over. A block
# that was tipped may fall back meanwhile; an arm that is commanded to be still yields to it
SINCE_REST_S = 0.1
ROBOT = load_robot('panda')


class Swap(NamedTuple):
    """What came of a request, and what was measured meanwhile."""

    answer: switch_protocol.SwitchReply
    speed_before: float  # rad/s, commanded, the fastest joint, when the request was sent
    commanded: float  # when the new task was published
    measured: float  # likewise; what leans on an arm at rest may push it
    rested: float  # s from when it was last measured at rest until then; inf if it never was
    steps: float  # the largest change from one command to the next, over what is allowed


class SwapGraph:
    """Planner, belief, bridge and simulator as processes; the arm is armed and moves."""

    def __init__(self, harness, task='panda_push', bridge=PATIENT, **others):
        self.harness, self.task = harness, task
        specs = {spec.name: spec for spec in graph.describe(task, '', 1)}
        specs['bridge'] = graph.NodeSpec('bridge', bridge)
        for name, parameters in others.items():
            spec = specs[name]
            specs[name] = graph.NodeSpec(name, {**spec.parameters, **parameters})
        self.texts = harness.listen(String, 'emppi/task', qos.LATCHED)
        self.answers = harness.listen(String, 'emppi/task/answers')
        self.plans = harness.listen(JointTrajectory, 'emppi/plan')
        self._rows, self._states = [], []  # (stamp, velocities)
        self._published = []  # when tasks were, by the clock of the one who did
        tester = harness.tester
        tester.create_subscription(JointState, 'emppi/applied', self._apply, qos.DEFAULT)
        tester.create_subscription(JointState, 'joint_states', self._measure, qos.SENSOR)
        tester.create_subscription(String, 'emppi/task', self._note, qos.LATCHED)
        self.requests = harness.publisher(String, 'emppi/task/request')
        self.children = harness.spawn(*specs.values())
        harness.spin_until(lambda: self._rows and len(self.plans) > 3, 60.0)

    def start_over(self):
        """Let the arm rest, not armed, with the first task, and forget what was heard."""
        for name in ('emppi/pause', 'emppi/arm'):
            self.harness.call(SetBool, name, SetBool.Request(data=False))
        self.harness.spin_until(lambda: self.speed() == 0.0)
        if self.running() != task_text(self.task):
            assert self.ask(self.task).said == switch_protocol.DONE
        del self.texts[:-1], self.answers[:]

    def arm(self):
        answer = self.harness.call(SetBool, 'emppi/arm', SetBool.Request(data=True))
        assert answer.success, answer.message

    def speed(self):
        return float(np.max(np.abs(self._rows[-1][1])))

    def get_moving(self):
        self.harness.spin_until(lambda: self.speed() > SPEED, 30.0)

    def send(self, request):
        """Send a request; return what tells its answer."""
        text = switch_protocol.tagged(request)
        self.harness.spin_until(lambda: self.requests.get_subscription_count() > 0)
        self.requests.publish(String(data=text))
        return switch_protocol.digest(text)

    def answer(self, about):
        """Return the planner's answer, None before it has come."""
        found = [switch_protocol.read_reply(message.data) for message in self.answers]
        return next((a for a in found if a.about == about and a.node == '/planner'), None)

    def ask(self, request):
        about = self.send(request)
        self.harness.spin_until(lambda: self.answer(about), 40.0)
        return self.answer(about)

    def swap(self, request):
        """Ask for a task while the arm moves; return what was seen."""
        self.get_moving()
        for seen in (self._published, self.answers, self.plans):
            seen.clear()
        del self._rows[:-1], self._states[:-1]
        before = self.speed()
        answer = self.ask(request)
        usable = ROBOT.dynamics_factor * np.array(ROBOT.limits.acceleration)
        # a step lasts 4 ms, or up to twice as long after a hiccup; some may not have come here
        commands = np.array([velocity for _, velocity in self._rows])
        spans = np.maximum(np.diff([stamp for stamp, _ in self._rows]), 0.008)[:, None]
        steps = np.max(np.abs(np.diff(commands, axis=0)) / (usable * spans))
        at_rest = [at(rows, self._published) for rows in (self._rows, self._states)]
        rested = since_rest(self._states, self._published)
        return Swap(answer, before, *at_rest, rested, float(steps))

    def running(self):
        """Return the YAML that is in force."""
        return self.texts[-1].data

    def _apply(self, message):
        self._rows.append((to_seconds(message.header.stamp), np.array(message.velocity)))

    def _measure(self, message):
        self._states.append((to_seconds(message.header.stamp), np.array(message.velocity)))

    def _note(self, _message, info):
        self._published.append(info['source_timestamp'] * 1e-9)


def at(rows, published):
    """Return the speed of the fastest joint when a task was published; NaN if none was."""
    known = [velocity for stamp, velocity in rows if published and stamp <= published[0]]
    return float(np.max(np.abs(known[-1]))) if known else np.nan


def since_rest(rows, published):
    """Return how long before a task was published an arm was last slow for REST_S [s]."""
    moved, rested = -np.inf, -np.inf
    for stamp, velocity in rows:
        if published and stamp <= published[0]:
            moved = stamp if np.isinf(moved) or np.max(np.abs(velocity)) >= SPEED else moved
            rested = stamp if stamp - moved >= REST_S else rested
    return published[0] - rested if published else np.inf
