"""The action runs a task until it ends, and says why; a robot that still moves is paused."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
import swaps

from emppi_ros.belief.belief_session import StampedBelief
from emppi_ros.nodes.common import convert, graph, interfaces, qos
from emppi_ros.nodes.task_server.task_run import EndCode, StatusCode
from emppi_ros.nodes.topics import named_belief
from emppi_ros.priors import prior_file
from emppi_ros.priors.particles import Belief as Particles
from emppi_ros.priors.prior_file import ParameterPrior, PriorFile
from emppi_ros.tasks.task import load_task

needs_interfaces = pytest.mark.skipif(not interfaces.AVAILABLE, reason=interfaces.MISSING)
FACTOR = 0.5  # simulated seconds per second: a busy machine plans late


alone = pytest.mark.alone  # nodes reply to a switch within seconds


class Client:
    """A graph of processes in slow simulated time, and a client of the action."""

    def __init__(self, harness):
        self.harness = harness
        self.statuses = harness.listen(interfaces.Status, 'emppi/status', qos.LATCHED)
        self.beliefs = harness.listen(interfaces.Belief, 'emppi/belief/named', qos.NEWEST)
        self._client = ActionClient(harness.tester, interfaces.RunTask, 'emppi/run_task')
        more = {'bridge': swaps.PATIENT, 'simulator': {'real_time_factor': FACTOR}}
        specs = [*graph.describe('panda_push', '', 1), graph.TASK_SERVER]
        parameters = [
            {**s.parameters, **more.get(s.name, {}), 'use_sim_time': True} for s in specs
        ]
        harness.spawn(
            *(dataclasses.replace(s, parameters=p) for s, p in zip(specs, parameters, strict=True))
        )
        self.wait(self._client.server_is_ready)
        self.wait(lambda: self.beliefs and self.status.task)
        self.wait(lambda: harness.says('task_server')[2].get('lifecycle') == 'active')

    @property
    def status(self):
        return self.statuses[-1] if self.statuses else interfaces.Status()

    def wait(self, condition):
        self.harness.spin_until(condition, 120.0)

    def code(self, code):
        self.wait(lambda: self.status.code == code)

    def call(self, name, value):
        answer = self.harness.call(SetBool, f'emppi/{name}', SetBool.Request(data=value))
        assert answer.success, answer.message

    def send(self, task='', prior='', timeout=60.0):
        """Send a goal; return its handle and the list of its feedback."""
        goal = interfaces.RunTask.Goal(task=task, prior=prior)
        goal.timeout = convert.to_duration(timeout)
        heard = []
        future = self._client.send_goal_async(
            goal, feedback_callback=lambda message: heard.append(message.feedback)
        )
        self.wait(future.done)
        return future.result(), heard

    def end(self, handle):
        """Return the status of a goal at its end, and its result."""
        assert handle.accepted, self.harness.logs()
        future = handle.get_result_async()
        self.wait(future.done)
        return future.result().status, future.result().result

    def run(self, **goal):
        """Return the status at the end of a goal, its result, and its feedback."""
        while True:
            handle, heard = self.send(**goal)
            state, result = self.end(handle)
            # of a node that a busy machine holds up; then nothing has changed
            if 'no reply' not in result.message:
                return state, result, heard


@pytest.fixture(scope='module')
def client(module_harness):
    if not interfaces.AVAILABLE:
        pytest.skip(interfaces.MISSING)
    return Client(module_harness)


@pytest.fixture(autouse=True)
def at_rest(request):
    """Leave the graph at rest, not armed and not paused."""
    yield
    if 'client' in request.fixturenames:
        client = request.getfixturevalue('client')
        for name in ('arm', 'pause'):
            client.call(name, False)
        client.code(StatusCode.NOT_ARMED)


@pytest.mark.slow
def test_without_emppi_msgs_the_node_says_how_to_build_it():
    code = (
        "import sys; sys.modules['emppi_msgs'] = None\n"
        "from emppi_ros.nodes.__main__ import start; start('task_server')"
    )
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, f'error: {interfaces.MISSING}\n')


@needs_interfaces
def test_the_named_belief_holds_what_the_belief_holds():
    task, rng = load_task('panda_push'), np.random.default_rng(0)
    theta = task.prior.sample(50, rng)
    weight = rng.dirichlet(np.ones(50))
    stamped = StampedBelief(2.5, Particles(theta, np.log(weight)), 31.0)
    message = named_belief.write_named_belief(task, stamped, 7)
    np.testing.assert_array_equal(np.reshape(message.particles, theta.shape), theta)
    np.testing.assert_allclose(message.weights, weight, rtol=1e-15)  # rounding of exp(log)
    assert (message.task, message.prior, message.updates) == (task.name, "the task's own", 7)
    assert (convert.to_seconds(message.header.stamp), message.ess) == (2.5, 31.0)
    for i, (parameter, estimate) in enumerate(
        zip(task.parameters, message.parameters, strict=True)
    ):
        assert (estimate.name, estimate.unit) == (parameter.name, parameter.unit)
        below = [np.sum(weight[theta[:, i] < v]) for v in (estimate.lower, estimate.upper)]
        upto = [np.sum(weight[theta[:, i] <= v]) for v in (estimate.lower, estimate.upper)]
        assert below[0] < 0.05 <= upto[0] and below[1] < 0.95 <= upto[1]
        assert estimate.mean == pytest.approx(weight @ theta[:, i], rel=1e-12)  # order of the sum


@pytest.mark.slow
@alone
def test_a_robot_that_is_not_armed_is_not_armed_by_a_goal(client):
    state, result, _ = client.run(task='panda_reconfigure')
    assert (state, result.error_code) == (GoalStatus.STATUS_ABORTED, EndCode.NOT_ARMED)
    assert 'emppi/arm' in result.message
    assert client.status.code == StatusCode.NOT_ARMED and client.status.task == 'panda_push'


@alone
def test_a_task_that_is_refused_or_too_slow_is_told_and_of_two_goals_one_is_rejected(client):
    client.call('arm', True)
    _, result, _ = client.run(task='panda_pusch')
    assert result.error_code == EndCode.REFUSED and "did you mean 'panda_push'" in result.message
    _, result, _ = client.run(task='panda_push', prior='no.yaml')
    assert result.error_code == EndCode.REFUSED and 'no such file: no.yaml' in result.message
    assert client.status.task == 'panda_push'
    first, _ = client.send()
    client.wait(lambda: client.status.running and client.status.code == StatusCode.FOLLOWING)
    assert not client.send()[0].accepted
    future = first.cancel_goal_async()
    client.wait(future.done)
    state, result = client.end(first)
    assert (state, result.error_code) == (GoalStatus.STATUS_CANCELED, EndCode.CANCELED)
    assert result.message == 'canceled; the robot is paused'
    client.code(StatusCode.PAUSED)
    assert not client.status.running and client.status.armed
    _, result, _ = client.run()
    assert result.error_code == EndCode.PAUSED
    client.call('pause', False)
    client.wait(lambda: client.status.code != StatusCode.PAUSED)  # the server hears it later
    state, result, _ = client.run(timeout=0.2)
    assert (state, result.error_code) == (GoalStatus.STATUS_ABORTED, EndCode.TIMEOUT)
    assert 'no success within 0.2 s' in result.message
    client.code(StatusCode.PAUSED)


@alone
def test_a_fault_and_a_disarmed_robot_end_a_goal(client):
    client.call('arm', True)
    handle, _ = client.send()
    client.code(StatusCode.FOLLOWING)
    client.call('arm', False)
    assert client.end(handle)[1].error_code == EndCode.NOT_ARMED
    client.call('arm', True)
    handle, _ = client.send()
    client.code(StatusCode.FOLLOWING)
    other = client.harness.publisher(Float64MultiArray, 'forward_velocity_controller/commands')
    _, result = client.end(handle)
    assert result.error_code == EndCode.FAULT and '[second-publisher]' in result.message
    client.harness.tester.destroy_publisher(other)


@alone
def test_a_goal_switches_to_a_task_with_a_prior_and_succeeds(client, tmp_path):
    known = tmp_path / 'known.yaml'
    values = ParameterPrior('kg', values=(0.9, 1.1))
    prior_file.write(known, PriorFile('test', (), {'block_mass': values}, (1.0, 1.0)))
    client.call('arm', True)
    state, result, heard = client.run(task='panda_reconfigure', prior=str(known))
    assert (state, result.success, result.task) == (
        GoalStatus.STATUS_SUCCEEDED, True, 'panda_reconfigure',
    ), result.message  # fmt: skip
    assert [p.name for p in result.parameters] == ['block_mass', 'block_friction']
    times = [convert.to_seconds(feedback.time) for feedback in heard]
    assert times == sorted(times)
    errors = [feedback.error for feedback in heard if convert.to_seconds(feedback.time) > 0.0]
    assert errors[-1] < errors[0]
    assert str(known) in client.beliefs[-1].prior and client.beliefs[-1].updates > 0
    assert client.status.task == 'panda_reconfigure'
