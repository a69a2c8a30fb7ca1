"""Layouts for Foxglove and PlotJuggler use only existing topics and fields."""

import json
import re
import xml.etree.ElementTree as ET

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from diagnostic_msgs.msg import DiagnosticArray
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

from emppi_ros.core import paths
from emppi_ros.nodes.common import qos
from emppi_ros.nodes.common.graph import NodeSpec
from emppi_ros.nodes.markers import node
from emppi_ros.nodes.markers.node import MarkersNode
from emppi_ros.nodes.planner.node import PlannerNode
from emppi_ros.nodes.topics.cost import COST, NAME, TOTAL
from emppi_ros.nodes.topics.task import STAGE

TASK = 'panda_push'
DIAGNOSTICS = '/diagnostics'
TYPES = {
    DIAGNOSTICS: DiagnosticArray,
    f'/{COST}': DiagnosticArray,
    f'/{STAGE}': String,
    **{f'/{t}': MarkerArray for t in (node.ROLLOUTS, node.OBJECTS, node.BELIEF_MARKERS)},
}
VALUE = re.compile(
    r'(/[\w/]+)\.status\[:\]\{name=="([^"]+)"\}\.values\[:\]\{key=="([^"]+)"\}\.value'
)


def walk(thing):
    """Yield every mapping in a structure of JSON."""
    if isinstance(thing, dict):
        yield thing
    for part in thing.values() if isinstance(thing, dict) else thing:
        if isinstance(part, (dict, list)):
            yield from walk(part)


def foxglove():
    """Return topics with fields, and (topic, status, key), that the layout names."""
    layout = json.loads((paths.share() / 'config' / 'foxglove' / 'emppi.json').read_text())
    fields, values = set(), set()
    for one in walk(layout['configById']):
        for path in [p['value'] for p in one.get('paths', ())]:
            if match := VALUE.fullmatch(path):
                values.add(match.groups())
            else:
                fields.add(tuple(path.split('.', maxsplit=1)))
        topics = one.get('topics', {})
        fields |= {(t, 'markers') for t in topics}
        if 'topicToRender' in one:
            fields.add((one['topicToRender'], 'status'))
        if 'selectedName' in one:
            values.add((one['topicToRender'], one['selectedName'], 'ess'))
    panels = set(re.findall(r'"([\w]+![\w]+)"', json.dumps(layout['layout'])))
    assert panels == set(layout['configById'])  # each is to be seen, and each is described
    return fields, values


def plotjuggler():
    """Return (topic, status, key) of every curve, which is named as its parser does."""
    root = ET.parse(paths.share() / 'config' / 'plotjuggler' / 'emppi.xml').getroot()
    curves = [curve.get('name') for curve in root.iter('curve')]
    assert len(curves) == len(set(curves))
    return {re.fullmatch(r'(/.*)/(emppi: \w+)/(.*)', name).groups() for name in curves}


def test_layouts_name_what_there_is_and_what_the_plan_costs_is_told(harness):
    cost = harness.listen(DiagnosticArray, COST, qos.NEWEST)
    heard = harness.listen(DiagnosticArray, DIAGNOSTICS)
    planner = harness.make(PlannerNode, task=TASK)
    harness.make(MarkersNode, rate_hz=5.0)
    harness.spawn(NodeSpec('belief'), NodeSpec('bridge'), NodeSpec('simulator'))
    fields, values = foxglove()
    values |= plotjuggler()

    def said():
        return {
            (topic, status.name, pair.key)
            for topic, messages in ((DIAGNOSTICS, heard), (f'/{COST}', cost))
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
            f'{TYPES[topic].__module__.split(".")[0]}/msg/{TYPES[topic].__name__}'
        ]
        assert hasattr(TYPES[topic](), field)
    # the planner is asked for nothing: candidates are for pictures
    assert planner.session.candidates is None
    (status,) = cost[-1].status
    terms = {pair.key: float(pair.value) for pair in status.values}
    assert status.name == NAME and terms.pop('diverged_share') == 0.0
    total = terms.pop(TOTAL)
    assert set(terms) == set(planner.task.file.cost)
    assert total == pytest.approx(sum(terms.values()), rel=1e-5)  # six digits are told
