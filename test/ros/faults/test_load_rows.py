"""Rows C3 and N3: no processor time, and more messages than anyone can read."""

import multiprocessing
import os
from pathlib import Path

from faultlab import load, trials
import numpy as np
import pytest

pytestmark = pytest.mark.alone

STARVED = 6  # faults while others want the processor
_FLOOD_S, _MANY = 2.0, 1000  # plans that were dropped before
# what is in flight is there several times, and an allocator keeps the room for it: 50 to 70 MB in
# the first second. After that, half of what arrives would be one copy of every other string kept
_GROWTH_KB = 0.5 * _FLOOD_S / load.LONG_S * load.LONG / 1000


@pytest.fixture
def busy():
    """Let twice as many processes as there are processors do nothing, all the time."""
    context = multiprocessing.get_context('spawn')
    burners = [context.Process(target=load.burn, daemon=True) for _ in range(2 * os.cpu_count())]
    for burner in burners:
        burner.start()
    yield
    assert all(burner.is_alive() for burner in burners)
    for burner in burners:
        burner.kill()
        burner.join()


@pytest.mark.slow
def test_c3_without_processor_time_nothing_illegal_leaves(graph, busy, record_property):
    rng, done = np.random.default_rng(11), []
    for fault in trials.FAULTS[:STARVED]:
        result = trials.run(graph, fault, rng)
        if not result.unprovoked:
            done.append(result)
    record_property('count', len(done))
    assert done
    # how soon it brakes is not asked for here: nobody can be in time without a processor
    timing = ('braking began', 'at rest after', 'stopped, but', 'says')
    bad = [v for r in done for v in r.violations if not v.startswith(timing)]
    assert not bad


def _resident_kb(pid):
    lines = Path(f'/proc/{pid}/status').read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith('VmRSS')))


@pytest.mark.slow
def test_n3_a_flood_is_dropped_and_the_bridge_keeps_its_rate(graph, record_property):
    context = multiprocessing.get_context('spawn')
    over = context.Event()
    flood = context.Process(target=load.flood, args=(graph.domain, over), daemon=True)
    flood.start()
    dropped = lambda: int(graph.status.get('rejected_plans', 0))  # noqa: E731
    graph.wait_for(lambda: dropped() > _MANY, 'the flood does not arrive')
    graph.listen(1.0)
    before = _resident_kb(graph.bridge.pid)
    graph.forget_now()
    graph.listen(_FLOOD_S)
    periods = np.diff([one.time for one in graph.applied])
    over.set()
    flood.join(20.0)
    assert flood.exitcode == 0
    record_property('count', len(periods))
    assert np.median(periods) <= 2.0 * 0.004
    assert _resident_kb(graph.bridge.pid) - before < _GROWTH_KB
    assert graph.children.code('bridge') is None
    graph.listen(0.3)
    result = trials.run_surely(graph, trials.FAULTS[0], np.random.default_rng(4))  # as ever
    assert not result.unprovoked and result.said == 'held plan-late'
