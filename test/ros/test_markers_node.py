"""The markers node publishes only to subscribers, and the planner sends candidates only to it."""

import numpy as np
import pytest
import yaml

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
import layouts
from rclpy.qos import QoSPresetProfiles
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import Marker, MarkerArray

from emppi_ros.core import paths
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.diagnostics import OK
from emppi_ros.nodes.common.graph import MARKERS, NodeSpec
from emppi_ros.nodes.markers import node as markers
from emppi_ros.nodes.markers.conversion import COST, NAME, TOTAL
from emppi_ros.nodes.markers.node import (
    BELIEF_MARKERS,
    BELIEF_POINTS,
    OBJECTS,
    ROLLOUTS,
    MarkersNode,
)
from emppi_ros.nodes.planner.node import PlannerNode
from emppi_ros.nodes.topics import candidates

TASK = 'panda_push'
TOPICS = {
    BELIEF_MARKERS: MarkerArray,
    BELIEF_POINTS: PointCloud2,
    ROLLOUTS: MarkerArray,
    OBJECTS: MarkerArray,
}


def test_without_measurements_it_says_what_is_missing(harness):
    harness.publish_task(TASK)
    harness.make(MarkersNode)
    heard = harness.listen(MarkerArray, OBJECTS, qos.NEWEST)
    harness.spin_until(lambda: 'no belief received' in harness.says('markers')[1])
    assert not heard


@pytest.mark.slow
def test_it_runs_as_a_process(harness):
    harness.publish_task('cartpole_swingup')
    children = harness.spawn(MARKERS)
    harness.spin_until(
        lambda: harness.statuses.get('markers', ('', ''))[1] == 'no subscribers', 60.0
    )
    children.end('markers')
    harness.spin_until(lambda: children.processes['markers'].poll() is not None)
    assert children.processes['markers'].poll() == 0


@pytest.fixture(scope='module')
def drawing(module_harness):
    """Return the node, in this process, and the planner; the others are processes."""
    node = module_harness.make(MarkersNode, rate_hz=20.0)
    planner = module_harness.make(PlannerNode, task=TASK)
    module_harness.spawn(NodeSpec('belief'), NodeSpec('bridge'), NodeSpec('simulator'))
    module_harness.spin_until(lambda: node.state == 'active', 60.0)
    return node, planner


@pytest.fixture
def graph(module_harness, drawing):
    """Return the harness of a graph that plans, its markers node, and its planner."""
    node, planner = drawing
    module_harness.spin_until(lambda: planner.stats.starts and not planner._error, 60.0)
    yield module_harness, node, planner
    module_harness.stop_listening()
    module_harness.spin_until(lambda: module_harness.says('markers')[1] == 'no subscribers', 60.0)
    module_harness.spin_until(lambda: planner.session.candidates is None, 60.0)


@pytest.mark.slow
def test_without_subscribers_nothing_is_published_or_subscribed(graph, monkeypatch):
    (harness, _, planner), said = graph, []
    for module in (markers.conversion, candidates):
        name = 'write_shapes' if module is markers.conversion else 'write_candidates'
        monkeypatch.setattr(module, name, lambda *_: said.append(1))
    before = planner.stats.cycles
    harness.spin_until(lambda: planner.stats.cycles > before + 20, 60.0)
    assert not said and planner.session.candidates is None
    heard = {
        name for name, _ in harness.tester.get_subscriber_names_and_types_by_node('markers', '/')
    }
    assert heard <= {
        '/emppi/task', '/emppi/task/next', '/robot_description', '/parameter_events',
    }  # fmt: skip
    assert harness.says('markers')[:2] == (OK, 'no subscribers')


@pytest.mark.slow
def test_subscribers_receive_the_same_markers_at_all_times(graph):
    harness, node, _ = graph
    heard = {topic: harness.listen(kind, topic, qos.NEWEST) for topic, kind in TOPICS.items()}
    harness.spin_until(lambda: all(len(messages) > 5 for messages in heard.values()), 60.0)
    # a plan that is late is not shown
    layers = ('rollouts', 'plan')
    harness.spin_until(lambda: all(_shown(heard[ROLLOUTS][-1], name) for name in layers), 60.0)
    for topic in (BELIEF_MARKERS, ROLLOUTS, OBJECTS):
        found = {tuple((m.ns, m.id, m.type) for m in message.markers) for message in heard[topic]}
        assert len(found) == 1, f'{topic} has changing markers'
        frames = {m.header.frame_id for message in heard[topic] for m in message.markers}
        assert frames == {node.task.robot.frame}
    last = heard[ROLLOUTS][-1]
    config = node.task.planner
    ends = 2 * config.models * config.rollouts * config.horizon
    assert _shown(last, 'rollouts') + _shown(last, 'diverged') == ends
    assert _shown(last, 'plan') == 2 * config.horizon
    assert _shown(last, 'object spread') == config.models
    points = heard[BELIEF_POINTS][-1]
    assert points.width == node.task.belief.particles


@pytest.mark.slow
def test_who_looks_away_is_no_longer_worked_for(graph):
    harness, _, planner = graph
    looking = harness.tester.create_subscription(
        MarkerArray, ROLLOUTS, lambda _: None, QoSPresetProfiles.SYSTEM_DEFAULT.value
    )
    harness.spin_until(lambda: planner.session.candidates is not None, 60.0)
    harness.spin_until(lambda: harness.says('markers')[:2] == (OK, 'drawing'))
    harness.tester.destroy_subscription(looking)
    harness.spin_until(lambda: harness.says('markers')[1] == 'no subscribers', 60.0)
    harness.spin_until(lambda: planner.session.candidates is None, 60.0)
    drawn = harness.says('markers')[2]['pictures']
    harness.spin_for(0.5)
    assert harness.says('markers')[2]['pictures'] == drawn


