"""All that is shown of a task at one moment, by topic: the node and the command draw the same."""

from collections.abc import Mapping
from typing import NamedTuple

from emppi_ros.belief.particles import Belief
from emppi_ros.control.plan import Plan
from emppi_ros.model.ensemble import State
from emppi_ros.session.candidates import Candidates
from emppi_ros.session.plan_preview import Course, PlanCost, Preview
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.cost import Cost
from emppi_ros.tasks.task import Task
from emppi_ros.viz.shapes import histograms, joint_axes, objects, points, rollouts
from emppi_ros.viz.shapes.scene_extent import place, setting
from emppi_ros.viz.shapes.shapes import Array, Shape


class Seen(NamedTuple):
    """What is known at one moment."""

    stamp: float  # s, of the state
    state: State
    tracks: Mapping[str, Track]  # of jointed objects
    belief: Belief
    plan: Plan | None = None
    candidates: Candidates | None = None
    stage: str = ''  # that the planner is in, '' before it said so


class Layers:
    """Draws what is known of a task."""

    def __init__(self, task: Task) -> None:
        """Look at the scene once."""
        self._task, self._setting = task, setting(task)
        self.preview = Preview(task)

    def belief(self, seen: Seen) -> list[Shape]:
        """Return what is believed."""
        data = place(self._task, seen.state.qpos)
        return [
            *joint_axes.shapes(self._task, self._setting, data, seen.belief),
            *histograms.shapes(self._task, self._setting, data, seen.belief),
        ]

    def points(self, seen: Seen) -> Array:
        """Return where each particle is shown as a point (M, 3)."""
        data = place(self._task, seen.state.qpos)
        return points.places(self._task, self._setting, data, seen.belief)

    def objects(self, seen: Seen) -> list[Shape]:
        """Return what is tracked, and its target."""
        data = place(self._task, seen.state.qpos)
        return objects.shapes(self._task, self._setting, data)

    def course(self, seen: Seen, cost: Cost | None = None) -> Course:
        """Return where the plan leads, and what it costs, if a cost is given."""
        if seen.plan is None:
            return Course(*rollouts.NOWHERE)
        return self.preview.predict(
            seen.belief, seen.state, seen.stamp, seen.plan, seen.tracks, cost
        )

    def cost(self, task: Task, seen: Seen) -> PlanCost | None:
        """Return what the plan costs by a task (with the numbers of now), None without a plan."""
        stages = {stage.name: stage for stage in task.stages}
        return self.course(seen, stages.get(seen.stage, task.stages[0]).cost).cost

    def rollouts(self, seen: Seen, course: Course | None = None) -> list[Shape]:
        """Return candidates and plan, as far as there are any."""
        found = rollouts.candidates(self._setting, *(seen.candidates or rollouts.NONE))
        course = course or self.course(seen)
        return [*found, *rollouts.plan(self._setting, *course[:3])]
