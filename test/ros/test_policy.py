"""The SROS 2 policy allows what the nodes of the running graph do, and nothing beside that."""

from fnmatch import fnmatchcase
from xml.etree import ElementTree

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from rclpy.action import (
    get_action_client_names_and_types_by_node,
    get_action_server_names_and_types_by_node,
)

from emppi_ros.core import paths
from emppi_ros.nodes.articulation.node import ArticulationNode
from emppi_ros.nodes.belief.node import BeliefNode
from emppi_ros.nodes.bridge.node import BridgeNode
from emppi_ros.nodes.common import graph, interfaces, qos
from emppi_ros.nodes.common.frames import TF, TF_STATIC
from emppi_ros.nodes.depth_camera.node import DepthCameraNode
from emppi_ros.nodes.markers.node import BELIEF_MARKERS, ROLLOUTS, MarkersNode
from emppi_ros.nodes.planner.node import PlannerNode
from emppi_ros.nodes.simulator.node import SimulatorNode
from emppi_ros.nodes.task_server.node import RunInputs, TaskServerNode
from emppi_ros.nodes.topics import transforms
from emppi_ros.nodes.topics.depth_images import STATE
from emppi_ros.nodes.topics.named_belief import NAMED
from emppi_ros.nodes.tracker.node import TrackerNode

POLICY = ElementTree.parse(paths.share() / 'config' / 'sros2' / 'policy.xml').getroot()
KINDS = {  # element and attribute, by what a node's entity is called in the graph
    'publisher': ('topics', 'publish'),
    'subscriber': ('topics', 'subscribe'),
    'service': ('services', 'reply'),
    'client': ('services', 'request'),
    'action server': ('actions', 'execute'),
    'action client': ('actions', 'call'),
}
ALL = [
    *graph.describe('', '', 0, tracking='depth'),
    graph.articulation(''),
    graph.MARKERS,
    graph.TASK_SERVER,
]
NODES = [spec.name for spec in ALL]
LOOKS = {
    'action server': get_action_server_names_and_types_by_node,
    'action client': get_action_client_names_and_types_by_node,
}
RUNNING = [name for name in NODES if interfaces.AVAILABLE or name != graph.TASK_SERVER.name]
PEOPLE = ['operator', 'recorder']
COMMANDS = {
    'forward': '/forward_velocity_controller/commands',
    'trajectory': '/joint_trajectory_controller/joint_trajectory',
}

GOALS = '/joint_trajectory_controller/follow_joint_trajectory/_action/status'
STATES = '/joint_trajectory_controller/controller_state'


def allowed(name, kind):
    """Return the full names that the enclave of a node allows it."""
    element, attribute = KINDS[kind]
    (profile,) = POLICY.findall(f"enclaves/enclave[@path='/emppi/{name}']/profiles/profile")
    assert (profile.get('ns'), profile.get('node')) == ('/', name)
    found = set()
    for part in profile.findall(element):
        if part.get(attribute) == 'ALLOW':
            for item in part:
                text = item.text.replace('~', f'/{name}')
                found.add(text if text.startswith('/') else f'/{text}')
    return found


def used(node, name, kind):
    if kind in LOOKS:
        return {action for action, _ in LOOKS[kind](node, name, '/')}
    found = getattr(node, f'get_{kind}_names_and_types_by_node')(name, '/')
    return {topic for topic, _ in found if '/_action/' not in topic or topic == GOALS}


def run(harness, backend):
    """Bring up the nodes in this process, and look at them; return what each of them uses."""
    from geometry_msgs.msg import PoseStamped
    from sensor_msgs.msg import JointState
    from std_msgs.msg import String
    from visualization_msgs.msg import MarkerArray

    applied = harness.listen(JointState, 'emppi/applied')
    pictures = harness.listen(MarkerArray, ROLLOUTS)  # else nobody draws
    harness.listen(MarkerArray, BELIEF_MARKERS)
    described = harness.listen(
        String, transforms.SCENE_DESCRIPTION, qos.LATCHED
    )  # some seconds after the start
    harness.make(PlannerNode, task='panda_push')
    harness.make(SimulatorNode)
    harness.make(BeliefNode)
    harness.make(BridgeNode, backend=backend)
    harness.make(MarkersNode)
    harness.make(DepthCameraNode)
    pose = {'camera_position': [1.6, -1.0, 0.9], 'camera_quaternion': [0.4, 0.8, -0.4, 0.2]}
    harness.make(TrackerNode, **({} if interfaces.TFMessage else pose))
    articulation = harness.make(ArticulationNode)
    if interfaces.AVAILABLE:
        server = harness.make(TaskServerNode)
        harness.spin_until(lambda: server.state == 'active', 60.0)
        server._inputs = RunInputs(server, server.task)  # as during a goal
    harness.spin_until(lambda: applied and pictures and described, 60.0)
    asked = [(name, kind) for name in RUNNING for kind in KINDS]
    elsewhere = PoseStamped()  # in another frame, so that transforms are needed
    elsewhere.header.frame_id = 'camera'
    poses = harness.publisher(PoseStamped, 'tracking/block', qos.MEASURED)

    def transforms_are_needed():
        poses.publish(elsewhere)
        return articulation._frames._subscriptions

    harness.spin_until(transforms_are_needed)
    found = [{}]

    def settled():  # the graph is discovered piece by piece
        harness.spin_for(0.5)
        found.append({(name, kind): used(harness.tester, name, kind) for name, kind in asked})
        return found[-1] == found[-2] and all(found[-1][name, 'publisher'] for name in RUNNING)

    harness.spin_until(settled, 30.0)
    return found[-1]


