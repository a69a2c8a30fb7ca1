"""Rows C3 and N3: no processor time, and more messages than anyone can read."""

import multiprocessing
import os
from pathlib import Path
import time

from faultlab import trials
import numpy as np
import pytest

pytestmark = pytest.mark.alone

STARVED = 6  # faults while others want the processor
_FLOOD_S = 2.0
_GROWTH_KB = 60_000  # two strings of 10 MB in flight, and what an allocator keeps of them


def _burn():
    while True:
        sum(range(10_000))


@pytest.fixture
def busy():
    """Let twice as many processes as there are processors do nothing, all the time."""
    context = multiprocessing.get_context('spawn')
    burners = [context.Process(target=_burn, daemon=True) for _ in range(2 * os.cpu_count())]
    for burner in burners:
        burner.start()
    yield
    for burner in burners:
        burner.kill()
        burner.join()


@pytest.mark.slow
def test_c3_without_processor_time_nothing_illegal_leaves(graph, busy, record_property):
    rng, done = np.random.default_rng(11), []
    for fault in trials.FAULTS[:STARVED]:
        result = trials.run(graph, fault, rng)
        if not result.unprovoked:
            done.append(result)
    record_property('count', len(done))
    # how soon it brakes is not asked for here: nobody can be in time without a processor
    timing = ('braking began', 'at rest after', 'stopped, but', 'says')
    bad = [v for r in done for v in r.violations if not v.startswith(timing)]
    assert not bad


def _flood(domain, seconds):
    """Publish nonsense as fast as possible: plans, 10 MB strings, and types nobody asked for."""
    import rclpy
    from rclpy.node import Node
    from std_msgs.msg import String
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from emppi_ros.nodes import qos

    context = rclpy.Context()
    context.init(domain_id=domain)
    node = Node('flood', context=context)
    plans = node.create_publisher(JointTrajectory, 'emppi/plan', 10)
    tasks = node.create_publisher(String, 'emppi/task', qos.LATCHED)
    wrong = node.create_publisher(String, 'joint_states', 10)
    bad = JointTrajectory(joint_names=['x'] * 7, points=[JointTrajectoryPoint()] * 3)
    long = String(data='x' * 10_000_000)
    end, count = time.time() + seconds, 0
    while time.time() < end:
        for _ in range(100):
            plans.publish(bad)
            wrong.publish(String(data='?'))
            count += 1
        if count % 4000 == 0:
            tasks.publish(long)
        time.sleep(0.01)  # ten thousand a second
    node.destroy_node()
    context.try_shutdown()


def _resident_kb(pid):
    lines = Path(f'/proc/{pid}/status').read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith('VmRSS')))


@pytest.mark.slow
def test_n3_a_flood_is_dropped_and_the_bridge_keeps_its_rate(graph, record_property):
    before = _resident_kb(graph.bridge.pid)
    context = multiprocessing.get_context('spawn')
    flood = context.Process(target=_flood, args=(graph.domain, _FLOOD_S), daemon=True)
    flood.start()
    graph.listen(1.5)  # it starts
    graph.forget_now()
    graph.listen(_FLOOD_S)
    periods = np.diff([one.time for one in graph.applied])
    flood.join(20.0)
    record_property('count', len(periods))
    assert np.median(periods) <= 2.0 * 0.004
    assert _resident_kb(graph.bridge.pid) - before < _GROWTH_KB
    assert graph.children.code('bridge') is None
    graph.listen(0.3)
    result = trials.run(graph, trials.FAULTS[0], np.random.default_rng(4))  # as good as ever
    assert not result.unprovoked and result.said == 'held plan-late'
