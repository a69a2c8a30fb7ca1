"""
The only module that imports joblib: run work in processes, here or on the workers of a cluster.

`joblib.load` is forbidden elsewhere because it executes what it reads. `Parallel` only exchanges
pickles with processes that it started itself, or with a cluster that the user named.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
import inspect
from typing import Any, TypeVar

from joblib import Parallel, delayed, parallel_config

from emppi_ros.core.errors import BenchError

Item = TypeVar('Item')
Result = TypeVar('Result')


def compute_all(work: Callable[..., Result], items: Sequence[Item], jobs: int) -> Iterator[Result]:
    """Yield results from processes of this machine."""
    try:
        yield from _parallel(work, items, n_jobs=jobs)
    except BrokenExecutor as error:
        raise BenchError(
            f'a worker process ended by itself ({error.__class__.__name__}), as when memory runs '
            'out: run the same command again, with fewer --jobs'
        ) from None


def compute_on(
    client: Any, work: Callable[..., Result], items: Sequence[Item]
) -> Iterator[Result]:
    """Yield results from the workers of a Dask cluster."""
    with parallel_config(backend='dask', client=client):
        yield from _parallel(work, items)


def _parallel(
    work: Callable[..., Result], items: Sequence[Item], **settings: Any
) -> Iterator[Result]:
    # one item per batch, to keep each result as soon as it is available; one thread per item, as
    # each core already has an item
    run = Parallel(return_as='generator_unordered', batch_size=1, **settings)
    threads = (1,) if len(inspect.signature(work).parameters) > 1 else ()
    yield from run(delayed(work)(item, *threads) for item in items)
