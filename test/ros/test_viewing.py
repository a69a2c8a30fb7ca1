"""The ROS source of the web page observes a running graph and controls it."""

import argparse

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
pytest.importorskip('viser', reason="viser is not installed: pip install 'emppi_ros[view]'")

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from std_msgs.msg import String

from emppi_ros.cli import view
from emppi_ros.core.errors import ConfigError, ViewError
from emppi_ros.nodes.common import graph, process, qos
from emppi_ros.nodes.common.diagnostics import OK, Diagnostics, Report
from emppi_ros.nodes.tools import web_source
from emppi_ros.nodes.tools.web_source import RosSource
from emppi_ros.tasks.task import task_text


def test_without_a_graph_the_source_raises_and_cleans_up(harness):
    with pytest.raises(ViewError, match='no task on emppi/task.*ROS domain'):
        RosSource(patience_s=0.5, domain=harness.domain)


@pytest.mark.slow
def test_the_source_observes_arms_pauses_tunes_and_resets_a_graph(harness, monkeypatch):
    for limit in ('_ANSWER_S', '_REST_S'):  # nodes on a busy machine take longer
        monkeypatch.setattr(web_source, limit, 60.0)
    harness.spawn(*graph.describe('cartpole_swingup', '', 1))
    seen = RosSource(patience_s=60.0, domain=harness.domain)
    try:
        assert seen.snapshot().task.name == 'cartpole_swingup'
        seen.set_watched(True)
        harness.spin_until(lambda: seen.snapshot().display is not None, 60.0)
        harness.spin_until(lambda: seen.snapshot().state == 'inactive', 60.0)
        harness.spin_until(lambda: seen.snapshot().display.plan is not None, 60.0)

        seen.arm(True)
        harness.spin_until(lambda: seen.snapshot().armed, 20.0)
        seen.pause(True)
        harness.spin_until(lambda: seen.snapshot().paused, 20.0)

        name = 'planner.temperature'
        before, run = seen.snapshot().task.planner.temperature, seen.snapshot().run
        seen.tune({name: 2.0 * before})
        harness.spin_until(lambda: seen.snapshot().task.planner.temperature == 2.0 * before, 20.0)
        with pytest.raises(ConfigError, match=f'{name}.*expected from'):
            seen.tune({name: -1.0})

        seen.reset()
        harness.spin_until(lambda: seen.snapshot().run == run + 1, 20.0)  # tuning was no new run
        harness.spin_until(lambda: not seen.snapshot().armed, 20.0)
        seen.pause(False)
    finally:
        seen.close()


def test_the_page_of_a_graph_lowers_its_priority(monkeypatch):
    given = []
    monkeypatch.setattr(process, 'set_idle_priority', lambda: given.append(1))
    view.prepare(argparse.Namespace(ros=True, namespace=''))
    assert given


@pytest.mark.slow
def test_missing_services_are_named(harness):
    harness.publish_task('cartpole_swingup')
    seen = RosSource(patience_s=60.0, domain=harness.domain)
    try:
        for request, words in (
            (lambda: seen.arm(True), 'arm: service not available'),
            (lambda: seen.tune({'planner.temperature': 1.0}), 'no planner is running'),
        ):
            with pytest.raises(ViewError, match=words):
                request()
        assert 'no bridge' in seen.snapshot().state
    finally:
        seen.close()


def test_a_failed_source_shows_no_outdated_snapshot(harness, monkeypatch):
    harness.publish_task('cartpole_swingup')
    seen = RosSource(patience_s=60.0, domain=harness.domain)
    try:
        monkeypatch.setattr(seen._graph, 'poll', lambda: 1 / 0)
        seen._thread.join(10.0)
        with pytest.raises(ViewError, match='lost the connection.*ZeroDivisionError'):
            seen.snapshot()
    finally:
        seen.close()


def test_the_page_shows_its_own_robot_only(harness):
    texts = harness.publisher(String, '/left/emppi/task', qos.LATCHED)
    texts.publish(String(data=task_text('cartpole_swingup')))
    seen = RosSource('left', patience_s=60.0, domain=harness.domain)
    nodes = {
        name: Node('bridge', namespace=name, context=harness.context) for name in ('left', 'right')
    }
    armed = {'right': True, 'left': False}
    robots = {
        name: Diagnostics(
            node, lambda name=name: Report(OK, name, {'armed': armed[name], 'state': name})
        )
        for name, node in nodes.items()
    }
    heard = harness.listen(DiagnosticArray, '/diagnostics')

    def report():
        for robot in robots.values():
            robot.publish()

    harness.feeds.append(report)
    try:
        seen.set_watched(True)
        harness.spin_until(lambda: seen.snapshot().state == 'left', 60.0)
        harness.spin_until(lambda: {m.status[0].hardware_id for m in heard} == {'left', 'right'})
        assert {m.status[0].name for m in heard} == {'emppi: left/bridge', 'emppi: right/bridge'}
        assert seen.snapshot().state == 'left' and not seen.snapshot().armed
        armed['left'] = True
        harness.spin_until(lambda: seen.snapshot().armed)
    finally:
        seen.close()
        for node in nodes.values():
            node.destroy_node()
