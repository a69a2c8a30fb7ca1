"""
The scene in a bag, so that Foxglove and Rerun show it: `robot_description` and `/tf`.

The recorder makes them itself, as the node `markers` does, which runs beside few graphs.
"""

import time

from geometry_msgs.msg import TransformStamped
from rclpy.node import Node
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import String

from emppi_ros.nodes.bridge.graph_monitor import DESCRIPTION
from emppi_ros.nodes.common import convert, qos
from emppi_ros.nodes.tools import message_definitions
from emppi_ros.nodes.topics import depth_images, transforms
from emppi_ros.nodes.topics.depth_images import TF_STATIC
from emppi_ros.nodes.topics.transforms import TF, TransformSource
from emppi_ros.recordings.bag_writer import BagTopic, BagWriter, MessageOrder, RecordedMessage
from emppi_ros.tasks.task import Task
from emppi_ros.viz.simulated_camera import depth_camera

_PERIOD_S = 0.05


class SceneRecorder:
    """Writes the description of a task's scene, and from then on transforms."""

    def __init__(self, node: Node, writer: BagWriter, order: MessageOrder, task: Task) -> None:
        """Subscribe to the belief if it is about axes, and write the description."""
        self._writer, self._order, self._next = writer, order, time.monotonic()
        self._task, self._camera = task, depth_images.optical_frame(node.get_namespace())
        self._source = TransformSource(node, task, subscribed=False)
        self._newest: dict[str, bytes] = {}  # measurements since the last transforms, by topic
        name = node.resolve_topic_name(DESCRIPTION)
        transform = message_definitions.name(TransformStamped).replace('/msg/', '/')
        definition = message_definitions.nested(f'{transform}[] transforms', TransformStamped)
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
        self._next = time.monotonic() + _PERIOD_S
        for topic, data in self._newest.items():
            kind = self._source.inputs.kinds[topic]
            self._source.inputs.receive(topic, deserialize_message(data, kind))
        self._newest.clear()
        if sent := self._source.poll():
            self._write(TF, transforms.to_cdr(sent))

    def place_camera(self, data: bytes) -> None:
        """Write the pose of the simulated depth camera, once, if data are its intrinsics."""
        if transforms.TFMessage is not None or not self._camera:
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
