"""Run work in this process, in processes of this machine, or on an existing Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
import inspect
from typing import Any, TypeVar

from emppi_ros.core import cores
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import import_optional

Item = TypeVar('Item')
Result = TypeVar('Result')
Share = Callable[[str, Array], list[Any]]  # method name, rows -> one result per block
Recipe = Callable[[int, int], Any]  # rows, threads -> an object whose methods compute the rows


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
        yield from _needs('cluster').compute_all(work, items, scheduler)
        return
    jobs = cores.count() if jobs is None else jobs
    if jobs == 1:
        for item in items:
            yield work(item)
        return
    yield from _needs('bench').compute_all(work, items, jobs)


def threads_of(work: Callable[..., Any]) -> tuple[int, ...]:
    """Return the arguments of parallel work after its item: one thread, as each core has one."""
    return (1,) if len(inspect.signature(work).parameters) > 1 else ()


def shared(recipe: Recipe, scheduler: str | None) -> AbstractContextManager[Share | None]:
    """Return the context of `cluster.shared`; it yields None without a cluster (compute here)."""
    if scheduler is None:
        return nullcontext()
    context: AbstractContextManager[Share] = _needs('cluster').shared(recipe, scheduler)
    return context


def check(jobs: int | None, scheduler: str | None) -> None:
    """Raise ConfigError before any work if a required package is not installed."""
    if scheduler is not None:
        _needs('cluster')
    elif jobs != 1:
        _needs('bench')


def _needs(extra: str) -> Any:
    """Import the module that needs an extra; others do not wait for its packages to load."""
    module = {'bench': 'pool', 'cluster': 'cluster'}[extra]
    without = ', or --jobs 1' if extra == 'bench' else ''
    return import_optional(
        f'emppi_ros.parallel.{module}',
        lambda error: (
            f'Python package {error.name!r} is not installed: '
            f"pip install 'emppi_ros[{extra}]'{without}"
        ),
    )
