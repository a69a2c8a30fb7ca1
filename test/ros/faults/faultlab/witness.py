"""How late the machine itself wakes whoever comes first: an alarm on each processor."""

import contextlib
import gc
import os
import time

import numpy as np

_ALARM_S = 1e-3
_LATE_S = 1e-3  # what every system may take, and no record of
_KEPT = 4096  # newest stalls, of each processor
_PRIORITY = 20  # above the bridge's 10: whoever makes this one wait made the bridge wait


class Witness:
    """Processes that only sleep and wake, one on each processor, before everyone else."""

    def __init__(self, server):
        """Start them on a multiprocessing context."""
        self._records, self._processes = [], []
        for processor in sorted(os.sched_getaffinity(0)):
            record = server.RawArray('d', 2 * _KEPT)  # due and woken; one writer, whole rows
            process = server.Process(target=watch, args=(processor, record), daemon=True)
            process.start()
            self._records.append(record)
            self._processes.append(process)

    def stalls(self):
        """Return from when to when one processor or another woke nobody (n, 2) [s]."""
        rows = np.vstack([np.array(record).reshape(-1, 2) for record in self._records])
        return rows[rows[:, 1] > 0.0]

    def close(self):
        """End them."""
        for process in self._processes:
            process.kill()
            process.join()


def covered(intervals: np.ndarray, begin: float, end: float) -> float:
    """Return how much of a time lies in any of some intervals (n, 2)."""
    total, reached = 0.0, begin
    for low, high in np.clip(intervals[np.argsort(intervals[:, 0])], begin, end):
        total += max(0.0, high - max(low, reached))
        reached = max(reached, high)
    return total


def watch(processor, record):
    """Sleep and wake on one processor for ever; record (due, woken) [s, system clock] if late."""
    os.sched_setaffinity(0, {processor})
    with contextlib.suppress(OSError):  # not permitted: then neither to the bridge
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_PRIORITY))
    gc.disable()
    row = 0
    while True:
        due = time.time() + _ALARM_S
        time.sleep(_ALARM_S)
        woken = time.time()
        if woken - due > _LATE_S:
            record[2 * row] = due
            record[2 * row + 1] = woken
            row = (row + 1) % _KEPT
