"""Where a plan leads, in each of a few models of the belief: to be seen, not to be followed."""

from collections.abc import Mapping
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import particles
from emppi_ros.belief.particles import Belief
from emppi_ros.control.plan import Plan
from emppi_ros.model import scene
from emppi_ros.model.ensemble import Ensemble, Records, State
from emppi_ros.session import candidates
from emppi_ros.state import articulation
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.cost import Cost
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]


class PlanCost(NamedTuple):
    """What a plan costs by its task, on average over the models of a belief."""

    terms: Mapping[str, float]  # by name; NaN if every model diverged
    diverged: float  # share of the belief that did, and does not count


class Course(NamedTuple):
    """What a plan leads to in each model, and how much of the belief each stands for."""

    place: Array  # (M, H + 1, 3) m, of what candidates are seen by; NaN where a model diverged
    objects: Array  # (M, n, H + 1, 3) m, of tracked objects
    shares: Array  # (M,)
    cost: PlanCost | None = None  # if it was asked for


class Preview:
    """Rolls plans out, on one core only: the others are the planner's."""

    def __init__(self, task: Task) -> None:
        """Make as many models as the planner has."""
        self._task = task
        self.ensemble = Ensemble(task.model, task.parameters, task.planner.models, 1, threads=1)
        self._place = candidates.place(task)
        self._bodies = [scene.find(task.model, 'body', t.body) for t in task.tracked.values()]
        self._order = np.argsort(task.map.ctrl)

    def predict(
        self,
        belief: Belief,
        state: State,
        stamp: float,
        plan: Plan,
        seen: Mapping[str, Track],
        cost: Cost | None = None,
    ) -> Course:
        """
        Return where a plan leads from the state measured at `stamp`, over the planner's horizon.

        What is commanded until the plan starts is its first command. `seen` holds the motions
        of jointed objects. With a cost, the course says what each of its terms adds.
        """
        config = self._task.planner
        chosen = particles.select(belief, self.ensemble.models)
        self.ensemble.write(chosen.theta)
        start = articulation.fit_state(self._task, self.ensemble, state, seen)
        steps = config.horizon * config.substeps + 1
        times = stamp + (np.arange(steps) + 0.5) * config.step_s / config.substeps
        commands = np.array([plan.at(time) for time in times])[:, self._order]
        controls = np.broadcast_to(commands, (self.ensemble.models, 1, *commands.shape))
        fields = {self._place.field, 'xipos', *(cost.record if cost else ())}
        records = self.ensemble.rollout(start, controls, sorted(fields))
        place = candidates.trace(records, self._place, config.substeps)[:, 0]
        bodies = records.fields['xipos'][:, 0, :: config.substeps][:, :, self._bodies]
        objects = bodies.transpose(0, 2, 1, 3).copy()
        place[records.diverged[:, 0]] = np.nan
        objects[records.diverged[:, 0]] = np.nan
        shares = np.exp(chosen.log_weights)
        found = None if cost is None else self._add_up(cost, records, start, shares)
        return Course(place, objects, shares, found)

    def _add_up(self, cost: Cost, records: Records, start: State, shares: Array) -> PlanCost:
        found = cost.per_term(records, start, self._task.planner.substeps)
        rows = {name: values[:, 0] for name, values in found.items()}
        sound = np.isfinite(list(rows.values())).all(axis=0)
        kept = float(shares[sound].sum())
        if not kept:
            return PlanCost(dict.fromkeys(rows, math.nan), 1.0)
        mean = {name: float(shares[sound] @ row[sound]) / kept for name, row in rows.items()}
        return PlanCost(mean, float(shares[~sound].sum()))
