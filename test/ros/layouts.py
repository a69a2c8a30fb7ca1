"""What the layouts for Foxglove and PlotJuggler name: topics, and fields of their messages."""

import json
import re
import xml.etree.ElementTree as ET

from diagnostic_msgs.msg import DiagnosticArray
from std_msgs.msg import String
from visualization_msgs.msg import MarkerArray

from emppi_ros.core import paths
from emppi_ros.nodes.markers import node
from emppi_ros.nodes.markers.conversion import COST
from emppi_ros.nodes.topics.task import STAGE

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
    tabs = [one['tabs'] for one in layout['configById'].values() if 'tabs' in one]
    panels = set(re.findall(r'"([\w]+![\w]+)"', json.dumps([layout['layout'], tabs])))
    assert panels == set(layout['configById'])  # each is to be seen, and each is described
    return fields, values


def plotjuggler():
    """Return (topic, status, key) of every curve, which is named as its parser does."""
    root = ET.parse(paths.share() / 'config' / 'plotjuggler' / 'emppi.xml').getroot()
    curves = [curve.get('name') for curve in root.iter('curve')]
    assert len(curves) == len(set(curves))
    return {re.fullmatch(r'(/.*)/(emppi: \w+)/(.*)', name).groups() for name in curves}