def test_objects_are_looked_at_without_the_planners_help(graph):
    harness, _, planner = graph
    heard = harness.listen(MarkerArray, OBJECTS, qos.NEWEST)
    harness.spin_until(lambda: len(heard) > 3, 60.0)
    assert planner.session.candidates is None
    place = planner.task.start().qpos[planner.task.objects['block'].qpos :][:3]

    def is_there():
        (box,) = [m for m in heard[-1].markers if m.ns == 'objects']
        middle = np.mean([[p.x, p.y, p.z] for p in box.points], axis=0)
        # the tracker's noise: 2 mm, six sigma; nothing is armed, so nothing moved
        return np.allclose(middle, place, atol=0.012)

    harness.spin_until(is_there, 60.0)  # a busy machine draws it by old poses, where it may be now


def test_a_detected_change_is_shown_beside_the_robot_and_then_removed(graph):
    harness, _, _ = graph
    heard = harness.listen(MarkerArray, BELIEF_MARKERS, qos.NEWEST)
    harness.spin_until(lambda: len(heard) > 3, 60.0)
    assert _texts(heard[-1]) == []  # a marker that is deleted: nothing has changed
    stamp = heard[-1].markers[0].header.stamp
    publisher = harness.tester.create_publisher(DiagnosticArray, '/diagnostics', qos.DEFAULT)
    harness.spin_until(lambda: publisher.get_subscription_count() > 1, 60.0)
    values = {
        'changed block_mass': f'{stamp.sec + 1e-9 * stamp.nanosec:.3f}',
        'changed_from block_mass': '0.125',
    }
    status = DiagnosticStatus(name='emppi: belief')
    status.values = [KeyValue(key=key, value=value) for key, value in values.items()]

    def shown():
        # again: the belief reports each second that there is no change
        publisher.publish(DiagnosticArray(status=[status]))
        return _texts(heard[-1]) != []

    harness.spin_until(shown, 60.0)
    (text,) = _texts(heard[-1])
    assert text.startswith('block_mass changed:\n0.125 to ') and text.endswith(' kg')
    # the belief itself reports none: its next diagnostics take the text away
    harness.spin_until(lambda: _texts(heard[-1]) == [], 60.0)
    harness.tester.destroy_publisher(publisher)


def test_layouts_name_what_there_is_and_what_the_plan_costs_is_told(graph):
    harness, _, planner = graph
    cost = harness.listen(DiagnosticArray, COST, qos.NEWEST)
    heard = harness.listen(DiagnosticArray, layouts.DIAGNOSTICS)
    fields, values = layouts.foxglove()
    values |= layouts.plotjuggler()

    def said():
        return {
            (topic, status.name, pair.key)
            for topic, messages in ((layouts.DIAGNOSTICS, heard), (f'/{COST}', cost))
            for message in messages
            for status in message.status
            for pair in status.values
        }

    harness.spin_until(lambda: cost and cost[-1].status[0].values, 60.0)
    harness.spin_until(lambda: 'emppi: planner' in {name for _, name, _ in said()})
    try:
        harness.spin_until(lambda: values <= said(), 30.0)
    except AssertionError:
        pytest.fail(f'nobody says {sorted(values - said())}')
    known = dict(harness.tester.get_topic_names_and_types())
    for topic, field in fields:
        assert known[topic] == [
            f'{layouts.TYPES[topic].__module__.split(".")[0]}/msg/{layouts.TYPES[topic].__name__}'
        ]
        assert hasattr(layouts.TYPES[topic](), field)
    # the planner is asked for nothing: candidates are for pictures
    assert planner.session.candidates is None
    (status,) = next(m for m in reversed(cost) if m.status[0].values).status
    terms = {pair.key: float(pair.value) for pair in status.values}
    assert status.name == NAME and terms.pop('diverged_share') == 0.0
    total = terms.pop(TOTAL)
    assert set(terms) == set(planner.task.file.cost)
    assert total == pytest.approx(sum(terms.values()), rel=1e-5)  # six digits are told


def test_rviz_is_told_topics_that_exist():
    settings = yaml.safe_load((paths.share() / 'config' / 'rviz' / 'emppi.rviz').read_text())
    displays = settings['Visualization Manager']['Displays']
    told = {d['Topic']['Value']: d['Class'].split('/')[1] for d in displays if 'Topic' in d}
    assert told == {topic: kind.__name__ for topic, kind in TOPICS.items()}
    for display in displays:
        assert display['Class'].startswith('rviz_default_plugins/')
        if 'Topic' in display:  # as it is published, or rviz hears nothing
            assert display['Topic']['Reliability Policy'] == 'Reliable'
            assert display['Topic']['Durability Policy'] == 'Volatile'


def _texts(message):
    """Return the texts about changes that are there."""
    (marker,) = [m for m in message.markers if m.ns == 'changes']
    return [marker.text] if marker.action == Marker.ADD else []


def _shown(message, name):
    """Return how many points the markers of a layer have that are there."""
    return sum(len(m.points) for m in message.markers if m.ns == name and m.action == Marker.ADD)
