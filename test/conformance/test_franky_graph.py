"""The whole graph drives a simulated FR3, and is killed, hung and starved on the way."""

import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.timeout(400)
FOLLOWING_S = 30.0
LATE = {'plan-late', 'planner-slow'}  # a busy machine has late plans before the planner stops
HOG = 'while True: pass'


@pytest.fixture
def graph(tmp_path):
    import franka_processes

    if reason := franka_processes.missing():
        pytest.skip(reason)
    from franka_graph import Graph, lighter

    made = Graph(tmp_path, lighter(tmp_path))
    yield made
    made.close()


def _held_for_late_plans(graph):
    """Assert that the bridge holds, and the arm is at rest within a second."""
    graph.wait('held')
    assert graph.says('fault') in LATE
    time.sleep(1.0)
    assert graph.sim.comes_to_rest() and graph.sim.measure()['errors'] == []
    answer = graph.operator.arm(True)
    assert not answer.success and 'acknowledge' in answer.message


def test_it_follows_and_after_every_fault_it_rests_and_goes_on(graph):
    from franka_graph import prefer
    from franka_oracle import assert_gentle

    began = time.monotonic()
    while time.monotonic() - began < FOLLOWING_S:
        graph.start_moving()  # again, where a busy machine let plans come late
        time.sleep(0.5)
    stops = {state[2] for state in graph.operator.states if state[2]}
    assert stops <= LATE and graph.sim.measure()['errors'] == []

    graph.children.end('planner', signal.SIGKILL)
    _held_for_late_plans(graph)
    graph.start('planner')
    graph.start_moving()

    graph.children.processes['planner'].send_signal(signal.SIGSTOP)
    _held_for_late_plans(graph)
    graph.children.processes['planner'].send_signal(signal.SIGCONT)
    graph.start_moving()

    hogs = [subprocess.Popen([sys.executable, '-c', HOG]) for _ in range(4)]
    for hog in hogs:
        prefer(hog.pid)  # as the planner is, or they would take nothing from it
    try:
        time.sleep(10.0)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert graph.sim.measure()['errors'] == []
    if graph.says() != 'moving':
        assert graph.says('fault') in {*LATE, 'state-late', ''}
        graph.start_moving()

    graph.sim.say('reflex 6')
    graph.wait('held')
    assert graph.says('fault') == 'robot' and 'joint_reflex' in graph.says('reason')
    graph.start_moving()

    graph.children.end('bridge', signal.SIGKILL)
    time.sleep(1.0)
    assert graph.sim.comes_to_rest()
    graph.operator.bridge = {}
    graph.start('bridge')
    graph.wait('inactive', 60.0)  # it never arms itself
    graph.start_moving()
    time.sleep(5.0)
    assert_gentle(graph.sim.log())
