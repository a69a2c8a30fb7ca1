"""
What the node `planner` does with all that it hears, cycle by cycle, without ROS and clocks.

Whoever is told the same in the same order, from the same seed, plans the same bit for bit: this
is what a replay rests on.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from emppi_ros.belief.particles import Belief
from emppi_ros.control.plan import Plan
from emppi_ros.session.planner import Planner
from emppi_ros.state.measurements import Measurements
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
NUMBER = 3  # of the planner's random numbers, beside the seed


class Planning(Measurements):
    """Measurements and beliefs in, plans out."""

    MEMORY = (*Measurements.MEMORY, 'planner', '_plans', '_belief')

    def __init__(self, task: Task, seed: int) -> None:
        """Make the planner."""
        super().__init__(task)
        self.planner = Planner(task, np.random.default_rng([seed, NUMBER]))
        self.diverged = 0  # rollouts, so far
        self._period = 1.0 / task.planner.rate_hz
        self._plans: deque[Plan] = deque(maxlen=10)
        self._belief: Belief | None = None

    def believe(self, theta: Array, log_weights: Array) -> None:
        """Plan with this belief, (M, P) and (M,), from now on."""
        self._belief = Belief(theta, log_weights)
        self.planner.believe(self._belief)

    def tune(self, text: str) -> None:
        """Plan by other numbers from the next cycle on; plan, belief and stage are kept."""
        super().tune(text)
        self.planner.tune(self.task)

    def resume(self) -> None:
        """Go on from what is remembered, which was another's."""
        super().resume()
        if self._belief is not None:
            self.planner.believe(self._belief)

    def forget(self) -> None:
        """Start the next plan from rest, as after a pause."""
        self.planner.forget()

    def plan(self, moment: float) -> Plan:
        """Return the plan of the cycle that begins at `moment`, or raise an EmppiError."""
        stamp = self.estimator.stamp
        state, seen = self.estimator.state(stamp), self.estimator.tracks(stamp)
        start = moment + self._period
        plan, info = self.planner.cycle(state, stamp, start, self._commands, seen)
        self._plans.append(plan)
        self.diverged += info.diverged
        return plan

    def _commands(self, times: Array) -> Array:
        """Return the commands in force at `times`: those applied, then the plans under way."""
        applied = self.applied
        rows, last, resting = applied.hold(times), applied.last_stamp, not np.any(applied.last)
        if resting and self.task.robot.command != 'position':
            return rows  # a bridge that commands exact rest is following no plan
        for i in np.flatnonzero(times > last):
            under_way = [plan for plan in self._plans if plan.start <= times[i]]
            if under_way:
                rows[i] = under_way[-1].at(times[i])
        return rows
