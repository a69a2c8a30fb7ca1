"""Count the physics steps that code simulates, for benchmarks."""

from collections.abc import Iterator
import contextlib
from typing import Any
from unittest import mock

from mujoco import rollout
from mujoco.batch import Batch


class StepCounter:
    """The physics steps counted so far, of all simulations together."""

    count = 0


@contextlib.contextmanager
def counted() -> Iterator[StepCounter]:
    """Count the steps of all batches, and of `mujoco.rollout.rollout`, in this context."""
    counter, of_batch, of_models = StepCounter(), Batch.rollout, rollout.rollout

    def batch_rollout(batch: Batch, nstep: int, *args: Any, **keys: Any) -> Any:
        ids = keys['ids'] if 'ids' in keys else args[3] if len(args) > 3 else None
        counter.count += nstep * (batch.nsim if ids is None else len(ids))
        return of_batch(batch, nstep, *args, **keys)

    def models_rollout(*args: Any, **keys: Any) -> Any:
        state, sensordata = of_models(*args, **keys)
        counter.count += state.shape[0] * state.shape[1]
        return state, sensordata

    with (
        mock.patch.object(Batch, 'rollout', batch_rollout),
        mock.patch.object(rollout, 'rollout', models_rollout),
    ):
        yield counter
