"""A replay is bit-identical, or reports the first difference."""

import copy
import json
import subprocess
import sys

import pytest

from emppi_ros.cli import main
from emppi_ros.core.errors import ReplayError
from emppi_ros.journal import snapshot
from emppi_ros.journal.journal import BELIEF, KEY, PLANNER
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.recordings.sqlite_bag import open_bag
from emppi_ros.replay import replay


def replayed(tape, path):
    bag = Bag(tape.write(path))
    return replay.replay(bag, replay.read(bag))


def edited(tape, topic, edit):
    """Return a copy of a tape whose journal messages went through `edit(message, number)`."""
    other, number = copy.copy(tape), 0
    other.rows = []
    for name, now, message in tape.rows:
        if name == topic:
            content = json.loads(message['data'])
            number += 1
            if edit(content, number) is False:
                continue
            other.rows.append((name, now, {'data': json.dumps(content)}))
        else:
            other.rows.append((name, now, message))
    return other


@pytest.mark.slow
@pytest.mark.parametrize('task, seconds', [('cartpole_swingup', 0.8), ('panda_push', 0.5)])
def test_a_replay_is_bit_identical(make_tape, task, seconds, tmp_path):
    verdict = replayed(make_tape(task, seconds), tmp_path / 'run.mcap')
    assert verdict['identical'] and not verdict['notes']
    for node in ('planner', 'belief'):
        part = verdict[node]
        assert part['bit_identical'] == part['replayed'] == part['recorded'] > 4
        assert part['seed'] == 3


def test_bags_in_sqlite_are_replayed_alike(make_tape, tmp_path):
    pytest.importorskip('rosbags', reason='extra `identify` not installed')
    file = make_tape('cartpole_swingup', 0.3).write(tmp_path / 'run.mcap')
    folder = tmp_path / 'sqlite'
    options = ['--src', file, '--dst', folder, '--dst-storage', 'sqlite3']
    subprocess.run([sys.executable, '-m', 'rosbags.convert', *map(str, options)], check=True)
    assert list(folder.glob('*.db3'))
    one, other = replay.read(open_bag(file)), replay.read(open_bag(folder))
    assert one.journals == other.journals and any(one.journals.values())
    verdict = replay.replay(open_bag(folder), other)
    assert verdict['identical'] and verdict['planner']['replayed'] > 2


@pytest.mark.slow
def test_a_recording_that_starts_late_is_replayed_from_there(make_tape, tmp_path):
    verdict = replayed(make_tape('panda_push', 0.9, listen_from=0.5), tmp_path / 'run.mcap')
    assert verdict['identical']
    for node in ('planner', 'belief'):
        part = verdict[node]
        assert part['bit_identical'] == part['replayed'] > 3
        assert part['without_journal'] == part['recorded'] - part['replayed'] > 3


@pytest.mark.slow
@pytest.mark.parametrize('threads', [1, 2])
def test_the_number_of_threads_changes_no_bit(make_tape, threads, tmp_path, monkeypatch):
    tape = make_tape('cartpole_swingup', 0.5)

    def change(content, _number):
        for event in content['events']:
            if event[0] == KEY:
                event[1]['task'] = event[1]['task'].replace(
                    'planner:\n', f'planner:\n  threads: {threads}\n'
                )

    other = edited(edited(tape, PLANNER, change), BELIEF, change)
    assert replayed(other, tmp_path / 'run.mcap')['identical']


@pytest.mark.slow
@pytest.mark.parametrize('topic, node', [(PLANNER, 'planner'), (BELIEF, 'belief')])
def test_a_changed_bit_of_an_input_is_reported_at_the_first_difference(
    tape, topic, node, tmp_path
):
    half = sum(name == topic for name, _, _ in tape.rows) // 2

    def flip(content, number):
        if number != half:
            return
        event = [e for e in content['events'] if e[0] == 'joints'][-1]
        velocity = snapshot.decode(event[3])
        velocity[0] += 2.0**-40  # a bit that rounding does not lose
        event[3] = snapshot.encode(velocity)

    verdict = replayed(edited(tape, topic, flip), tmp_path / 'run.mcap')
    assert not verdict['identical'] and not verdict[node]['identical']
    other = {'planner': 'belief', 'belief': 'planner'}[node]
    assert verdict[other]['identical']
    words = verdict[node]['first_difference']
    assert 'recorded' in words and 'replayed' in words and 'by at most' in words
    number = int(words.split()[1])  # 'plan 19 of the replay, ...'
    assert half - 2 <= number <= half + 2  # the next that can see it; it learns a moment later


