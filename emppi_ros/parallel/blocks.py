"""
Evaluate blocks of independent rows on the workers of a Dask cluster, step by step.

Iterative computations cannot be handed out as a whole. So each worker thread creates what
computes a row once, such as models in a physics batch, and reuses it in every step.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import threading
from typing import Any

import numpy as np

from emppi_ros.parallel import cluster
from emppi_ros.parallel.workers import Array, Share

_thread = threading.local()
Recipe = Callable[[int, int], Any]  # rows, threads -> an object whose methods compute the rows


@contextmanager
def shared(scheduler: str, recipe: Recipe) -> Iterator[Share]:
    """Yield a function that computes rows on the cluster; ClusterError if it goes away."""
    with cluster.connected(scheduler) as client, cluster.blamed(client, scheduler):
        kept = client.scatter(recipe, broadcast=True, hash=False)

        def share(method: str, rows: Array) -> list[Any]:
            blocks = np.array_split(rows, min(sum(client.ncores().values()) or 1, len(rows)))
            found = [client.submit(compute, kept, method, block, pure=False) for block in blocks]
            (parts,) = cluster.watched(
                lambda: iter([client.gather(found)]), lambda: cluster.trouble(client)
            )
            return list(parts)

        yield share


def compute(recipe: Recipe, method: str, rows: Array) -> Any:
    """Return the result of a block, computed by a worker thread."""
    if getattr(_thread, 'recipe', None) is not recipe:
        _thread.recipe, _thread.made = recipe, {}
    if len(rows) not in _thread.made:  # block sizes differ by at most one row
        _thread.made[len(rows)] = recipe(len(rows), 1)
    return getattr(_thread.made[len(rows)], method)(rows)
