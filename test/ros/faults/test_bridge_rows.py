"""Rows B1, B4 and B5: the bridge itself dies, comes back, or is asked to end."""

import signal
import time

from faultlab import oracle, trials
import numpy as np
import pytest

pytestmark = pytest.mark.alone

# the trajectory's hold of 60 ms, and the Panda's 138 ms from 0.5 rad/s, on a grid of 4 ms
TAIL_S = 0.21
KILLS = 2


def _peaks_are_legal(graph, motion):
    allowed = 1.0 + trials.tolerance(graph.backend)
    assert max(oracle.peaks(motion)) <= allowed, oracle.peaks(motion)


@pytest.fixture(autouse=True)
def _whole(graph):
    """Leave the graph as it was."""
    yield
    _restore(graph)


def _restore(graph):
    graph.tell('silent')
    if graph.children.code('bridge') is not None:
        graph.bring_back_bridge()


def _rng(request):
    return np.random.default_rng(len(request.node.name))


@pytest.mark.slow
def test_b1_a_killed_bridge_leaves_a_tail_that_ends_at_rest(graph, request, record_property):
    if graph.backend == 'forward':
        pytest.skip('forward has no tail: that is why it refuses hardware')
    rests = []
    for _ in range(KILLS):
        begin, _ = trials.get_moving(graph, _rng(request))
        graph.bridge.kill()
        graph.children.expect_end('bridge')
        broken = time.time()
        graph.listen(0.1)
        motion = graph.motion(begin, broken + 1.0)
        broken -= graph.epoch
        rest = oracle.first_rest(motion, broken)
        rests.append(rest - (graph.commands[-1].time - graph.epoch))
        assert not oracle.moves(motion, rest)
        _peaks_are_legal(graph, motion)
        assert oracle.reversal(motion, broken, rest) <= trials.REVERSED
        _restore(graph)
    record_property('count', len(rests))
    record_property('rest_ms', 1e3 * max(rests))
    assert max(rests) <= TAIL_S


@pytest.mark.slow
def test_b4_started_again_it_is_inactive_and_moves_nothing(graph, request):
    trials.get_moving(graph, _rng(request))
    fast = graph.speed
    graph.bridge.kill()
    graph.children.expect_end('bridge')
    graph.listen(0.05)
    graph.bring_back_bridge()  # with plans coming all the time
    graph.wait_for(lambda: graph.status.get('state') == 'inactive', 'it is not inactive')
    first = np.abs(graph.applied[0].message.velocity).max()
    if graph.backend == 'trajectory':  # the tail has ended long ago
        assert first == 0.0
    else:  # the arm goes on as it was told last, and is braked from there, without a step
        assert first <= fast + 1e-3
    graph.wait_for(lambda: not graph.speed, 'it does not come to rest')
    graph.listen(0.2)
    assert graph.speed == 0.0
    assert not [r for r in graph.reports if r.message.get('state') in ('armed', 'moving')]


@pytest.mark.slow
@pytest.mark.parametrize('signals', [['INT'], ['TERM'], ['INT', 'INT'], ['TERM', 'INT', 'INT']])
def test_b5_a_signal_brakes_and_then_the_process_ends_in_order(graph, signals, request):
    begin, _ = trials.get_moving(graph, _rng(request))
    told = time.time()
    for name in signals:
        graph.children.end('bridge', getattr(signal, f'SIG{name}'))
        graph.listen(0.03)
    graph.wait_for(lambda: graph.children.code('bridge') is not None, 'it does not end', 6.0)
    assert time.time() - told < 3.0
    assert graph.children.code('bridge') == 0
    graph.listen(0.1)
    motion = graph.motion(begin, time.time() + 0.5)
    told -= graph.epoch
    rest = oracle.first_rest(motion, told)
    if graph.backend == 'trajectory':
        assert rest < np.inf and not oracle.moves(motion, rest)
    else:
        assert not np.any(motion.velocities[-1])
    assert oracle.reversal(motion, told, rest) <= trials.REVERSED
    _peaks_are_legal(graph, motion)
