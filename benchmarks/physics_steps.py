"""Count the physics steps that code simulates, for benchmarks."""

from collections.abc import Iterator
import contextlib
from typing import Any
from unittest import mock

from mujoco import rollout

from emppi_ros.model.ensemble import Array, Ensemble, Records, State


class StepCounter:
    """The physics steps counted so far, of all simulations together."""

    count = 0


@contextlib.contextmanager
def counted() -> Iterator[StepCounter]:
    """Count the steps of all ensembles, and of `mujoco.rollout.rollout`, in this context."""
    counter = StepCounter()
    roll, predict, of_models = Ensemble.rollout, Ensemble.predict, rollout.rollout

    def ensemble_rollout(
        ensemble: Ensemble, start: State, controls: Array, *args: Any, **keys: Any
    ) -> Records:
        counter.count += ensemble.models * ensemble.rollouts * controls.shape[2]
        return roll(ensemble, start, controls, *args, **keys)

    def ensemble_predict(
        ensemble: Ensemble, start: State, controls: Array, substep_s: float | Array
    ) -> State:
        counter.count += ensemble.models * controls.shape[-2]
        return predict(ensemble, start, controls, substep_s)

    def models_rollout(*args: Any, **keys: Any) -> Any:
        state, sensordata = of_models(*args, **keys)
        counter.count += state.shape[0] * state.shape[1]
        return state, sensordata

    with (
        mock.patch.object(Ensemble, 'rollout', ensemble_rollout),
        mock.patch.object(Ensemble, 'predict', ensemble_predict),
        mock.patch.object(rollout, 'rollout', models_rollout),
    ):
        yield counter
