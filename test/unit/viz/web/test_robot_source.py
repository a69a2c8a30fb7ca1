"""The simulated source runs by itself; requests are carried out, or refused with a reason."""

import time

import numpy as np
import pytest

from emppi_ros.core.errors import ArmError, ConfigError
from emppi_ros.viz.web import robot_source
from emppi_ros.viz.web.robot_source import SimulatedSource


@pytest.fixture
def source(make_task):
    found = SimulatedSource(make_task('slider'), seed=1)
    yield found
    found.close()


def wait(condition, patience_s=30.0):
    """Wait until something holds: a loaded machine takes its time."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_unwatched_simulation_runs_without_new_snapshots(source):
    first = source.snapshot()
    wait(lambda: source._loop.robot.time > 0.1)
    assert source.snapshot() is first


@pytest.mark.slow
def test_a_page_that_is_open_for_days_keeps_a_bounded_part_of_the_run(source, monkeypatch):
    monkeypatch.setattr(robot_source, '_MAX_ENTRIES', 10)
    began = source._loop.robot.time
    wait(lambda: source._loop.robot.time > began + 1.0)
    # a chunk may be under way: as much again as was kept
    lists = {n: v for n, v in vars(source._loop.trace).items() if isinstance(v, list)}
    chunk = round(robot_source.CHUNK_S / source._loop.task.simulation.timestep_s)
    assert lists and all(len(kept) <= 20 + chunk for kept in lists.values()), lists.keys()


def test_a_watched_simulation_has_current_snapshots(source):
    source.set_watched(True)
    wait(lambda: source.snapshot().clock > 0.2 and source.snapshot().display is not None)
    found = source.snapshot()
    assert found.state == 'inactive' and not found.armed
    np.testing.assert_array_equal(found.theta, source._loop.robot.truth)


def test_requests_are_carried_out_when_the_call_returns(source):
    source.arm(True)
    assert source.snapshot().armed
    source.pause(True)
    assert source.snapshot().paused
    source.tune({'cost.reach.weight': 2.5})
    assert source._loop.planner.stage.cost.terms[0].weight == 2.5
    before = source.snapshot()
    source.reset()
    after = source.snapshot()
    assert after.run == before.run + 1
    assert not after.armed and after.clock < 0.2
    assert after.task.data['cost']['reach']['weight'] == 2.5  # numbers stay as they are tuned


def test_refused_requests_name_the_reason_and_change_nothing(source):
    for values, words in (
        ({'cost.reach.weight': -1.0}, 'from 0 to'),
        ({'cost.reach.weight': 0.0}, 'has no effect'),
        ({'planner.temperature': float('nan')}, 'planner.temperature'),
        ({'cost.grasp.weight': 1.0}, 'unknown tunable parameter'),
    ):
        with pytest.raises(ConfigError, match=words):
            source.tune(values)
    with pytest.raises(ConfigError, match='panda_push'):
        source.switch_task('panda_pusch')
    assert source.snapshot().run == 0
    assert source._loop.planner.stage.cost.terms[0].weight == 1.0


def test_an_error_of_the_simulation_is_reported_until_a_reset(source, monkeypatch):
    def fail() -> bool:
        raise ArmError('the physics broke')

    source.set_watched(True)
    monkeypatch.setattr(source._loop, 'step', fail)
    wait(lambda: any('the physics broke' in note for note in source.snapshot().notes))
    assert 'reset it' in source.snapshot().notes[0]
    source.reset()
    assert source.snapshot().notes == () or 'broke' not in source.snapshot().notes[0]
    wait(lambda: source._loop.robot.time > 0.05)


def test_a_misfit_is_a_note(source):
    source.set_watched(True)
    source._loop.filter.monitor.misfit = ['joint_velocity']
    note = 'misfit: the model does not explain the errors in joint velocity'
    wait(lambda: note in source.snapshot().notes)
