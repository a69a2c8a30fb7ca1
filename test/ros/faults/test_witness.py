"""The witness sees a machine that stands still, and a record what it lacks."""

import multiprocessing
import os
import signal
import time

from faultlab.record import Record
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


def test_a_record_knows_how_many_messages_it_lacks(harness):
    from std_msgs.msg import Int32

    from emppi_ros.nodes.common import qos

    whole, short = (Record(harness.tester, Int32, 'count', qos.DEFAULT, d) for d in (1000, 2))
    publisher = harness.publisher(Int32, 'count')
    harness.spin_until(lambda: publisher.get_subscription_count() == 2)

    def has(record, number):
        record.poll()
        return record and record[-1].message.data == number

    publisher.publish(Int32(data=0))
    harness.spin_until(lambda: has(whole, 0) and has(short, 0))
    for number in range(1, 101):
        publisher.publish(Int32(data=number))
    harness.spin_until(lambda: has(whole, 100))
    harness.spin_until(lambda: has(short, 100))
    assert (len(whole), whole.lost) == (101, 0)
    assert len(short) + short.lost == 101 and short.lost
    short.clear()
    assert short.lost == 0


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
