"""
Swaps in a row, in motion: `make swaps SWAPS=100` prints how long they took.

EMPPI_SWAPS is their number, and ten times as many requests are wrong. `test_swap.py` has a few.
"""

from itertools import count, islice
from pathlib import Path
import sys

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

import swaps
from swaps import SWAPS, SwapGraph

from emppi_ros.core.errors import EmppiError
from emppi_ros.tasks import switch_protocol

pytestmark = pytest.mark.alone

FIGURES = ('to_first_plan_s', 'check_s', 'rest_s', 'follow_s', 'plan_s')


def wrong_requests():
    """Yield texts that are no task for a Panda."""
    sys.path.insert(0, str(Path(__file__).parents[1] / 'fuzz'))
    import yaml_cases

    for index in count():
        text = yaml_cases.case(index)[1].decode(errors='replace')
        if len(text) > 1 << 16 or '\0' in text:  # the longest and NUL do not travel well
            continue
        try:
            switch_protocol.checked(
                switch_protocol.requested(switch_protocol.tagged(text)), 'request', swaps.ROBOT
            )
        except EmppiError:
            yield text


@pytest.mark.skipif(not SWAPS, reason='make swaps')
@pytest.mark.timeout(0)
def test_no_arm_moves_in_any_of_many_swaps(harness):
    arm = SwapGraph(harness)
    arm.arm()
    rows = []
    for i in range(SWAPS):
        name = ('panda_reconfigure', 'panda_push')[i % 2]
        swap = arm.swap(name)
        assert swap.answer.said == switch_protocol.DONE, swap
        assert f'name: {name}' in arm.running()
        assert swap.answer.figures['bridge'] in (
            '',
            'settling at the measured position',
            'waiting for a plan',
        )
        fault = harness.says('bridge')[2]['fault']
        assert fault == '', f'swap {i}: {harness.statuses["bridge"]}'
        figures = [swap.answer.figures[name] for name in FIGURES]
        rows.append([*figures, *swap[1:]])
        print(f'{i + 1} {name} ' + ' '.join(f'{x:.3f}' for x in rows[-1]), flush=True)
    table = np.array(rows)
    others = (
        'speed before [rad/s]',
        'commanded at the swap',
        'measured at it',
        'at rest before it [s]',
        'step over allowed',
    )
    names = (*FIGURES, *others)
    for name, column in zip(names, table.T, strict=True):
        print(f'{name:>24}: median {np.median(column):.3f}, max {np.max(column):.3f}')
    speed, commanded, _, rested, steps = table[:, len(FIGURES) :].T
    assert np.all(speed > swaps.SPEED) and np.all(commanded == 0.0)
    assert np.all(rested <= swaps.SINCE_REST_S)
    assert np.all(steps <= 1.0 + 1e-6)  # rounding


@pytest.mark.skipif(not SWAPS, reason='make swaps')
@pytest.mark.timeout(0)
def test_wrong_requests_in_motion_change_nothing(harness):
    arm = SwapGraph(harness)
    arm.arm()
    arm.get_moving()
    before = arm.running()
    for i, text in enumerate(islice(wrong_requests(), 10 * SWAPS)):
        answer = arm.ask(text)
        assert answer.said == switch_protocol.REFUSED and answer.reason, (i, text[:200])
        arm.answers.clear()
        if i % 100 == 0:
            print(f'{i}: {answer.reason[:120]}', flush=True)
            arm.plans.clear()
            harness.spin_until(lambda: arm.plans, 60.0)
            values = harness.says('bridge')[2]
            assert (values['fault'], values['swapping']) == ('', 'False')
    assert arm.running() == before and len(arm.texts) == 1
