"""The witness sees a machine that stands still, and only that."""

import multiprocessing
import os
import signal
import time

from faultlab.witness import Witness, covered
import numpy as np
import pytest


def test_intervals_that_overlap_count_once():
    rows = np.array([[3.0, 4.0], [0.0, 2.0], [1.0, 2.5], [7.0, 9.0]])
    assert covered(rows, 0.5, 8.0) == pytest.approx(2.0 + 1.0 + 1.0)
    assert covered(rows[:0], 0.0, 1.0) == 0.0


def test_a_processor_that_wakes_nobody_is_seen():
    witness = Witness(multiprocessing.get_context('forkserver'))
    sleeper, deadline = witness._processes[0].pid, time.monotonic() + 60.0
    try:
        # again until it is seen: on a busy machine the process may not have begun to sleep yet
        while not _stopped_and_seen(witness, sleeper):
            assert time.monotonic() < deadline
    finally:
        witness.close()


def _stopped_and_seen(witness, sleeper):
    """Stop a process for 50 ms; return whether the witness saw it within half a second."""
    begin = time.time()
    os.kill(sleeper, signal.SIGSTOP)
    time.sleep(0.05)
    os.kill(sleeper, signal.SIGCONT)
    stopped = time.time()
    for _ in range(10):
        time.sleep(0.05)
        if covered(witness.stalls(), begin, stopped) >= 0.045:
            return True
    return False
