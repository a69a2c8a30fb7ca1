"""
Likelihood of recordings for each of many particles, from the predictions of the belief.

A particle follows a recording as in a belief that is never resampled: it predicts from one
observation to the next, and continues from the measured joints, and from a correction of its own
prediction for tracked objects (`belief/measurement_model.py`). The sum is the likelihood of one
Kalman filter per particle, whose gain is the task's `object_gain`. Contact is predicted, never
inverted.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from emppi_ros.belief import measurement_model
from emppi_ros.belief.belief_monitor import normalized_innovations
from emppi_ros.belief.measurement_model import LONGEST_S, Deviation, Predictor
from emppi_ros.core.arrays import Array
from emppi_ros.identification.filter.recordings import BeliefData
from emppi_ros.model.ensemble import State
from emppi_ros.priors.particles import uniform
from emppi_ros.tasks.task import Task


class RecordingLikelihood:
    """The likelihood of recordings of one system for N particles; every call starts afresh."""

    def __init__(
        self, task: Task, data: Sequence[BeliefData], particles: int, threads: int = 0
    ) -> None:
        self._likelihood, self._data = task.belief.likelihood, data
        self._predictor = Predictor(task, particles, threads)

    def log_likelihood(self, theta: Array) -> Array:
        """Return the log likelihood (N,) of particles (N, P), up to a common constant."""
        total = np.zeros(len(theta))
        for predicted, deviations in self._follow(theta):
            each = measurement_model.log_likelihoods(self._likelihood, predicted, deviations)
            total += each.sum(axis=1)
        return total

    def innovations(self, theta: Array) -> dict[str, float]:
        """
        Return the mean square innovation of each quantity for particles (N, P).

        Units are the standard deviations of the task's likelihood and the particles' predictions
        combined: a correct model has 1.
        """
        log_weights, innovations = uniform(theta).log_weights, dict[str, list[Array]]()
        for _, deviations in self._follow(theta):
            for quantity, values in normalized_innovations(log_weights, deviations).items():
                innovations.setdefault(quantity, []).append(values)
        return {name: float(np.mean(np.concatenate(v) ** 2)) for name, v in innovations.items()}

    def _follow(self, theta: Array) -> Iterator[tuple[State, list[Deviation]]]:
        """Yield the predictions of each observation, and their deviations from it."""
        predictor = self._predictor
        predictor.write(theta)
        for data in self._data:
            last: tuple[float, State] | None = None
            for stamp, observation in data.observations:
                fitted, before = predictor.fit(observation), last
                last = stamp, fitted
                if before is None or stamp - before[0] > LONGEST_S:
                    continue
                predicted = predictor.predict(before, stamp, data.commands)
                yield predicted, predictor.compare(predicted, observation)
                elapsed = stamp - before[0]
                last = stamp, predictor.correct(predicted, observation, fitted, elapsed)
