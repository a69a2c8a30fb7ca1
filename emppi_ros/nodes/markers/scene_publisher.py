"""
Publisher of the scene for RobotModel and TF displays: a URDF and `/tf`.

If a robot_state_publisher runs, the URDF is its `robot_description`, and `/tf` has only objects
and axes. The topic is another one: controller_manager takes `robot_description` for its own.
"""

import time

from rclpy.node import Node
from rclpy.publisher import Publisher
from std_msgs.msg import String

from emppi_ros.nodes.bridge.graph_monitor import DESCRIPTION
from emppi_ros.nodes.common import interfaces, qos
from emppi_ros.nodes.common.frames import TF
from emppi_ros.nodes.common.polling import Loop
from emppi_ros.nodes.topics import transforms
from emppi_ros.nodes.topics.transforms import SCENE_DESCRIPTION, TransformSource
from emppi_ros.tasks.task import Task

_CHECK_S = 1.0  # between looks for another description
_DISCOVERY_S = 3.0  # in which another one is discovered, at the start
NO_TF = 'tf2_msgs is not installed: /tf is not published; source a ROS 2 installation'


class ScenePublisher:
    """Publishes until `close`, transforms only while they have subscribers."""

    def __init__(self, node: Node, task: Task, rate_hz: float) -> None:
        self._node, self._task = node, task
        self._source: TransformSource | None = None
        self._publisher = node.create_publisher(String, SCENE_DESCRIPTION, qos.LATCHED)
        self._described = False  # whether the URDF is ours
        self._subscription = node.create_subscription(
            String, DESCRIPTION, self._repeat, qos.LATCHED
        )
        self._check_at = time.monotonic() + _DISCOVERY_S
        self._tf: Publisher[interfaces.TFMessage] | None = None
        if interfaces.TFMessage is None:
            node.get_logger().info(NO_TF, once=True)
        else:
            self._tf = node.create_publisher(interfaces.TFMessage, TF, qos.DEFAULT)
        self.loop = Loop('scene', 1.0 / rate_hz, self._work)

    def close(self) -> None:
        """Stop, and withdraw the description."""
        self.loop.stop()
        self._node.destroy_subscription(self._subscription)
        self._node.destroy_publisher(self._publisher)
        self._watch(False)
        if self._tf is not None:
            self._node.destroy_publisher(self._tf)

    def _work(self, _moment: float) -> None:
        if time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + _CHECK_S
            self._check_description()
        self._watch(self._tf is not None and self._tf.get_subscription_count() > 0)
        if self._source is not None and self._tf is not None:
            sent = self._source.poll(links=self._described)
            if sent:
                self._tf.publish(interfaces.TFMessage(transforms=sent))

    def _watch(self, wanted: bool) -> None:
        """Subscribe to measurements, or end that."""
        if wanted and self._source is None:
            self._source = TransformSource(self._node, self._task)
        elif not wanted and self._source is not None:
            self._source.close()
            self._source = None

    def _check_description(self) -> None:
        """Publish the scene as URDF unless another node describes the robot."""
        if not self._described and self._node.count_publishers(DESCRIPTION) == 0:
            self._described = True  # before a description of others may arrive
            frames = transforms.scene_frames(self._node, self._task)
            self._publisher.publish(String(data=frames.description()))

    def _repeat(self, message: String) -> None:
        self._described = False
        self._publisher.publish(message)
