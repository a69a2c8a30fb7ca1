"""Who computes: this process, all cores of this machine, or a cluster that exists already."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
import importlib
import os
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ConfigError

Item = TypeVar('Item')
Result = TypeVar('Result')
Array = npt.NDArray[np.float64]
Share = Callable[[str, Array], list[Any]]  # a method's name, and rows -> what blocks come to


def spread(
    work: Callable[..., Result],
    items: Sequence[Item],
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Iterator[Result]:
    """
    Yield what each item comes to as soon as it is finished, in any order.

    Parameters
    ----------
    work : callable
        A module's function of an item, and of the threads that its planner may have if not
        the task's own.
    items : sequence
        What to compute.
    jobs : int, optional
        Processes on this machine, all cores by default. With one the planner has all cores,
        with more each planner has a single thread.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers compute instead.

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
    """Return the context of `blocks.shared`, or of None without a cluster: compute here."""
    if scheduler is None:
        return nullcontext()
    blocks = _needs('cluster', 'emppi_ros.parallel.blocks')
    context: AbstractContextManager[Share] = blocks.shared(scheduler, recipe)
    return context


def check(jobs: int | None, scheduler: str | None) -> None:
    """Raise before anything runs, if what is needed is not installed."""
    if scheduler is not None:
        _needs('cluster', 'emppi_ros.parallel.cluster')
    elif jobs != 1:
        _needs('bench', 'emppi_ros.parallel.pool')


def _needs(extra: str, module: str) -> Any:
    """Return a module that needs an extra: nobody else waits for its packages to load."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith('emppi_ros'):
            raise
        without = ', or --jobs 1' if extra == 'bench' else ''
        raise ConfigError(
            f"Python package {error.name!r} is not installed: pip install 'emppi_ros[{extra}]'"
            + without
        ) from None
