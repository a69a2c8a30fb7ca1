"""What the node that swaps tasks has to be able to do."""

from collections.abc import Mapping
from typing import Any, Protocol

from emppi_ros.loop.planner import Planner
from emppi_ros.nodes.figures import Figures
from emppi_ros.tasks.task import Task


class Swapper(Protocol):
    """What the planner does for a swap."""

    task: Task
    figures: Figures  # of the task

    def go_over(self, task: Task, planner: Planner) -> None:
        """End planning, and be ready for another task."""

    def tell(self, text: str) -> None:
        """Publish the task."""

    def go_on(self) -> None:
        """Plan for it."""

    def tune(self, data: Mapping[str, Any]) -> None:
        """Go on with YAML that differs in numbers alone."""
