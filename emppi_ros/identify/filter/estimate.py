"""The method `filter` as a whole: from recordings to what is known of a task's parameters."""

from collections.abc import Callable, Mapping, Sequence
import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common import prior_output
from emppi_ros.identify.common.prior_output import knowledge_level
from emppi_ros.identify.common.recordings import Recording
from emppi_ros.identify.filter import posterior, recorded
from emppi_ros.identify.filter.evidence import Evidence, Recipe
from emppi_ros.identify.filter.posterior import Posterior, Settings, State
from emppi_ros.parallel import workers
from emppi_ros.tasks.task import Task

Array = npt.NDArray[np.float64]
_EXCESSIVE = 2.0  # mean square of innovations, as the belief's diagnostics have it
_DRAWS = 10_000


class Found(NamedTuple):
    """The posterior, and whether it explains the recordings."""

    posterior: Posterior
    knowledge: tuple[str, ...]  # of each of P: found, vague, or unexcited
    innovations: Mapping[str, float]  # mean square by quantity, 1 expected
    moments: int


def with_step(task: Task, step_s: float) -> Task:
    """Return a task whose belief predicts with physics steps of at most so long."""
    changed = copy.copy(task)
    changed.belief = replace(task.belief, substep_s=step_s)
    return changed


def estimate(
    task: Task,
    recordings: Sequence[Recording],
    settings: Settings,
    seed: int,
    watch: Callable[[State], None] = lambda _: None,
    state: State | None = None,
    threads: int = 0,
    scheduler: str | None = None,
) -> Found:
    """
    Return the posterior of the recordings of one system; `watch` and `state` are as for `infer`.

    With the address of a Dask cluster in `scheduler`, its workers predict, and the result is the
    same to the bit. IdentificationError if the recordings are not of this task, if nothing shows,
    or if no particle predicts the measurements.
    """
    seen = [recorded.build(task, recording) for recording in recordings]
    evidence = Evidence(task, seen, settings.particles, threads)
    rng = np.random.default_rng(seed)
    with workers.shared(Recipe(task, seen), scheduler) as share:

        def log_likelihood(theta: Array) -> Array:
            return np.concatenate(share('log_likelihood', theta))

        found = posterior.infer(
            task.parameters,
            task.priors,
            log_likelihood if share else evidence.log_likelihood,
            settings,
            rng,
            watch,
            state,
        )
    innovations = evidence.innovations(found.theta)
    for quantity, size in innovations.items():
        if size > _EXCESSIVE:
            raise IdentificationError(
                f'{quantity}: the model does not match: predictions are {np.sqrt(size):.3g} '
                "standard deviations of the task's likelihood from what was measured (rms), "
                'expected about 1: check units, signs and commands of the recording, and what '
                'the model leaves out'
            )
    before = task.prior.sample(_DRAWS, rng).std(axis=0)
    shares = found.theta.std(axis=0) / np.where(before > 0.0, before, 1.0)
    knowledge = tuple(knowledge_level(share) for share in shares)
    prior_output.excited(knowledge)
    return Found(found, knowledge, innovations, sum(len(one.moments) for one in seen))


def summarize(task: Task, found: Found) -> dict[str, Any]:
    """Return each parameter with what is known of it, and how the inference went."""
    theta = found.posterior.theta
    low, high = np.quantile(theta, [0.05, 0.95], axis=0)
    return {
        'parameters': {
            p.name: {
                'value': float(theta[:, i].mean()),
                'sd': float(theta[:, i].std()),
                'lowest': float(low[i]),  # all but one in twenty
                'highest': float(high[i]),
                'unit': p.unit,
                'knowledge': found.knowledge[i],
            }
            for i, p in enumerate(task.parameters)
        },
        'particles': len(theta),
        'moments': found.moments,
        'powers': len(found.posterior.powers) - 1,
        'acceptance': found.posterior.acceptance,
        'innovations': dict(found.innovations),
    }
