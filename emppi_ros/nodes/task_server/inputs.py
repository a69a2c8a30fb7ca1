"""What a run observes: measurements, the error of the task, and the belief."""

import math
from typing import Any

from rclpy.node import Node

from emppi_ros.core.errors import StaleInputError
from emppi_ros.nodes.common.inputs import MeasurementInputs
from emppi_ros.nodes.topics.belief_cloud import BeliefSubscriber
from emppi_ros.nodes.topics.named_belief import estimates
from emppi_ros.state.estimated_scene import EstimatedScene
from emppi_ros.tasks.task import Task


class RunInputs:
    """Subscriptions that exist only while a goal is active."""

    def __init__(self, node: Node, task: Task) -> None:
        self._task, self._scene = task, EstimatedScene(task)
        self._measurements = MeasurementInputs(node, task)
        self._belief = BeliefSubscriber(node, task)

    def close(self) -> None:
        """Unsubscribe."""
        self._measurements.close()
        self._belief.close()

    def measure(self) -> tuple[float, float]:
        """Return the error of the newest state, and its stamp [s]; (NaN, -inf) without one."""
        self._measurements.poll()
        estimator = self._measurements.estimator
        try:
            stamp = estimator.stamp
            state, tracks = estimator.state(stamp), estimator.tracks(stamp)
        except StaleInputError:
            return math.nan, -math.inf
        data = self._scene.update(state, tracks, self._belief.latest)
        return float(self._task.error(self._scene.model, data)), float(stamp)

    def estimates(self) -> list[Any]:
        """Return the messages of the parameters' estimates, without any before a belief."""
        belief = self._belief.latest
        return [] if belief is None else estimates(self._task.parameters, belief)