@pytest.mark.slow
@pytest.mark.parametrize('backend', COMMANDS)
def test_the_graph_does_what_the_policy_allows_and_all_of_it(harness, backend):
    without_tf2 = {TF, TF_STATIC} if interfaces.TFMessage is None else set()
    for (name, kind), names in run(harness, backend).items():
        rules = allowed(name, kind)
        stray = {n for n in names if not any(fnmatchcase(n, rule) for rule in rules)}
        assert not stray, f'{name} needs {kind} of {stray}, which the policy denies'
        unused = {rule for rule in rules if not any(fnmatchcase(n, rule) for n in names)}
        others = {topic for key, topic in COMMANDS.items() if key != backend} | without_tf2
        if not interfaces.AVAILABLE:
            others.add(f'/{NAMED}')
        if backend == 'forward':
            others |= {GOALS, STATES}
        if interfaces.JointTrajectoryControllerState is None:
            others.add(STATES)
        if name == graph.TASK_SERVER.name:  # which reads poses during a goal
            others |= {TF, TF_STATIC}
        assert unused <= others, f'the policy allows {name} {kind} of {unused}: nobody needs it'


def test_only_the_bridge_may_command_and_only_the_operator_may_arm():
    everyone = [*NODES, *PEOPLE]
    for topic in COMMANDS.values():
        assert [n for n in everyone if topic in allowed(n, 'publisher')] == ['bridge']
    assert [n for n in everyone if '/emppi/task' in allowed(n, 'publisher')] == ['planner']
    assert [n for n in everyone if '/emppi/plan' in allowed(n, 'publisher')] == ['planner']
    assert [n for n in everyone if f'/{STATE}' in allowed(n, 'subscriber')] == ['depth_camera']
    for service in ('/emppi/arm', '/bridge/change_state', '/simulator/reset'):
        assert [n for n in everyone if service in allowed(n, 'client')] == ['operator']
    resetting = [n for n in everyone if '/emppi/reset_belief' in allowed(n, 'client')]
    assert resetting == ['articulation', 'operator']
    pausing = [n for n in everyone if '/emppi/pause' in allowed(n, 'client')]
    assert pausing == ['task_server', 'operator']
    for topic, who in (('request', ['task_server', 'operator']), ('next', ['planner'])):
        publish = [n for n in everyone if f'/emppi/task/{topic}' in allowed(n, 'publisher')]
        assert publish == who
    action = '/emppi/run_task'
    assert [n for n in everyone if action in allowed(n, 'action client')] == ['operator']
    assert [n for n in everyone if '/emppi/swap' in allowed(n, 'client')] == ['planner']
    assert [n for n in everyone if '/emppi/reset' in allowed(n, 'client')] == ['simulator']
    for name in everyone:
        setters = {s for s in allowed(name, 'client') if 'set_parameters' in s}
        tuned = {'/planner/set_parameters', '/planner/set_parameters_atomically'}
        assert setters == (tuned if name == 'operator' else set())
        assert not [r for r in allowed(name, 'publisher') if '*' in r and 'tracking' not in r]
    assert allowed('recorder', 'client') == set()


def test_the_live_page_needs_no_more_than_the_operator_may(harness):
    pytest.importorskip('viser', reason="viser is not installed: pip install 'emppi_ros[view]'")
    from emppi_ros.nodes.tools.web_source import RosSource

    harness.publish_task('panda_push')
    page = RosSource(patience_s=60.0, domain=harness.domain)
    try:
        page.set_watched(True)
        tester, kind = harness.tester, 'subscriber'
        harness.spin_until(lambda: 'view' in tester.get_node_names(), 20.0)
        harness.spin_until(lambda: '/emppi/candidates' in used(tester, 'view', kind), 20.0)
        for kind in KINDS:
            rules = allowed('operator', kind)
            names = used(harness.tester, 'view', kind)
            stray = {n for n in names if not any(fnmatchcase(n, rule) for rule in rules)}
            assert not stray, f'the page needs {kind} of {stray}, which the policy denies'
    finally:
        page.close()


def test_people_listen_and_call_only_what_exists():
    written = {rule for name in NODES for rule in allowed(name, 'publisher')}
    served = {rule for name in NODES for rule in allowed(name, 'service')}
    for name in PEOPLE:
        heard = allowed(name, 'subscriber') - {'/*/transition_event'}
        assert heard <= written and allowed(name, 'client') <= served
        spoken = allowed(name, 'publisher') - {'/emppi/task/request'}
        assert spoken == {'/rosout', '/parameter_events'}


def test_the_policy_is_one_that_sros2_reads():
    assert (POLICY.tag, POLICY.get('version')) == ('policy', '0.2.0')
    enclaves = POLICY.findall('enclaves/enclave')
    assert [e.get('path') for e in enclaves] == [f'/emppi/{n}' for n in [*NODES, *PEOPLE]]
    for part in POLICY.iter():
        assert part.tag in {
            'policy', 'enclaves', 'enclave', 'profiles', 'profile', 'topics', 'topic', 'services',
            'service', 'actions', 'action',
        }  # fmt: skip
        if part.tag in ('topics', 'services', 'actions'):
            assert list(part.attrib.values()) == ['ALLOW']


def test_the_launch_file_starts_every_node_in_its_enclave():
    text = (paths.share() / 'launch' / 'emppi.launch.py').read_text()
    assert "'--enclave', f'/emppi/{spec.name}'" in text
