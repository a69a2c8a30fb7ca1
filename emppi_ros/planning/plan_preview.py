"""
Predicted motion for display: candidate rollouts, and the plan in each model of the belief.

Nothing here changes a plan.
"""

from collections.abc import Mapping
import math
from typing import NamedTuple

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Ensemble, Records, State
from emppi_ros.priors import particles
from emppi_ros.priors.particles import Belief
from emppi_ros.robots.plan import Plan
from emppi_ros.state import articulation
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.cost import Cost
from emppi_ros.tasks.task import Task


class TracePoint(NamedTuple):
    """A point of the robot whose path is drawn: a row of a field of MjData."""

    field: str
    row: int


class Candidates(NamedTuple):
    """The paths of M x K candidates and their costs."""

    traces: Array  # (M, K, H + 1, 3) m, at x_0 .. x_H
    costs: Array  # (M, K), +inf if one diverged


class PlanCost(NamedTuple):
    """Cost of a plan, averaged over the models of a belief."""

    terms: Mapping[str, float]  # by name; NaN if every model diverged
    diverged: float  # weight of the diverged models, which are left out of the average


class PlanRollouts(NamedTuple):
    """Rollouts of a plan, one in each of M models."""

    points: Array  # (M, H + 1, 3) m, of the trace point; NaN where a model diverged
    objects: Array  # (M, n, H + 1, 3) m, of tracked objects
    weights: Array  # (M,) of the models
    cost: PlanCost | None = None  # if requested


def trace_point(task: Task) -> TracePoint:
    """
    Return the point to draw: the one from which the cost measures its first distance.

    The planner records that point anyway. Without a distance in the cost, it is the centre of
    mass of the last joint's body.
    """
    for stage in task.stages:
        for term in stage.settings.cost.values():
            if term.get('residual') == 'distance':
                kind, index = scene.find_frame(task.model, term['of'])
                return TracePoint(scene.POSITION_FIELDS[kind], index)
    joint = scene.find(task.model, 'joint', task.robot.joints[-1])
    return TracePoint('xipos', int(task.model.jnt_bodyid[joint]))


def trace_positions(records: Records, point: TracePoint, substeps: int) -> Array:
    """Return a point's positions at x_0 .. x_H, (M, K, H + 1, 3), of H * substeps + 1 records."""
    return records.fields[point.field][:, :, ::substeps, point.row].copy()


class PlanPreview:
    """Rolls out plans in a single thread, to leave the other cores to the planner."""

    def __init__(self, task: Task) -> None:
        """Create as many models as the planner has."""
        self._task = task
        self.ensemble = Ensemble(task.model, task.parameters, task.planner.models, 1, threads=1)
        self._point = trace_point(task)
        self._bodies = [scene.find(task.model, 'body', t.body) for t in task.tracked.values()]

    def predict(
        self,
        belief: Belief,
        state: State,
        stamp: float,
        plan: Plan,
        tracks: Mapping[str, Track],
        cost: Cost | None = None,
    ) -> PlanRollouts:
        """
        Roll out a plan from the state measured at `stamp`, over the planner's horizon.

        Until the plan starts, its first command applies. `tracks` has the motions of jointed
        objects. With a cost, the result contains the value of each term.
        """
        config = self._task.planner
        chosen = particles.select(belief, self.ensemble.models)
        self.ensemble.write(chosen.theta)
        start = articulation.fit_state(self._task, self.ensemble, state, tracks)
        steps = config.horizon * config.substeps + 1
        times = stamp + (np.arange(steps) + 0.5) * config.step_s / config.substeps
        delays = self.ensemble.delays
        late = [0.0] if delays is None else delays
        commands = plan.at(times - np.reshape(late, (-1, 1)))
        controls = self._task.map.controls(commands)
        shape = self.ensemble.models, *controls.shape[1:]
        controls = np.broadcast_to(controls, shape)[:, None]
        fields = {self._point.field, 'xipos', *(cost.record if cost else ())}
        records = self.ensemble.rollout(start, controls, sorted(fields))
        points = trace_positions(records, self._point, config.substeps)[:, 0]
        bodies = records.fields['xipos'][:, 0, :: config.substeps][:, :, self._bodies]
        objects = bodies.transpose(0, 2, 1, 3).copy()
        points[records.diverged[:, 0]] = np.nan
        objects[records.diverged[:, 0]] = np.nan
        weights = np.exp(chosen.log_weights)
        mean = None if cost is None else self._mean_cost(cost, records, start, weights)
        return PlanRollouts(points, objects, weights, mean)

    def _mean_cost(self, cost: Cost, records: Records, start: State, weights: Array) -> PlanCost:
        terms = cost.per_term(records, start, self._task.planner.substeps)
        rows = {name: values[:, 0] for name, values in terms.items()}
        finite = np.isfinite(list(rows.values())).all(axis=0)
        total = float(weights[finite].sum())
        if not total:
            return PlanCost(dict.fromkeys(rows, math.nan), 1.0)
        mean = {name: float(weights[finite] @ row[finite]) / total for name, row in rows.items()}
        return PlanCost(mean, float(weights[~finite].sum()))
