"""
The only module that imports joblib: run work in processes of this machine.

`joblib.load` is forbidden elsewhere because it executes what it reads. `Parallel` only exchanges
pickles with processes that it started itself.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from typing import TypeVar

from joblib import Parallel, delayed

from emppi_ros.core.errors import BenchError
from emppi_ros.parallel.workers import threads_of

Item = TypeVar('Item')
Result = TypeVar('Result')


def compute_all(work: Callable[..., Result], items: Sequence[Item], jobs: int) -> Iterator[Result]:
    """Yield results from processes of this machine."""
    try:
        # one item per batch, to keep each result as soon as it is available
        run = Parallel(jobs, return_as='generator_unordered', batch_size=1)
        threads = threads_of(work)
        yield from run(delayed(work)(item, *threads) for item in items)
    except BrokenExecutor as error:
        raise BenchError(
            f'a worker process ended by itself ({error.__class__.__name__}), as when memory runs '
            'out: run the same command again, with fewer --jobs'
        ) from None
