"""
The recorder: writes every message of a graph that a replay or a report needs into a bag.

It takes bytes as they come and reads none but the task, which names the robot's topics. To
listen makes planner and belief say what they use; to `emppi/candidates` it does not listen,
for they would cost the planner more.
"""

from collections.abc import Callable
import os
from pathlib import Path
import time

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
import rclpy
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState, PointCloud2
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory
import yaml

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.bridge.graph_monitor import Topic
from emppi_ros.nodes.common import middleware, qos
from emppi_ros.nodes.common.inputs import APPLIED, PLAN
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.tools import message_definitions
from emppi_ros.nodes.topics.belief import BELIEF
from emppi_ros.nodes.topics.task import STAGE, TOPIC
from emppi_ros.replay.bag_writer import BagWriter
from emppi_ros.replay.bag_writer import Topic as Written
from emppi_ros.robots.robot import Robot
from emppi_ros.session import journal
from emppi_ros.tasks.task import parse_task

_POLL_S, _FLUSH_S, _SILENT_S = 0.01, 1.0, 3.0
_COMMANDS = {'trajectory': JointTrajectory}  # by interface; all others take Float64MultiArray
ALWAYS = (
    Topic(TOPIC, String, qos.EVERY),
    Topic(STAGE, String, qos.EVERY),
    Topic(PLAN, JointTrajectory, qos.DEFAULT),
    Topic(APPLIED, JointState, qos.DEFAULT),
    Topic(BELIEF, PointCloud2, qos.EVERY),
    Topic(journal.PLANNER, String, qos.DEFAULT),
    Topic(journal.BELIEF, String, qos.DEFAULT),
    Topic('/diagnostics', DiagnosticArray, qos.DEFAULT),
)


class BagRecorder:
    """Writes what is heard into a bag, from its making to `close`."""

    def __init__(self, node: Node, folder: Path, overwrite: bool = False) -> None:
        """Begin to listen; ReplayError if there is something in the folder already."""
        self._node, self._writer = node, BagWriter(folder, overwrite)
        self._subscriptions: dict[str, PolledSubscription] = {}
        self._flushed, self._began = time.monotonic(), time.monotonic()
        self._optional: set[str] = set()  # a robot has more ways of being commanded than are used
        self._silent: list[str] = []
        self._closed = False
        self.problem = ''  # of the task: what its robot says is not recorded
        for topic in ALWAYS:
            self._listen(topic)

    @property
    def counts(self) -> dict[str, int]:
        """How many messages were written, by topic."""
        return {name: self._writer.counts.get(name, 0) for name in self._subscriptions}

    @property
    def silent(self) -> list[str]:
        """Topics on which nothing was heard, in words, once there was time for it."""
        if self._closed or time.monotonic() < self._began + _SILENT_S:
            return self._silent
        count = self._node.count_publishers
        quiet = [n for n, heard in self.counts.items() if not heard and n not in self._optional]
        self._silent = [n if count(n) else f'{n} (nobody publishes it)' for n in quiet]
        return self._silent

    def poll(self) -> None:
        """Write what has arrived."""
        for subscription in list(self._subscriptions.values()):
            subscription.poll()
        if time.monotonic() > self._flushed + _FLUSH_S:
            self._flushed = time.monotonic()
            self._writer.flush()

    def close(self) -> None:
        """Complete the bag."""
        self._silent = self.silent  # while the graph can still be asked
        self._closed = True
        for subscription in self._subscriptions.values():
            subscription.close()
        self._writer.close()

    def _listen(self, topic: Topic) -> None:
        name = self._node.resolve_topic_name(topic.name)
        if name in self._subscriptions:
            return
        kind = message_definitions.name(topic.kind)

        def take(data: bytes, sent_ns: int, received_ns: int) -> None:
            if name not in self._writer.counts:
                text = message_definitions.text(topic.kind)
                self._writer.add(Written(name, kind, text, _qos_text(topic.profile)))
            self._writer.write(name, data, received_ns, sent_ns)
            if topic.name == TOPIC:
                self._take_task(deserialize_message(data, String))

        self._subscriptions[name] = PolledSubscription(
            self._node, topic.kind, topic.name, take, topic.profile, raw=True
        )

    def _take_task(self, message: String) -> None:
        """Listen to the robot and the tracker of a task."""
        try:
            task = parse_task(message.data, TOPIC)
        except EmppiError as error:
            self.problem = f'only topics of emppi are recorded: {error}'
            return
        self.problem, self._began = '', time.monotonic()
        self._listen(Topic(task.robot.topics.joint_states, JointState, qos.SENSOR))
        for name in task.tracked:
            self._listen(Topic(f'tracking/{name}', PoseStamped, qos.SENSOR))
        for topic in _commands(task.robot):
            self._optional.add(self._node.resolve_topic_name(topic.name))
            self._listen(topic)


def record(
    folder: Path,
    duration_s: float | None,
    namespace: str,
    overwrite: bool,
    ended: Callable[[float], bool],
    tell: Callable[[float, BagRecorder], None],
) -> BagRecorder:
    """
    Record into a new folder until it is ended, or for a time; return the closed recorder.

    `ended` waits for so long [s], and says whether that is now; `tell` is called all the time,
    with the seconds since the start.
    """
    middleware.set_up()
    os.nice(10)  # as nice as the belief: the robot comes first
    context = rclpy.Context()
    context.init()
    node = Node('recorder', namespace=namespace, context=context)
    try:
        recorder = BagRecorder(node, folder, overwrite)
        began = time.monotonic()
        try:
            while duration_s is None or time.monotonic() < began + duration_s:
                recorder.poll()
                tell(time.monotonic() - began, recorder)
                if ended(_POLL_S):
                    break
        finally:
            recorder.close()
        return recorder
    finally:
        node.destroy_node()
        context.try_shutdown()


def _commands(robot: Robot) -> list[Topic]:
    return [
        Topic(name, _COMMANDS.get(interface, Float64MultiArray), qos.DEFAULT)
        for interface, name in robot.topics.commands.items()
        if interface in (robot.command, *_COMMANDS)
    ]


def _qos_text(profile: QoSProfile) -> str:
    """Return a profile as `ros2 bag` keeps it, so that it plays topics as they were."""
    ever = {'sec': 9223372036, 'nsec': 854775807}
    kept = {
        'history': int(profile.history),
        'depth': profile.depth,
        'reliability': int(profile.reliability),
        'durability': int(profile.durability),
        'deadline': dict(ever),
        'lifespan': dict(ever),
        'liveliness': 1,  # automatic
        'liveliness_lease_duration': dict(ever),
        'avoid_ros_namespace_conventions': False,
    }
    return yaml.safe_dump([kept], sort_keys=False).strip()
