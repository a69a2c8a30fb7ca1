"""
Forecasts of held-out parts that the model does not explain as a whole.

They begin anew every half a second, as those of the method `shooting`.
"""

from collections.abc import Iterator

import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.identify.common.figures import HeldOutForecast
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.multiple_shooting import torque_noise
from emppi_ros.identify.multiple_shooting.forecast import forecast
from emppi_ros.identify.multiple_shooting.training_data import TrainingData
from emppi_ros.recordings.motion import Motion

_SAMPLES = 60


def forecast_pieces(
    plant: Plant, learned: TrainingData, theta: Array, errors: Array, seed: int, threads: int = 0
) -> list[HeldOutForecast]:
    """
    Return the forecasts of the held-out parts that are long enough.

    Parameters
    ----------
    plant : Plant
        The model.
    learned : TrainingData
        Data of G recordings.
    theta : (N, P) array
        Samples of the parameters, of which the first ones are used.
    errors : (G, nq + nv) array
        Root mean square of what the model leaves in the windows of each recording.
    seed : int
        Source of start states, random torques and noise.
    threads : int
        Threads of the simulation; 0: all cores.

    """
    length = len(learned.problem.controls) // learned.windows
    found = []
    for (known, later), left in zip(_motions(learned), errors, strict=True):
        scale = left[: plant.model.nq]
        impulses = torque_noise.impulse_covariance(
            plant, theta.mean(axis=0), scale, known, length, threads
        )
        found.append(
            forecast(plant, theta[:_SAMPLES], scale, known, later, length, seed, threads, impulses)
        )
    return [one for one in found if one is not None]


def _motions(learned: TrainingData) -> Iterator[tuple[Motion, Motion]]:
    """Yield the known and the held-out part of each recording."""
    problem, nq = learned.problem, learned.problem.model.nq
    states, breaks = problem.references[0], problem.first_steps[1:]
    seen = np.ones(states.shape, bool) if problem.seen is None else problem.seen
    parts = zip(
        problem.start,
        np.split(states, breaks),
        np.split(seen, breaks),
        np.split(problem.controls, breaks),
        learned.later,
        learned.later_seen,
        strict=True,
    )
    for start, own, own_seen, controls, (later, later_controls), later_seen in parts:
        qpos = np.concatenate([start[None], own])[:, :nq]
        observed = np.concatenate([np.ones((1, nq), bool), own_seen[:, :nq]])
        # a configuration goes with the command of the step that begins there
        ctrl = np.concatenate([controls, later_controls])
        ctrl = np.concatenate([ctrl, ctrl[-1:]])
        split = len(qpos)
        torques = np.zeros((len(ctrl), problem.model.nv))
        yield (
            Motion(qpos, observed.astype(float), ctrl[:split], torques[:split]),
            Motion(later[:, :nq], later_seen[:, :nq].astype(float), ctrl[split:], torques[split:]),
        )
