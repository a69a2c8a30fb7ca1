"""Run work in this process, in processes of this machine, or on an existing Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
import os
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import import_optional

Item = TypeVar('Item')
Result = TypeVar('Result')
Array = npt.NDArray[np.float64]
Share = Callable[[str, Array], list[Any]]  # method name, rows -> one result per block


def spread(
    work: Callable[..., Result],
    items: Sequence[Item],
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Iterator[Result]:
    """
    Yield the result of each item as soon as it is available, in any order.

    `work` is a module-level function of an item, and optionally of the number of planner threads.
    `jobs` processes run here, by default one per core; with more than one, each planner has one
    thread. With the address of a Dask scheduler in `scheduler`, its workers compute instead.
    """
    if scheduler is not None:
        cluster = _needs('cluster', 'emppi_ros.parallel.cluster')
        yield from cluster.compute_all(work, items, scheduler)
        return
    jobs = os.cpu_count() or 1 if jobs is None else jobs
    if jobs == 1:
        for item in items:
            yield work(item)
        return
    pool = _needs('bench', 'emppi_ros.parallel.pool')
    yield from pool.compute_all(work, items, jobs)


def shared(recipe: Any, scheduler: str | None) -> AbstractContextManager[Share | None]:
    """Return the context of `blocks.shared`; it yields None without a cluster (compute here)."""
    if scheduler is None:
        return nullcontext()
    blocks = _needs('cluster', 'emppi_ros.parallel.blocks')
    context: AbstractContextManager[Share] = blocks.shared(scheduler, recipe)
    return context


def check(jobs: int | None, scheduler: str | None) -> None:
    """Raise ConfigError before any work if a required package is not installed."""
    if scheduler is not None:
        _needs('cluster', 'emppi_ros.parallel.cluster')
    elif jobs != 1:
        _needs('bench', 'emppi_ros.parallel.pool')


def _needs(extra: str, module: str) -> Any:
    """Import a module that needs an extra; others do not wait for its packages to load."""
    without = ', or --jobs 1' if extra == 'bench' else ''
    return import_optional(
        module,
        lambda error: (
            f'Python package {error.name!r} is not installed: '
            f"pip install 'emppi_ros[{extra}]'{without}"
        ),
    )
