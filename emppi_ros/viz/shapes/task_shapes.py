"""All shapes that show a task at one moment: the markers node, `emppi markers` and the page."""

from collections.abc import Mapping
from typing import NamedTuple, Self

import mujoco

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.belief.changes import DetectedChange
from emppi_ros.core.arrays import Array
from emppi_ros.model.ensemble import State
from emppi_ros.planning.plan_preview import Candidates, PlanCost, PlanPreview, PlanRollouts
from emppi_ros.priors.particles import Belief
from emppi_ros.robots.plan import Plan
from emppi_ros.state.estimated_scene import EstimatedScene
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.cost import Cost
from emppi_ros.tasks.task import Task
from emppi_ros.viz.shapes import histograms, joint_axes, objects, rollouts
from emppi_ros.viz.shapes.scene_extent import scene_extent
from emppi_ros.viz.shapes.shapes import Shape

SHOWN_S = 5.0  # for so long after a change was detected, it is written beside the belief


class DisplayState(NamedTuple):
    """State, belief and plan at one moment."""

    stamp: float  # s, of the state
    state: State
    tracks: Mapping[str, Track]  # of jointed objects
    belief: Belief
    plan: Plan | None = None
    candidates: Candidates | None = None
    stage: str = ''  # of the planner, '' until it is known
    changes: tuple[DetectedChange, ...] = ()  # that were detected

    @classmethod
    def of_loop(cls, loop: ClosedLoop, plan: Plan | None) -> Self:
        """Return the state of a closed loop now; StaleInputError before measurements."""
        estimator, stamp = loop.planner.estimator, loop.planner.estimator.stamp
        state, tracks = estimator.state(stamp), estimator.tracks(stamp)
        belief, candidates = loop.filter.belief, loop.planner.candidates
        changes = tuple(loop.filter.changes.events)
        return cls(stamp, state, tracks, belief, plan, candidates, changes=changes)


class TaskShapes:
    """Draws the state, belief and plan of a task as shapes."""

    def __init__(self, task: Task, least_m: float = 0.0) -> None:
        """Draw histograms as in a scene of the size `least_m` [m], if this one is smaller."""
        self._task, self.extent = task, scene_extent(task)
        self._sheets = self.extent._replace(size=max(self.extent.size, least_m))
        self.preview, self._scene = PlanPreview(task), EstimatedScene(task)
        self._placed: DisplayState | None = None  # that the scene shows

    def _place(self, display: DisplayState) -> mujoco.MjData:
        """Return the scene with all objects where they were tracked."""
        if display is not self._placed:
            self._scene.update(display.state, display.tracks, display.belief)
            self._placed = display
        return self._scene.data

    def belief(self, display: DisplayState) -> list[Shape]:
        """Return the belief: joint axes, histograms, and changes that were just detected."""
        data = self._place(display)
        recent = [c for c in display.changes if 0.0 <= display.stamp - c.stamp < SHOWN_S]
        return [
            *joint_axes.shapes(self._task, self.extent, data, display.belief),
            *histograms.shapes(self._task, self._sheets, data, display.belief),
            *histograms.change_shapes(self._task, self._sheets, data, display.belief, recent),
        ]

    def points(self, display: DisplayState) -> Array:
        """Return the belief as one point a particle (M, 3)."""
        return histograms.points(self._task, self.extent, self._place(display), display.belief)

    def points_box(self, display: DisplayState) -> list[Shape]:
        """Return the box of `points`, which displays draw by themselves; nothing without any."""
        if not self._task.parameters:
            return []
        return [histograms.points_box(self._task, self.extent, self._place(display))]

    def objects(self, display: DisplayState) -> list[Shape]:
        """Return tracked objects and the target."""
        return objects.shapes(self._task, self.extent, self._place(display))

    def predict(self, display: DisplayState, cost: Cost | None = None) -> PlanRollouts:
        """Return the motion under the plan in each model, and its cost if a cost is given."""
        if display.plan is None:
            return PlanRollouts(*rollouts.NO_PLAN)
        return self.preview.predict(
            display.belief, display.state, display.stamp, display.plan, display.tracks, cost
        )

    def cost(self, task: Task, display: DisplayState) -> PlanCost | None:
        """Return the cost of the plan by the weights of a (tuned) task; None without a plan."""
        stages = {stage.name: stage for stage in task.stages}
        return self.predict(display, stages.get(display.stage, task.stages[0]).cost).cost

    def rollouts(
        self, display: DisplayState, prediction: PlanRollouts | None = None
    ) -> list[Shape]:
        """Return candidates and plan, as far as there are any."""
        candidates = display.candidates or rollouts.NO_CANDIDATES
        prediction = prediction or self.predict(display)
        return [
            *rollouts.candidates(self.extent, *candidates),
            *rollouts.plan(self.extent, *prediction[:3]),
        ]
