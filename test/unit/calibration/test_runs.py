"""Recorded calls repeat a belief, and other settings get the same measurements."""

from collections.abc import Callable

import numpy as np
import pytest

from emppi_ros.calibration import runs
from emppi_ros.tasks.task import Task

SEED, DURATION_S = 3, 1.2


@pytest.mark.slow
@pytest.mark.parametrize('name', ['slider', 'block'])  # without and with tracked poses
def test_a_rerun_repeats_the_belief_of_the_closed_loop_bit_for_bit(
    make_task: Callable[..., Task], name: str
) -> None:
    task = make_task(name)
    truth = dict(zip([p.name for p in task.parameters], task.prior.mean(), strict=True))
    loop, calls = runs.record(task, SEED, truth, DURATION_S)
    again = runs.rerun(task, SEED, calls)
    assert len(again.beliefs) == len(loop.trace.beliefs) > 10
    for (stamp, one), (expected, other) in zip(again.beliefs, loop.trace.beliefs, strict=True):
        assert stamp == expected
        np.testing.assert_array_equal(one.theta, other.theta)
        np.testing.assert_array_equal(one.log_weights, other.log_weights)


def test_every_alternative_is_valid_and_is_updated_as_often(
    make_task: Callable[..., Task],
) -> None:
    task = make_task('slider')
    _, calls = runs.record(task, SEED, {}, 0.5)
    own = runs.rerun(task, SEED, calls)
    alternatives = runs.alternatives(task.belief)
    assert len({one.name for one in alternatives}) == len(alternatives) > 5
    for setting in alternatives:
        other = runs.with_setting(task, setting)
        assert (other.belief == task.belief) == (setting.name == runs.OWN)
        assert other.belief.changes == task.belief.changes
        again = runs.rerun(other, SEED, calls)
        assert [stamp for stamp, _ in again.beliefs] == [stamp for stamp, _ in own.beliefs]
        assert len(again.beliefs[-1][1].theta) == other.belief.particles
