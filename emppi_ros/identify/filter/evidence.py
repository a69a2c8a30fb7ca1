"""
What recordings say about each of many particles, by the predictions of the belief.

A particle goes through a recording as it does in a belief that is never resampled: it predicts
from one moment to the next, and goes on from what was measured of joints, and near its own
prediction for tracked objects (`session/prediction.py`). So the sum is the likelihood of a Kalman
filter per particle whose gain is the task's `object_gain`. Contact is only ever predicted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emppi_ros.belief import likelihood
from emppi_ros.belief.diagnostics import normalized_innovations
from emppi_ros.belief.likelihood import Deviation
from emppi_ros.belief.particles import uniform
from emppi_ros.identify.filter.recorded import Seen
from emppi_ros.model.ensemble import State
from emppi_ros.session.prediction import LONGEST_S, Prediction
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Recipe:
    """What any particle is weighed by."""

    task: Task
    seen: Sequence[Seen]

    def make(self, particles: int, threads: int) -> 'Evidence':
        """Return what weighs so many."""
        return Evidence(self.task, self.seen, particles, threads)


class Evidence:
    """Weighs N particles by recordings of one system; every call is from their beginnings."""

    def __init__(self, task: Task, seen: Sequence[Seen], particles: int, threads: int = 0) -> None:
        """Make the models."""
        self._likelihood, self._seen = task.belief.likelihood, seen
        self._prediction = Prediction(task, particles, threads)

    def log_likelihood(self, theta: Array) -> Array:
        """Return the log likelihood (N,) of particles (N, P), up to a common constant."""
        total = np.zeros(len(theta))
        for predicted, found in self._follow(theta):
            total += likelihood.log_likelihoods(self._likelihood, predicted, found).sum(axis=1)
        return total

    def innovations(self, theta: Array) -> dict[str, float]:
        """
        Return the mean square of innovations of each quantity, of particles (N, P).

        In units of the standard deviations of the task's likelihood and of the particles'
        predictions together; 1 is what a model that is right has.
        """
        log_weights, found = uniform(theta).log_weights, dict[str, list[Array]]()
        for _, deviations in self._follow(theta):
            for quantity, values in normalized_innovations(log_weights, deviations).items():
                found.setdefault(quantity, []).append(values)
        return {name: float(np.mean(np.concatenate(v) ** 2)) for name, v in found.items()}

    def _follow(self, theta: Array) -> Iterator[tuple[State, list[Deviation]]]:
        """Yield what particles predict for each moment, and how they differ from it."""
        prediction = self._prediction
        prediction.write(theta)
        for seen in self._seen:
            last: tuple[float, State] | None = None
            for stamp, moment in seen.moments:
                fitted, before = prediction.fit(moment), last
                last = stamp, fitted
                if before is None or stamp - before[0] > LONGEST_S:
                    continue
                predicted = prediction.predict(before, stamp, seen.commands)
                yield predicted, prediction.compare(predicted, moment)
                elapsed = stamp - before[0]
                last = stamp, prediction.correct(predicted, moment, fitted, elapsed)
