"""
The node `depth_camera`: depth images of the simulated scene, with the noise of a camera.

It renders the true state, which the simulator publishes for it. It is a process of its own: a
thread of the simulator would hold its interpreter, and so delay its steps. Of states that arrive
while an image is rendered, only the last is used.
"""

import time
from typing import Any

from rclpy.publisher import Publisher
from sensor_msgs.msg import CameraInfo, Image
from std_msgs.msg import Float64MultiArray

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import interfaces, parameters, qos
from emppi_ros.nodes.common.diagnostics import OK, WARN, Durations, Report
from emppi_ros.nodes.common.frames import TF_STATIC
from emppi_ros.nodes.topics import depth_images
from emppi_ros.nodes.topics.depth_images import STATE
from emppi_ros.nodes.topics.task import TaskFollowerNode
from emppi_ros.sim.depth_camera import SimulatedDepthCamera
from emppi_ros.tasks.task import Task
from emppi_ros.tracking.camera_messages import IMAGE, INFO
from emppi_ros.viz.renderer import depth_camera


class DepthCameraNode(TaskFollowerNode):
    """Renders the task's scene from its depth camera."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__('depth_camera', **kwargs)
        self._settings = parameters.declare_all(self, parameters.SeedParameters)
        self._frame = depth_images.optical_frame(self.get_namespace())
        self._tf: Publisher[interfaces.TFMessage] | None = None

    def setup(self) -> None:
        """Place the camera in the scene of the task."""
        self.task: Task = self.follow.take()
        model = self.task.visual_model()
        self.camera = depth_camera(self.task, model)
        seed = self._settings.seed
        self._simulated = SimulatedDepthCamera(self.task, model, self.camera, seed)
        self._problem, self._images, self._times = '', 0, Durations()
        self._outputs = [
            qos.advertise(self, kind, topic, qos.NEWEST_SENSOR)
            for kind, topic in ((Image, IMAGE), (CameraInfo, INFO))
        ]
        if interfaces.TFMessage is not None and self._tf is None:
            self._tf = self.create_publisher(interfaces.TFMessage, TF_STATIC, qos.LATCHED)

    def start(self) -> None:
        """Begin to take images."""
        if self._tf is not None:
            parent = self.task.robot.frame
            pose = depth_images.write_transform(self.now(), parent, self._frame, self.camera)
            self._tf.publish(interfaces.TFMessage(transforms=[pose]))
        self._states = self.create_subscription(
            Float64MultiArray, STATE, self._take_state, qos.NEWEST
        )

    def stop(self) -> None:
        """Take no more images."""
        self.destroy_subscription(self._states)

    def teardown(self) -> None:
        """Forget the task."""
        for publisher in self._outputs:
            self.destroy_publisher(publisher)
        super().teardown()

    def report(self) -> Report:
        """Return how many images were taken, and how long one takes."""
        values = {'images': self._images, 'render_ms_p50': self._times.quantile_ms(0.5)}
        problem = self.follow.changed or self._problem
        if not problem and not self._images:
            problem = f'waiting for {STATE}'
        return Report(WARN if problem else OK, problem or 'taking images', values)

    def _take_state(self, message: Float64MultiArray) -> None:
        began = time.perf_counter()
        try:
            stamp, qpos, truth = depth_images.read_state(self.task, message)
        except EmppiError as error:  # of another task
            self._problem = str(error)
            return
        depth = self._simulated.take(qpos, truth)
        image = depth_images.write_depth(stamp, self._frame, depth)
        info = depth_images.write_camera(stamp, self._frame, self.camera)
        for publisher, sent in zip(self._outputs, (image, info), strict=True):
            publisher.publish(sent)
        self._problem = ''
        self._images += 1
        self._times.add(time.perf_counter() - began)
