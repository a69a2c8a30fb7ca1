"""The reference of topics, services and parameters says what the running nodes have."""

from fnmatch import fnmatchcase
from pathlib import Path
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
from rclpy.action import get_action_names_and_types

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'docs'))

from emppi_docs import graph, parameters

from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import interfaces, qos
from emppi_ros.nodes.markers.node import ROLLOUTS
from emppi_ros.nodes.planner.node import PlannerNode

OF_ROS = {'use_sim_time', 'start_type_description_service'}
OTHER_BACKENDS = ('trajectory_', 'fci_', 'realtime', 'motion_', 'move_', 'collision_', 'external_')


@pytest.mark.parametrize('name', parameters.node_modules())
def test_parameters_are_those_that_the_node_declares(harness, name):
    documented = {row[0]: row[1] for row in parameters.declared(name)}
    if name == 'task_server' and not interfaces.AVAILABLE:
        pytest.skip(interfaces.MISSING)
    node = harness.make(parameters.node_class(parameters.node_modules()[name]))
    names = {n for n in node._parameters if n not in OF_ROS and '.' not in n}
    missing = {n for n in set(documented) - names if not n.startswith(OTHER_BACKENDS)}
    assert (names - set(documented), missing) == (set(), set())
    for parameter in names:
        assert node.describe_parameter(parameter).description == documented[parameter]
        assert documented[parameter], f'{name}: {parameter}: has no description'


def endpoints(harness):
    """Return type and QoS of every publisher and subscription of our nodes, by topic."""
    found = {}
    for topic, _ in harness.tester.get_topic_names_and_types():
        for look in ('publishers', 'subscriptions'):
            infos = getattr(harness.tester, f'get_{look}_info_by_topic')(topic)
            found.setdefault(topic.removeprefix('/'), []).extend(
                (info.topic_type, info.qos_profile if look == 'publishers' else None)
                for info in infos
                if info.node_name != 'tester'
            )
    return found


def entry_of(topic):
    entries = graph.described()['topics']
    return next((entries[name] for name in entries if fnmatchcase(topic, name)), None)


def test_topics_and_services_have_the_types_and_qos_that_are_written(harness):
    from visualization_msgs.msg import MarkerArray

    harness.listen(MarkerArray, ROLLOUTS)  # else nobody draws
    modules = parameters.node_modules()
    harness.make(PlannerNode, task='panda_push')
    for name in ('simulator', 'belief', 'markers', 'depth_camera', 'articulation'):
        harness.make(parameters.node_class(modules[name]))
    harness.make(BridgeNode, backend='trajectory')
    if interfaces.AVAILABLE:
        harness.make(parameters.node_class(modules['task_server']))
    wanted = {'emppi/plan', 'emppi/belief', 'emppi/applied', 'emppi/rollouts', 'tracking/block'}
    harness.spin_until(lambda: wanted <= set(endpoints(harness)), 60.0)
    for topic, ends in endpoints(harness).items():
        if graph.OWN.fullmatch(topic) or topic.endswith('/transition_event') or not ends:
            continue
        if '/_action/' in topic:
            continue
        entry = entry_of(topic)
        assert entry, f'{topic} is not in docs/reference/graph.yaml'
        profile = qos.MEASURED if entry['qos'] == 'SENSOR' else getattr(qos, entry['qos'])
        for kind, offered in ends:
            assert kind.replace('/msg/', '/') == entry['type'], topic
            if offered is not None:
                assert offered.reliability == profile.reliability, topic
                assert offered.durability == profile.durability, topic
    services = dict(harness.tester.get_service_names_and_types())
    for name, entry in graph.described()['services'].items():
        assert services[f'/{name}'] == [entry['type'].replace('/', '/srv/')]
    if interfaces.AVAILABLE:
        actions = dict(get_action_names_and_types(harness.tester))
        for name, entry in graph.described()['actions'].items():
            assert actions[f'/{name}'] == [entry['type'].replace('/', '/action/')]
