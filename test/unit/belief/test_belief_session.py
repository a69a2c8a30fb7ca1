"""Which measurements the belief learns from, also if updates take longer than they may."""

import numpy as np
import pytest

from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.calibration import runs
from emppi_ros.tasks.task import load_task


@pytest.fixture(scope='module')
def task():
    return load_task('panda_push')


@pytest.fixture(scope='module')
def calls(task):
    """Measurements of one second."""
    _, calls = runs.record(task, 0, {}, 1.0)
    return calls


def play(session, calls, every):
    """Give a session the measurements, with updates only after `every` poses; return beliefs."""
    beliefs, poses = [], 0
    for event, arguments in calls:
        if event in ('joints', 'command', 'pose'):
            getattr(session, f'add_{event}')(*arguments)
        if event == 'pose':
            poses += 1
            while poses % every == 0 and session.ready:
                beliefs += session.update()
    while session.ready:
        beliefs += session.update()
    return beliefs


def stamps(calls):
    """Return the times of the poses."""
    return [arguments[1] for event, arguments in calls if event == 'pose']


@pytest.mark.slow
@pytest.mark.parametrize('every', [1, 5])
def test_it_learns_from_all_poses_if_it_is_not_late(task, calls, every):
    session = BeliefSession(task, 0)
    beliefs = play(session, calls, every)
    assert len(beliefs) > 10
    assert [belief.stamp for belief in beliefs] == stamps(calls)[1 : len(beliefs) + 1]
    assert session.counts['late'] == 0


def test_counts_are_numbers_from_the_first_update_on(task, calls):
    """A flag among them is published as `False`, which no reader of diagnostics takes."""
    session = BeliefSession(task, 0)
    for event, arguments in calls:
        if not session.counts and event in ('joints', 'command', 'pose'):
            getattr(session, f'add_{event}')(*arguments)
            session.update()
    assert session.counts['updates'] == 1
    assert {type(count) for count in session.counts.values()} == {int}


def test_a_belief_that_is_late_goes_on_in_longer_intervals(task, calls):
    session = BeliefSession(task, 0)
    beliefs = play(session, calls, 8)
    gaps = np.diff([belief.stamp for belief in beliefs])
    assert len(beliefs) > 5 and session.counts['late'] > 10
    assert gaps.max() <= 0.1


def test_late_poses_are_skipped_and_the_newest_interval_is_learned_from(task, calls):
    session, times = BeliefSession(task, 0), stamps(calls)
    beliefs = play(session, calls, len(times))
    assert len(times) > 20
    complete = [time for time in times if time <= session.estimator.joints_stamp]
    assert [belief.stamp for belief in beliefs] == complete[-1:]
    assert session.counts['late'] == len(complete) - 2
    assert session.counts['updates'] == 1
