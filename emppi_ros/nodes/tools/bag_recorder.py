"""
Recorder of a running graph: writes every message that a replay or a report needs into a bag.

Messages are written as received; only the task, which names the robot's topics, and some
measurements are deserialized. Candidates are not recorded: they would slow the planner down.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
import os
from pathlib import Path
import time

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped, TransformStamped
from rclpy.node import Node
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CameraInfo, Image, JointState, PointCloud2
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.core.errors import EmppiError
from emppi_ros.journal import journal
from emppi_ros.nodes.bridge.graph_monitor import TopicSpec
from emppi_ros.nodes.common import convert, interfaces, process, qos
from emppi_ros.nodes.common.frames import TF, TF_STATIC
from emppi_ros.nodes.common.inputs import APPLIED, PLAN, UNCERTAIN
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.tools import message_definitions
from emppi_ros.nodes.topics import depth_images, transforms
from emppi_ros.nodes.topics.belief_cloud import BELIEF
from emppi_ros.nodes.topics.task import STAGE, TOPIC
from emppi_ros.nodes.topics.transforms import SCENE_DESCRIPTION, TransformSource
from emppi_ros.recordings.bag_writer import BagTopic, BagWriter, MessageOrder, RecordedMessage
from emppi_ros.tasks.task import Task, parse_task
from emppi_ros.tracking.camera_messages import IMAGE, INFO
from emppi_ros.viz.renderer import depth_camera

_FLUSH_S, _SILENT_S = 1.0, 3.0
_SCENE_S = 0.05  # between two recorded poses of the scene
_DIAGNOSTICS = '/diagnostics'  # all nodes publish it
_COMMANDS = {'trajectory': JointTrajectory}  # others use Float64MultiArray
ALWAYS = (
    TopicSpec(TOPIC, String, qos.EVERY),
    TopicSpec(STAGE, String, qos.EVERY),
    TopicSpec(PLAN, JointTrajectory, qos.DEFAULT),
    TopicSpec(APPLIED, JointState, qos.DEFAULT),
    TopicSpec(BELIEF, PointCloud2, qos.EVERY),
    TopicSpec(journal.PLANNER, String, qos.DEFAULT),
    TopicSpec(journal.BELIEF, String, qos.DEFAULT),
    TopicSpec(_DIAGNOSTICS, DiagnosticArray, qos.DEFAULT),
)

DEPTH = (TopicSpec(IMAGE, Image, qos.SENSOR), TopicSpec(INFO, CameraInfo, qos.SENSOR))


class SceneRecorder:
    """Writes the description of a task's scene, and from then on transforms."""

    def __init__(self, node: Node, writer: BagWriter, order: MessageOrder, task: Task) -> None:
        """Subscribe to the belief if it is about axes, and write the description."""
        self._writer, self._order, self._next = writer, order, time.monotonic()
        self._task, self._camera = task, depth_images.optical_frame(node.get_namespace())
        self._source = TransformSource(node, task, subscribed=False)
        self._newest: dict[str, bytes] = {}  # measurements since the last transforms, by topic
        name = node.resolve_topic_name(SCENE_DESCRIPTION)
        transform = message_definitions.name(TransformStamped).replace('/msg/', '/')
        definition = message_definitions.text(TransformStamped, f'{transform}[] transforms')
        self._add(name, message_definitions.name(String), message_definitions.text(String), True)
        self._add(TF, transforms.KIND, definition, False)
        self._definition = definition
        self._write(name, serialize_message(String(data=self._source.frames.description())))

    def take(self, topic: str, data: bytes) -> None:
        """Remember a serialized measurement; only the newest is deserialized, to save time."""
        if topic in self._source.inputs.kinds:
            self._newest[topic] = data

    def poll(self) -> None:
        """Write the transforms, if they are due."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _SCENE_S
        for topic, data in self._newest.items():
            kind = self._source.inputs.kinds[topic]
            self._source.inputs.receive(topic, deserialize_message(data, kind))
        self._newest.clear()
        if sent := self._source.poll():
            self._write(TF, transforms.to_cdr(sent))

    def place_camera(self, data: bytes) -> None:
        """Write the pose of the simulated depth camera, once, if data are its intrinsics."""
        if interfaces.TFMessage is not None or not self._camera:
            return  # its node publishes it
        info = deserialize_message(data, CameraInfo)
        if info.header.frame_id == self._camera:
            self._add(TF_STATIC, transforms.KIND, self._definition, True)
            view = depth_camera(self._task, self._task.visual_model())
            stamp = convert.to_seconds(info.header.stamp)
            frame = self._task.robot.frame
            pose = depth_images.write_transform(stamp, frame, self._camera, view)
            self._write(TF_STATIC, transforms.to_cdr([pose]))
        self._camera = ''

    def close(self) -> None:
        """Unsubscribe."""
        self._source.close()

    def _add(self, name: str, kind: str, definition: str, latched: bool) -> None:
        if name not in self._writer.counts:  # else this is the scene of another task
            profile = message_definitions.qos_text(qos.LATCHED if latched else qos.DEFAULT)
            self._writer.add(BagTopic(name, kind, definition, profile))

    def _write(self, name: str, data: bytes) -> None:
        now = time.time_ns()
        self._order.add(RecordedMessage(name, data, now, now))


class BagRecorder:
    """Records topics into a bag from its construction until `close`."""

    def __init__(
        self, node: Node, folder: Path, overwrite: bool = False, depth: bool = False
    ) -> None:
        """Subscribe, with `depth` to depth images, too; ReplayError if the folder is not empty."""
        self._node, self._writer = node, BagWriter(folder, overwrite)
        self._order = MessageOrder([_DIAGNOSTICS])
        self._subscriptions: dict[str, PolledSubscription] = {}
        self._flushed, self._began = time.monotonic(), time.monotonic()
        self._optional: set[str] = set()  # topics that robot or tracker may not use
        self._silent: list[str] = []
        self._scene: SceneRecorder | None = None
        self._closed = False
        self.problem = ''  # with the task: then the robot's topics are not recorded
        for topic in (*ALWAYS, *(DEPTH if depth else ())):
            self._subscribe(topic)
        if depth and interfaces.TFMessage is not None:
            self._subscribe(TopicSpec(TF_STATIC, interfaces.TFMessage, qos.EVERY))

    @property
    def counts(self) -> dict[str, int]:
        """Number of written messages by topic."""
        return dict.fromkeys(self._subscriptions, 0) | self._writer.counts

    @property
    def silent(self) -> list[str]:
        """Topics without messages, a few seconds after the start."""
        if self._closed or time.monotonic() < self._began + _SILENT_S:
            return self._silent
        count = self._node.count_publishers
        quiet = [n for n, sent in self.counts.items() if not sent and n not in self._optional]
        self._silent = [n if count(n) else f'{n} (no publisher)' for n in quiet]
        return self._silent

    def poll(self) -> None:
        """Write received messages."""
        now_ns = time.time_ns()
        for subscription in list(self._subscriptions.values()):
            subscription.poll()
        if self._scene is not None:
            self._scene.poll()
        self._write(self._order.take(now_ns))
        if time.monotonic() > self._flushed + _FLUSH_S:
            self._flushed = time.monotonic()
            self._writer.flush()

    def close(self) -> None:
        """Complete the bag."""
        self._silent = self.silent  # needs the node
        self._closed = True
        for subscription in self._subscriptions.values():
            subscription.close()
        if self._scene is not None:
            self._scene.close()
        self._write(self._order.take_all())
        self._writer.close()

    def _write(self, messages: list[RecordedMessage]) -> None:
        for message in messages:
            self._writer.write(*message)

    def _subscribe(self, topic: TopicSpec) -> None:
        name = self._node.resolve_topic_name(topic.name)
        if name in self._subscriptions:
            return
        kind = message_definitions.name(topic.kind)

        def take(data: bytes, sent_ns: int, received_ns: int) -> None:
            if name not in self._writer.counts:
                text = message_definitions.text(topic.kind)
                profile = message_definitions.qos_text(topic.profile)
                self._writer.add(BagTopic(name, kind, text, profile))
            self._order.add(RecordedMessage(name, data, received_ns, sent_ns))
            if self._scene is not None:
                self._scene.take(topic.name, data)
            if topic.name == TOPIC:
                self._take_task(deserialize_message(data, String))
            elif topic.name == INFO and self._scene is not None:
                self._scene.place_camera(data)

        self._subscriptions[name] = PolledSubscription(
            self._node, topic.kind, topic.name, take, topic.profile, raw=True
        )

    def _take_task(self, message: String) -> None:
        """Subscribe to the topics of the task's robot and objects."""
        try:
            task = parse_task(message.data, TOPIC)
        except EmppiError as error:
            self.problem = f'the topics of the robot are not recorded: {error}'
            return
        if self._scene is not None:
            self._scene.close()
        self._scene = SceneRecorder(self._node, self._writer, self._order, task)
        self.problem, self._began = '', time.monotonic()
        self._subscribe(TopicSpec(task.robot.topics.joint_states, JointState, qos.SENSOR))
        optional = [
            TopicSpec(name, _COMMANDS.get(interface, Float64MultiArray), qos.DEFAULT)
            for interface, name in task.robot.topics.commands.items()
            if interface in (task.robot.command, *_COMMANDS)
        ]
        for name in task.tracked:
            self._subscribe(TopicSpec(f'tracking/{name}', PoseStamped, qos.SENSOR))
            topic = f'{UNCERTAIN}/{name}'
            optional.append(TopicSpec(topic, PoseWithCovarianceStamped, qos.SENSOR))
        self._optional |= {self._node.resolve_topic_name(topic.name) for topic in optional}
        for spec in optional:
            self._subscribe(spec)


@contextmanager
def recording(folder: Path, namespace: str, overwrite: bool, depth: bool) -> Iterator[BagRecorder]:
    """Yield a recorder into a new folder, to be polled; it is closed afterwards."""
    os.nice(10)  # the priority of the belief: the robot comes first
    with (
        closing(process.CommandNode('recorder', namespace)) as client,
        closing(BagRecorder(client.node, folder, overwrite, depth)) as recorder,
    ):
        yield recorder
