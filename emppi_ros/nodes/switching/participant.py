"""What the node that swaps tasks has to be able to do."""

from collections.abc import Mapping
from typing import Any, Protocol

from emppi_ros.nodes.planner.planning_stats import PlanningStats
from emppi_ros.session.planner import Planner
from emppi_ros.tasks.task import Task


class Swapper(Protocol):
    """What the planner does for a swap."""

    task: Task
    figures: PlanningStats  # of the task

    def make(self, task: Task, text: str) -> Planner:
        """Return all that it takes to plan for a task."""

    def go_over(self, fresh: Planner) -> None:
        """End planning, and be ready for the task that this was made for."""

    def tell(self, text: str) -> None:
        """Publish the task."""

    def go_on(self) -> None:
        """Plan for it."""

    def tune(self, data: Mapping[str, Any]) -> None:
        """Go on with YAML that differs in numbers alone."""
