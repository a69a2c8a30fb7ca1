"""Rows of drivers and recorders are cleaned with a note, or refused with a remedy."""

import json

import numpy as np
import pytest

from emppi_ros.cli import main
from emppi_ros.core.errors import EmppiError, IdentificationError
from emppi_ros.recordings.cleaning import clean, unset
from emppi_ros.recordings.recordings import read_recording
from emppi_ros.recordings.signals import Signal

COUNT, STEP = 1000, 0.004
TIME = STEP * np.arange(COUNT)
UNITS = {'position': 'rad', 'velocity': 'rad/s'}


def swing(time=TIME, rows=slice(None), **others):
    """Return position and velocity of a joint at some rows, stamped by a time."""
    values = {'position': np.cos(2.0 * TIME), 'velocity': -2.0 * np.sin(2.0 * TIME)} | others
    return [
        Signal(
            kind,
            'hinge',
            UNITS[kind],
            time[rows],
            row[rows],
            f'bag: joint_states: {kind} of hinge',
        )
        for kind, row in values.items()
    ]


def check(signals, rows, *words):
    """Check that exactly these rows of the swing are left, in order, with a note for each word."""
    cleaned, notes = clean(signals)
    assert len(notes) == len(words)
    for signal, whole in zip(cleaned, swing(), strict=True):
        np.testing.assert_array_equal(signal.time, whole.time[rows])
        np.testing.assert_array_equal(signal.values, whole.values[rows])
    for note, word in zip(notes, words, strict=True):
        assert note.startswith('bag: joint_states: ') and word in note


def test_good_rows_stay_the_same_objects():
    signals = swing()
    cleaned, notes = clean(signals)
    assert notes == [] and all(a is b for a, b in zip(cleaned, signals, strict=True))


@pytest.mark.parametrize('overtaken', [1, 3, 4])
def test_rows_out_of_order_are_sorted(overtaken):
    rows = np.arange(COUNT)
    rows[500 : 501 + overtaken] = np.roll(rows[500 : 501 + overtaken], -1)
    check(swing(rows=rows), slice(None), 'sorted 1000 rows by their stamps: 1 came after')


def test_rows_of_one_stamp_are_kept_once():
    rows = np.insert(np.arange(COUNT), [10, 700], [9, 699])
    check(swing(rows=rows), slice(None), 'dropped 2 of 1002 rows: they repeat the row before')
    time = TIME.copy()
    time[700] = time[699]
    check(swing(time), np.arange(COUNT) != 700, 'dropped 1 of 1000 rows: another one has their')


@pytest.mark.parametrize('off', [3600.0, -3600.0, 0.5])
def test_single_stamps_that_are_far_off_are_dropped(off):
    time = TIME.copy()
    time[500] += off
    check(swing(time), np.arange(COUNT) != 500, 'dropped 1 of 1000 rows: their stamps are far off')


def test_the_longest_part_without_a_gap_is_used():
    rows = np.concatenate([np.arange(300), np.arange(315, COUNT)])
    check(
        swing(rows=rows), slice(315, None), 'no samples for 0.064 s after 1.196 s: used the long'
    )
    (note,) = clean(swing(rows=rows))[1]
    assert '1.26 to 3.996 s; left out: 0 to 1.196 s (--from and --to choose' in note
    # a command without gaps keeps its samples, and does not change the choice
    command = Signal('command', 'motor', 'N m', TIME, TIME, 'bag: emppi/applied: command of motor')
    cleaned, _ = clean([*swing(rows=rows), command])
    assert cleaned[0].time[0] == TIME[315] and cleaned[2] is command
    # parts that all signals cover count
    cleaned, _ = clean([*swing(rows=rows), command._replace(time=TIME[:400], values=TIME[:400])])
    assert cleaned[0].time[-1] == TIME[299]


def test_after_a_clock_was_set_back_the_longest_part_is_used():
    time = TIME.copy()
    time[300:] -= 1.0
    cleaned, (note,) = clean(swing(time))
    np.testing.assert_array_equal(cleaned[0].time, time[300:])
    assert 'stamps go back after 1.196 s: was the clock set back?' in note


