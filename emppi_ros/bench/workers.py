"""Who computes: this process, all cores of this machine, or a cluster that exists already."""

from collections.abc import Iterator, Sequence
import importlib
import os
from typing import Any

from emppi_ros.bench.cells import Cell
from emppi_ros.bench.compute import compute
from emppi_ros.bench.rows import Row
from emppi_ros.errors import ConfigError


def compute_all(
    cells: Sequence[Cell], jobs: int | None = None, scheduler: str | None = None
) -> Iterator[Row]:
    """
    Yield the row of each cell as soon as it is finished, in any order.

    Parameters
    ----------
    cells : sequence of Cell
        What to compute.
    jobs : int, optional
        Processes on this machine, all cores by default. With one the planner has all cores,
        with more each planner has a single thread.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers compute instead.

    """
    if scheduler is not None:
        cluster = _needs('cluster', 'emppi_ros.bench.cluster')
        yield from cluster.compute_all(cells, scheduler)
        return
    jobs = os.cpu_count() or 1 if jobs is None else jobs
    if jobs == 1:
        for cell in cells:
            yield compute(cell)
        return
    pool = _needs('bench', 'emppi_ros.bench.pool')
    yield from pool.compute_all(cells, jobs)


def check(jobs: int | None, scheduler: str | None) -> None:
    """Raise before anything runs, if what is needed is not installed."""
    if scheduler is not None:
        _needs('cluster', 'emppi_ros.bench.cluster')
    elif jobs != 1:
        _needs('bench', 'emppi_ros.bench.pool')


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
