"""Bags with tuning and a task switch are replayed bit by bit."""

import json

import numpy as np
import pytest

from emppi_ros.cli import main
from emppi_ros.journal import snapshot
from emppi_ros.journal.journal import BELIEF, PLANNER
from emppi_ros.planning.planner import Planner
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.replay import bag_report, replay, what_if
from emppi_ros.tasks.task import load_task, task_text

NODES = {PLANNER: 'planner', BELIEF: 'belief'}


def replayed(tape, path):
    bag = Bag(tape.write(path))
    return replay.replay(bag, replay.read(bag))


def without_tuning(tape, topic):
    """Return a tape whose journal does not tell of it."""
    rows = []
    for name, now, message in tape.rows:
        if name == topic:
            content = json.loads(message['data'])
            content['events'] = [e for e in content['events'] if e[0] != 'tune']
            rows.append((name, now, {'data': json.dumps(content)}))
        else:
            rows.append((name, now, message))
    return type(tape)(rows)


@pytest.mark.slow
def test_a_replay_across_tuning_and_a_task_switch_is_bit_identical(swapped, tmp_path):
    verdict = replayed(swapped, tmp_path / 'run.mcap')
    assert verdict['identical'] and not verdict['notes']
    for node in NODES.values():
        part = verdict[node]
        assert part['bit_identical'] == part['replayed'] == part['recorded'] > 10
        assert part['tasks'] == 2


@pytest.mark.slow
@pytest.mark.parametrize('topic', NODES)
def test_without_the_tuning_event_the_replay_differs(swapped, topic, tmp_path):
    verdict = replayed(without_tuning(swapped, topic), tmp_path / 'run.mcap')
    part = verdict[NODES[topic]]
    assert not part['identical'] and 0 < part['bit_identical'] < part['replayed']


@pytest.mark.slow
def test_a_recording_that_starts_after_tuning_is_replayed_from_there(make_swapped, tmp_path):
    verdict = replayed(make_swapped(listen_from=0.5), tmp_path / 'run.mcap')
    assert verdict['identical']
    for node in NODES.values():
        part = verdict[node]
        assert part['bit_identical'] == part['replayed'] > 5 and part['tasks'] == 2


@pytest.mark.slow
def test_key_frames_hold_tuned_parameters(make_swapped, tmp_path, monkeypatch):
    monkeypatch.setattr('emppi_ros.journal.journal._KEY_PERIOD_S', 0.1)
    verdict = replayed(make_swapped(), tmp_path / 'run.mcap')
    assert verdict['identical'] and not verdict['notes']
    assert verdict['planner']['memories_compared'] > 3


@pytest.mark.slow
def test_a_report_and_a_what_if_end_at_the_task_switch(make_swapped, tmp_path, capsys):
    other = tmp_path / 'longer.yaml'
    other.write_text(task_text('cartpole_swingup').replace('duration_s: ', 'duration_s: 1'))
    tape = make_swapped(first='cartpole_swingup', then=str(other))
    bag = Bag(tape.write(tmp_path / 'run.mcap'))
    task, observer, notes = bag_report.observe(bag)
    assert (task.name, task.planner.temperature) == ('cartpole_swingup', 0.05)
    assert notes == ['the task was switched after 0.70 s: only cartpole_swingup is shown']
    assert 0.6 < max(observer.rows['times']) < 0.7
    summary, record = what_if.run(bag, replay.read(bag), load_task('cartpole_swingup'), None)
    assert summary['notes'] == notes and np.max(record.times) < 0.7
    assert main(['replay', str(bag.path)]) == 0
    assert 'tasks 2' in ' '.join(capsys.readouterr().out.split())


def test_a_session_restored_after_a_tuning_grasps_as_its_stage():
    task = load_task('panda_drawer')
    grasping = next(i for i, stage in enumerate(task.stages) if stage.grasp)
    one, other = Planner(task, 0), Planner(task, 0)
    one._stage_tracker._index = grasping  # as if it had come there
    one.tune(json.dumps(task.data))
    snapshot.restore(other, json.loads(json.dumps(snapshot.dump(one))))
    other.resume()
    assert other.stage.name == task.stages[grasping].name and other.tuned == one.tuned
    active = other.ensemble._world.eq_active
    assert active[list(task.stages[grasping].grasp)].all()
    assert np.array_equal(active, one.ensemble._world.eq_active)
