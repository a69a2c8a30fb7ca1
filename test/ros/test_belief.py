"""The belief is published for whoever comes, and survives what it cannot learn from."""

import threading
import time

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from sensor_msgs.msg import PointCloud2
from std_srvs.srv import Trigger

from emppi_ros.belief.changes import DetectedChange
from emppi_ros.core.errors import DegenerateWeightsError
from emppi_ros.nodes.belief.node import BeliefNode
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.diagnostics import WARN
from emppi_ros.nodes.common.graph import NodeSpec
from emppi_ros.nodes.topics import belief_cloud


def test_it_waits_for_the_task(harness):
    harness.make(BeliefNode)
    assert harness.says('belief')[:2] == (WARN, 'waiting for emppi/task')
    harness.publish_task('cartpole_swingup')
    harness.spin_until(lambda: harness.says('belief')[2].get('lifecycle') == 'active')


def test_another_task_is_followed_and_one_that_cannot_be_is_said(harness):
    from std_msgs.msg import String

    harness.publish_task('cartpole_swingup')
    node = harness.make(BeliefNode)
    harness.spin_until(lambda: node.state == 'active')
    harness.publish_task('panda_push')
    harness.spin_until(lambda: node.task.name == 'panda_push' and node.state == 'active')
    harness.publisher(String, 'emppi/task', qos.LATCHED).publish(String(data='name: [broken'))
    harness.spin_until(lambda: 'cannot follow the task on emppi/task' in harness.says('belief')[1])
    assert 'not valid YAML' in harness.says('belief')[1]
    assert node.task.name == 'panda_push' and node.state == 'active'


def test_a_task_that_cannot_be_used_is_said(harness):
    from std_msgs.msg import String

    harness.publisher(String, 'emppi/task', qos.LATCHED).publish(String(data='name: [broken'))
    node = harness.make(BeliefNode)
    harness.spin_until(lambda: 'not valid YAML' in harness.says('belief')[1])
    assert node.state == 'unconfigured'


def test_it_starts_from_a_prior_that_it_is_given(harness, tmp_path):
    path = tmp_path / 'known.yaml'
    entry = '{unit: kg, prior: {distribution: fixed, value: 0.25}}'
    path.write_text(f'method: none\nsources: []\nparameters: {{block_mass: {entry}}}\n')
    task = harness.publish_task('panda_push')
    harness.make(BeliefNode, prior=str(path))
    heard = harness.listen(PointCloud2, 'emppi/belief', qos.LATCHED)
    harness.spin_until(lambda: heard)
    assert np.all(belief_cloud.read_belief(task, heard[0]).theta[:, 0] == 0.25)
    assert harness.says('belief')[2]['prior'] == f"{path}; the task's own for block_friction"


def test_a_prior_that_does_not_fit_is_said(harness, tmp_path):
    path = tmp_path / 'known.yaml'
    entry = '{unit: g, prior: {distribution: fixed, value: 0.25}}'
    path.write_text(f'method: none\nsources: []\nparameters: {{block_mass: {entry}}}\n')
    harness.publish_task('panda_push')
    node = harness.make(BeliefNode, prior=str(path))
    harness.spin_until(lambda: "found 'g', expected 'kg'" in harness.says('belief')[1])
    assert node.state == 'unconfigured'


def test_doubts_are_warnings_and_changes_are_values(harness):
    harness.publish_task('panda_push')
    node = harness.make(BeliefNode)
    harness.spin_until(lambda: harness.says('belief')[2].get('lifecycle') == 'active')
    assert harness.says('belief')[2]['misfit'] == harness.says('belief')[2]['collapsed'] == ''
    node.session.filter.monitor.misfit = ['object_position']
    change = DetectedChange(1.7e9 + 0.125, 'block_mass', 0.3, 1.2)
    node.session.filter.changes.events.append(change)
    harness.spin_until(lambda: harness.says('belief')[2]['misfit'] == 'object_position')
    level, message, values = harness.says('belief')
    assert level == WARN and 'the model does not explain the errors in object position' in message
    assert values['changed block_mass'] == '1700000000.125'
    assert values['changed_from block_mass'] == '0.3'


def test_latecomers_get_the_belief_and_a_reset_returns_to_the_prior(harness):
    task = harness.publish_task('panda_push')
    harness.make(BeliefNode, seed=3)
    harness.spin_until(lambda: harness.says('belief')[2].get('lifecycle') == 'active')
    heard = harness.listen(PointCloud2, 'emppi/belief', qos.LATCHED)
    harness.spin_until(lambda: heard)
    first = belief_cloud.read_belief(task, heard[-1])
    assert first.theta.shape == (task.belief.particles, 2)
    harness.spin_until(lambda: len(heard) > 2)  # said again and again: it is alive
    assert np.array_equal(first.theta, belief_cloud.read_belief(task, heard[-1]).theta)
    assert harness.call(Trigger, 'emppi/reset_belief', Trigger.Request()).success

    def drawn_anew():
        return not np.array_equal(first.theta, belief_cloud.read_belief(task, heard[-1]).theta)

    harness.spin_until(drawn_anew)


def test_a_reset_need_not_wait_for_all_updates_that_are_due(harness, monkeypatch):
    harness.publish_task('cartpole_swingup')
    node = harness.make(BeliefNode)
    harness.spin_until(lambda: node.state == 'active')
    done, begun, many = [], threading.Event(), 200

    def update():  # slowed down as by a busy machine
        begun.set()
        time.sleep(0.01)
        done.append('update')
        return []

    def ready(session):
        return done.count('update') % many != 0

    monkeypatch.setattr(type(node.session), 'ready', property(ready))
    monkeypatch.setattr(node.session, 'update', update)
    monkeypatch.setattr(node.session, 'reset', lambda: done.append('reset'))
    begun.wait()
    assert harness.call(Trigger, 'emppi/reset_belief', Trigger.Request()).success
    monkeypatch.undo()
    assert done.index('reset') % many != 0  # between two updates, not after the last one


@pytest.mark.slow
def test_what_nobody_predicted_leaves_the_belief_as_it_was(harness, monkeypatch):
    harness.publish_task('cartpole_swingup')
    node = harness.make(BeliefNode)
    harness.spawn(NodeSpec('bridge'), NodeSpec('simulator'))
    harness.spin_until(lambda: node.state == 'active' and node.session.counts['updates'] > 0)

    calls = []

    def degenerate(*_):
        calls.append(1)
        raise DegenerateWeightsError('log weights need a finite maximum, found [-inf]')

    monkeypatch.setattr(node.session.filter, 'observe', degenerate)
    harness.spin_until(lambda: calls)  # an update that had begun by then has ended
    before = node.session.filter.belief
    harness.spin_until(lambda: 'finite maximum' in harness.says('belief')[1])
    assert harness.says('belief')[0] == WARN
    assert node.session.filter.belief is before
