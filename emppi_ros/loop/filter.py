"""One belief cycle of a task: predict with every particle, compare, reweight, resample."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros import weights
from emppi_ros.belief import likelihood, particles, prior
from emppi_ros.belief.particles import Belief
from emppi_ros.loop.planner import Commands
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_LONGEST_S = 0.5  # beyond such a gap in measurements, a prediction says nothing


class Update(NamedTuple):
    """What a belief cycle did, for diagnostics."""

    ess: float  # effective sample size before resampling
    resampled: bool


class Filter:
    """Keeps a belief about a task's parameters up to date with measurements."""

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        """Draw the particles from the prior."""
        self._task, self._rng, self._config = task, rng, task.belief
        self._ensemble = Ensemble(
            task.model, task.parameters, self._config.particles, 1, task.planner.threads
        )
        self._order = np.argsort(task.map.ctrl)
        self._last: tuple[float, State] | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all that was learned: particles from the prior again."""
        theta = prior.sample(
            self._task.parameters, self._task.priors, self._config.particles, self._rng
        )
        self.belief: Belief = particles.uniform(theta)
        self._last = None

    def observe(
        self, stamp: float, measured: State, estimated: State, commands: Commands
    ) -> Update | None:
        """
        Update the belief with what was measured at `stamp`; the first call only starts.

        Parameters
        ----------
        stamp : float
            Time of the measurement.
        measured : State
            What sensors said at that time.
        estimated : State
            The best estimate at that time, from which the next prediction starts.
        commands : callable
            Times (n,) to the commands that were really applied (n, joints).

        Returns
        -------
        Update or None
            None if there was nothing to compare with: the first call, or after a gap.

        """
        last, self._last = self._last, (stamp, estimated)
        if last is None or not 0.0 < stamp - last[0] <= _LONGEST_S:
            return None
        if not self._task.parameters:
            return None
        interval = stamp - last[0]
        substep = self._task.planner.step_s / self._task.planner.substeps
        count = math.ceil(interval / substep - 1e-6)
        times = last[0] + (np.arange(count) + 0.5) * interval / count
        self._ensemble.write(self.belief.theta)
        predicted = self._ensemble.predict(
            last[1], commands(times)[:, self._order], interval / count
        )
        log_likelihood = likelihood.log_likelihood(
            self._config.likelihood, self._task.model, predicted, measured
        )
        belief = particles.reweight(self.belief, log_likelihood)
        ess = weights.effective_sample_size(belief.log_weights)
        self.belief, resampled = particles.resample(
            self._config.resampling, self._task.parameters, belief, self._rng
        )
        return Update(ess, resampled)