@pytest.mark.parametrize(
    ('time', 'words'),
    [
        (np.floor(TIME / 0.01 + 1e-6) * 0.01, 'a clock of 100 Hz is too coarse for 250 samples a'),
        (np.full(COUNT, 7.0), 'all 1000 rows have one stamp: the driver does not set it'),
        (TIME + 0.012 * (np.arange(COUNT) % 2), 'are stamped before .*: do two nodes publish it'),
        (TIME + 5.0 * (np.arange(COUNT) % 2), 'are stamped before .*: do two nodes publish it'),
    ],
)
def test_stamps_that_do_not_tell_the_times_are_refused(time, words):
    with pytest.raises(IdentificationError, match=f'bag: joint_states: .*{words}'):
        clean(swing(time))


def test_nan_is_no_measurement():
    rows = np.arange(COUNT)
    nan = np.where(rows < 3, np.nan, np.cos(2.0 * TIME))
    check(swing(position=nan), slice(3, None), 'skipped the first 3 of 1000 rows: NaN (position')
    velocity = swing()[1].values
    check(
        swing(velocity=np.where(rows < 3, np.nan, velocity)),
        slice(3, None),
        'skipped the first 3 of 1000 rows: NaN (velocity of hinge)',
    )
    cleaned, (note,) = clean(swing(velocity=np.where(rows == 50, np.nan, velocity)))
    assert len(cleaned[0].time) == COUNT and len(cleaned[1].time) == COUNT - 1
    assert 'velocity of hinge: 1 of 1000 are NaN' in note
    cleaned, (note,) = clean(swing(velocity=np.where(rows < 600, np.nan, velocity)))
    assert [len(s.time) for s in cleaned] == [COUNT, 400] and '600 of 1000 are NaN' in note


@pytest.mark.parametrize('constant', [0.0, 3.14])
def test_constant_velocities_of_a_joint_that_moves_are_ignored(constant):
    (position,), (note,) = clean(swing(velocity=np.full(COUNT, constant)))
    assert position.kind == 'position'
    assert f'velocity of hinge: ignored: always {constant:g} while positions move' in note
    rest = {'position': np.zeros(COUNT), 'velocity': np.zeros(COUNT)}
    assert len(clean(swing(**rest))[0]) == 2


def test_velocities_with_a_gap_are_ignored():
    position, velocity = swing()
    here = (TIME < 1.0) | (TIME > 1.5)
    cleaned, (note,) = clean([position, velocity._replace(time=TIME[here], values=TIME[here])])
    assert cleaned == [position] and 'ignored: a gap of 0.50' in note


def test_stamps_of_zero_are_unset_unless_time_begins_there():
    np.testing.assert_array_equal(unset(np.array([0.0, 0.0, 12.0, 12.1])), [1, 1, 0, 0])
    assert not unset(np.array([0.0, 0.1, 0.2])).any() and not unset(np.zeros(3)).any()


def test_unset_stamps_of_a_bag_are_dropped(messages, tmp_path):
    expected = read_recording([messages.write(tmp_path / 'run.mcap')])
    zero = {'header': {'stamp': {'sec': 0, 'nanosec': 0}, 'frame_id': ''}}
    messages.state('joint_states', -0.01, ['slider', 'hinge'], position=[0.0, 0.0], **zero)
    found = read_recording([messages.write(tmp_path / 'zero.mcap')])
    assert 'joint_states: dropped 1 of 201 messages: their stamps are 0' in found.notes[0]
    for key, signal in found.signals.items():
        np.testing.assert_array_equal(signal.time, expected.signals[key].time)


def test_a_span_counts_from_the_start(messages, tmp_path, capsys):
    messages.rows = [row for row in messages.rows if not row[0].startswith('tracking/')]
    path = messages.write(tmp_path / 'run.mcap')
    whole = read_recording([path]).signals
    for key, signal in read_recording([path], (0.5, 1.75)).signals.items():
        rows = (whole[key].time >= 0.5) & (whole[key].time <= 1.75)
        np.testing.assert_array_equal(signal.values, whole[key].values[rows])
    with pytest.raises(EmppiError, match=r'--from 20 --to 30: no samples there: .* lasts'):
        read_recording([path], (20.0, 30.0))
    words = ['identify', '--data', str(path), '--task', 'cartpole_swingup']
    assert main([*words, '--from', '2', '--to', '1']) == 2
    assert '--from 2 --to 1: expected seconds since the start' in capsys.readouterr().err
    assert json.dumps(read_recording([path], (0.5, 1.75)).span) == '[0.5, 1.75]'
