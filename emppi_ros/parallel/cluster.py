"""
Run work on an existing Dask cluster.

Dask may wait forever for a cluster that has gone away. So a thread of its own waits for results,
while this module monitors the cluster.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib.util import find_spec
import logging
import math
import queue
import threading
import time
from typing import Any, TypeVar

from distributed import Client, as_completed
import numpy as np

from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import ClusterError
from emppi_ros.parallel.workers import Recipe, Share, threads_of

Item = TypeVar('Item')
Result = TypeVar('Result')
CONNECT_S = 10.0  # to connect to the scheduler
LOOK_S = 0.5  # between checks of the cluster
PATIENCE_S = 10.0  # before an error: nannies restart workers faster
_thread = threading.local()


class _LostClusterError(ClusterError):
    """The cluster stays unavailable."""


def compute_all(
    work: Callable[..., Result], items: Sequence[Item], scheduler: str
) -> Iterator[Result]:
    """Yield results from the workers of a cluster; ClusterError if it goes away."""
    threads = threads_of(work)
    with connected(scheduler) as client:
        futures = [client.submit(work, item, *threads, pure=False) for item in items]
        done = as_completed(futures, client.loop)
        yield from watched(lambda: (future.result() for future in done), lambda: trouble(client))


@contextmanager
def shared(recipe: Recipe, scheduler: str) -> Iterator[Share]:
    """
    Yield a function that computes blocks of independent rows; ClusterError if the cluster goes.

    Each worker thread creates what computes a row once, such as models in a physics batch, and
    reuses it at every call.
    """
    with connected(scheduler) as client:
        kept = client.scatter(recipe, broadcast=True, hash=False)

        def share(method: str, rows: Array) -> list[Any]:
            blocks = np.array_split(rows, min(sum(client.ncores().values()) or 1, len(rows)))
            futures = [client.submit(compute, kept, method, block, pure=False) for block in blocks]
            (parts,) = watched(lambda: iter([client.gather(futures)]), lambda: trouble(client))
            return list(parts)

        yield share


def compute(recipe: Recipe, method: str, rows: Array) -> Any:
    """Return the result of a block, computed by a worker thread."""
    if getattr(_thread, 'recipe', None) is not recipe:
        _thread.recipe, _thread.made = recipe, {}
    if len(rows) not in _thread.made:  # block sizes differ by at most one row
        _thread.made[len(rows)] = recipe(len(rows), 1)
    return getattr(_thread.made[len(rows)], method)(rows)


@contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """Yield a client of a usable cluster; errors of the cluster become a ClusterError."""
    _hush()
    where = f'--scheduler {scheduler}'
    try:
        client = Client(scheduler, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ClusterError(f'{where}: no scheduler answers there ({reason})') from None
    try:
        _check(client, where)
        yield client
    except _LostClusterError as error:
        raise ClusterError(f'the cluster at {scheduler} went away: {error}') from None
    except Exception as error:
        of_cluster = type(error).__module__.startswith('distributed')
        if not of_cluster and not isinstance(error, OSError | CancelledError):
            raise
        problem = trouble(client)
        if problem is None and not of_cluster:
            raise  # an error of the work itself
        message = (str(error) or type(error).__name__).splitlines()[0]
        raise ClusterError(f'the cluster at {scheduler} went away: {problem or message}') from None
    finally:
        client.close(timeout=1.0)


def _hush() -> None:
    """Silence tracebacks logged by Dask: relevant ones become errors of this module."""
    for name in list(logging.root.manager.loggerDict):  # each has a level of its own
        if name.split('.')[0] in ('distributed', 'tornado'):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _check(client: Client, where: str) -> None:
    """Raise ClusterError if no worker has this package."""
    try:
        # an adaptive cluster starts its first worker for this; the task is a built-in, as workers
        # without this package could not unpickle ours
        client.submit(find_spec, 'math', pure=False).result(timeout=CONNECT_S)
        specs = client.run(find_spec, 'emppi_ros.parallel')
    except TimeoutError:
        raise ClusterError(f'{where}: the cluster has no worker that does anything') from None
    except ModuleNotFoundError:
        specs = {'': None}
    if not all(specs.values()):
        raise ClusterError(f'{where}: a worker has no emppi_ros, or an older one')


def watched(
    produce: Callable[[], Iterator[Result]], look: Callable[[], str | None]
) -> Iterator[Result]:
    """
    Yield the results of `produce`; ClusterError if the cluster stays unavailable.

    The iterator that `produce` returns runs in a thread of its own and may hang there. `look`
    returns the current problem of the cluster or None; it is called while no result arrives.
    """
    results: queue.Queue[tuple[bool, Any]] = queue.Queue()  # whether it is a result; or the end

    def work() -> None:
        try:
            for result in produce():
                results.put((True, result))
            results.put((False, None))
        except BaseException as error:  # raised again by the consumer
            results.put((False, error))

    threading.Thread(target=work, name='cluster', daemon=True).start()
    since = math.inf  # when the problem began
    while True:
        try:
            is_result, item = results.get(timeout=LOOK_S)
        except queue.Empty:
            reason, now = look(), time.monotonic()
            since = min(since, now) if reason else math.inf
            if reason and now - since > PATIENCE_S:
                raise _LostClusterError(reason) from None
            continue
        since = math.inf
        if is_result:
            yield item
        elif item is None:
            return
        else:
            raise item


def trouble(client: Client) -> str | None:
    """Return the current problem of the cluster, or None if it works."""
    try:
        if client.status == 'running':
            return None if client.ncores() else 'it has no worker any more'
    except (OSError, TimeoutError):
        pass
    return 'its scheduler no longer answers'
