"""
Rows that do not hang on one another, in blocks on the workers of a cluster.

What is done step after step cannot be handed out whole, as cells are. So what computes a row, such
as models in their physics batch, is made once by each thread of a worker, and used at each step.
"""

from collections.abc import Iterator
from contextlib import contextmanager
import threading
from typing import Any, Protocol

import numpy as np

from emppi_ros.parallel import cluster
from emppi_ros.parallel.workers import Array, Share

_thread = threading.local()


class Recipe(Protocol):
    """What travels to workers."""

    def make(self, rows: int, threads: int) -> Any:
        """Return what has methods that compute so many rows."""


@contextmanager
def shared(scheduler: str, recipe: Recipe) -> Iterator[Share]:
    """Yield what has rows computed by a cluster; ClusterError if it goes away."""
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
    """Return what a block comes to, by one thread of a worker."""
    if getattr(_thread, 'recipe', None) is not recipe:
        _thread.recipe, _thread.made = recipe, {}
    if len(rows) not in _thread.made:  # blocks differ by one row at most
        _thread.made[len(rows)] = recipe.make(len(rows), 1)
    return getattr(_thread.made[len(rows)], method)(rows)
