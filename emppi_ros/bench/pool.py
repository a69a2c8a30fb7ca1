"""
The one place that imports joblib: cells over processes, here or on the workers of a cluster.

What is forbidden elsewhere is `joblib.load`, which runs what it reads; `Parallel` exchanges
pickles only with processes that it started itself, or with a cluster that its user named.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any

from joblib import Parallel, delayed, parallel_config

from emppi_ros.bench.cells import Cell
from emppi_ros.bench.compute import compute
from emppi_ros.bench.rows import Row
from emppi_ros.errors import BenchError


def compute_all(cells: Sequence[Cell], jobs: int) -> Iterator[Row]:
    """Yield rows from processes of this machine."""
    try:
        yield from _parallel(cells, n_jobs=jobs)
    except BrokenExecutor as error:
        raise BenchError(
            f'a worker process ended by itself ({error.__class__.__name__}), as when memory runs '
            'out: run the same command again, with fewer --jobs'
        ) from None


def compute_on(client: Any, cells: Sequence[Cell]) -> Iterator[Row]:
    """Yield rows from the workers of a Dask cluster."""
    with parallel_config(backend='dask', client=client):
        yield from _parallel(cells)


def _parallel(cells: Sequence[Cell], **settings: Any) -> Iterator[Row]:
    # one cell a batch: each row is to be kept as soon as it is there; one thread a cell: with
    # a cell on each core there is none left over
    run = Parallel(return_as='generator_unordered', batch_size=1, **settings)
    yield from run(delayed(compute)(cell, 1) for cell in cells)