@pytest.mark.slow
def test_a_published_plan_that_is_not_replayed_is_reported(tape, tmp_path):
    other = copy.copy(tape)
    places = [i for i, row in enumerate(tape.rows) if row[0] == 'emppi/plan']
    topic, now, message = copy.deepcopy(tape.rows[places[3]])
    message['header']['stamp']['nanosec'] += 1
    other.rows = [*tape.rows[: places[3]], (topic, now, message), *tape.rows[places[3] :]]
    verdict = replayed(other, tmp_path / 'run.mcap')
    assert not verdict['identical']
    assert 'was not replayed' in verdict['planner']['first_difference']


@pytest.mark.slow
def test_after_a_gap_the_replay_continues_at_the_next_key_frame(make_tape, tmp_path, monkeypatch):
    monkeypatch.setattr('emppi_ros.journal.journal._KEY_PERIOD_S', 0.25)
    tape = make_tape('cartpole_swingup', 1.0)
    whole = replayed(tape, tmp_path / 'whole.mcap')
    assert whole['identical'] and whole['planner']['memories_compared'] > 1
    holed = edited(tape, PLANNER, lambda _content, number: number != 4)
    verdict = replayed(holed, tmp_path / 'holed.mcap')
    assert verdict['identical'] and 'planner: its journal has 1 gaps' in verdict['notes'][0]
    assert 0 < verdict['planner']['without_journal'] < verdict['planner']['recorded'] // 2


@pytest.mark.slow
def test_a_state_that_differs_from_the_recording_is_reported(make_tape, tmp_path, monkeypatch):
    monkeypatch.setattr('emppi_ros.journal.journal._KEY_PERIOD_S', 0.25)
    tape = make_tape('cartpole_swingup', 0.6)

    def change(content, number):
        for event in content['events']:
            if event[0] == KEY and number > 1:
                event[2]['_learned_at'] = 0.1

    verdict = replayed(edited(tape, BELIEF, change), tmp_path / 'run.mcap')
    assert not verdict['identical']
    assert 'belief: its state differs from the recorded one in: learned_at' in verdict['notes']


def keyed(tape, edit):
    def change(content, _number):
        for event in content['events']:
            if event[0] == KEY:
                edit(event[1])

    return edited(edited(tape, PLANNER, change), BELIEF, change)


def test_another_version_is_reported(tape, tmp_path):
    other = keyed(tape, lambda about: about.update(MuJoCo='3.9.9', model='of another scene'))
    verdict = replayed(other, tmp_path / 'run.mcap')
    assert any('recorded with MuJoCo 3.9.9, replayed with' in note for note in verdict['notes'])
    assert any('the scene has changed since' in note for note in verdict['notes'])


def test_another_seed_is_reported(tape, tmp_path):
    verdict = replayed(keyed(tape, lambda about: about.update(seed=4)), tmp_path / 'run.mcap')
    assert verdict['identical']  # the random numbers themselves are in the bag
    assert any('not those of its seed 4' in note for note in verdict['notes'])


def test_a_task_that_no_longer_parses_is_an_error(tape, tmp_path):
    def change(about):
        about['task'] = about['task'].replace('duration_s', 'duration_in_fortnights')

    with pytest.raises(
        ReplayError, match=r'(?s)cannot load the recorded task.*duration_in_fortnights'
    ):
        replayed(keyed(tape, change), tmp_path / 'run.mcap')


@pytest.mark.parametrize(
    'change, words',
    [
        (
            lambda c: c['events'].insert(0, ['explode']),
            "event 'explode' is unknown to this version",
        ),
        (lambda c: c.pop('sequence'), 'not a journal'),
        (lambda c: c['events'].append(['joints', 1.0]), "event 'joints' of message .* cannot be"),
        (lambda c: c['events'][0][2].pop('_plans'), 'Planner of another version'),
        (lambda c: c['events'][0][1].pop('seed'), 'a journal without seed'),
    ],
)
def test_an_invalid_journal_is_an_error(tape, tmp_path, change, words):
    def edit(content, number):
        if number == 1:
            change(content)

    with pytest.raises(ReplayError, match=words):
        replayed(edited(tape, PLANNER, edit), tmp_path / 'run.mcap')


def test_a_prior_travels_with_the_bag(make_tape, tmp_path):
    entry = '{unit: kg, prior: {distribution: fixed, value: 0.25}}'
    prior = f'method: none\nsources: []\nparameters: {{block_mass: {entry}}}\n'
    assert replayed(make_tape('panda_push', 0.3, prior=prior), tmp_path / 'run.mcap')['identical']


@pytest.mark.slow
def test_the_exit_status_of_a_replay_is_its_result(tape, bag, tmp_path, capsys):
    assert main(['replay', str(bag), '--json']) == 0
    assert json.loads(capsys.readouterr().out)['identical']

    def spoil(content, number):
        if number == 10:
            content['events'] = [e for e in content['events'] if e[0] != 'command']

    edited(tape, BELIEF, spoil).write(bag)
    assert main(['replay', str(bag)]) == 1
    assert 'first_difference' in capsys.readouterr().out
