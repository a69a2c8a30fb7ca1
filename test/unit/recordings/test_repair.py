"""Rows of a polling logger are repaired, and those of a robot's own clock stay as they are."""

import numpy as np
import pytest

from emppi_ros.recordings.noise import resolution, rounding_noise
from emppi_ros.recordings.repair import repair, repeated_rows, robot_time
from emppi_ros.recordings.signals import Signal

STEP, STEPS = 1e-3, 6000
UNITS = {'position': 'rad', 'velocity': 'rad/s', 'effort': 'N m'}


def motion(rest=0.0):
    """Return the times (n,) of samples, positions and velocities (n, 2); at rest at both ends."""
    time = STEP * np.arange(STEPS)
    moving = np.clip(time - rest, 0.0, time[-1] - 2.0 * rest)
    phase = np.outer(moving, [2.0, 3.3])
    fast = (moving > 0.0) & (moving < time[-1] - 2.0 * rest)
    return time, 1.0 - np.cos(phase), fast[:, None] * [2.0, 3.3] * np.sin(phase)


def table(time, position, velocity, torque, where='run.csv'):
    rows = {'position': position, 'velocity': velocity, 'effort': torque}
    return [
        Signal(kind, f'joint{i}', UNITS[kind], time, column, f'{where}: {kind}/joint{i}')
        for kind, columns in rows.items()
        if columns is not None
        for i, column in enumerate(columns.T)
    ]


def sensed(position, velocity, rng):
    """Return readings with noise of encoders that resolve 1e-6 rad, and torques."""
    rows = [position + 1e-6 * rng.standard_normal(position.shape)]
    rows.append(velocity + 2e-4 * rng.standard_normal(position.shape))
    rows[0] = 1e-6 * np.round(rows[0] / 1e-6)
    return [*rows, 0.036 * np.round(rng.standard_normal(position.shape) / 0.036)]


def polled(time, rng):
    """Return the samples (m,) that a logger with steps of 0.8 to 1.6 ms finds, and its stamps."""
    stamps = np.cumsum(rng.uniform(0.8e-3, 1.6e-3, 2 * len(time)))
    stamps = stamps[stamps < time[-1]] - 1e-5
    return np.searchsorted(time, stamps, side='right') - 1, stamps


CLEAN = {
    'noise': lambda rng: sensed(*motion()[1:], rng),
    'no noise': lambda rng: [*motion()[1:], motion()[1]],
    'rest at the ends': lambda rng: [*motion(1.0)[1:], motion(1.0)[1]],
    'quantized': lambda rng: [4e-4 * np.round(motion()[1] / 4e-4), None, None],
    'no velocity': lambda rng: [sensed(*motion()[1:], rng)[0], None, motion()[2]],
}


@pytest.mark.parametrize('name', CLEAN)
def test_clean_signals_stay_the_same_objects(name, rng):
    signals = table(motion()[0], *CLEAN[name](rng))
    repaired, notes = repair(signals)
    assert notes == [] and all(a is b for a, b in zip(repaired, signals, strict=True))


@pytest.mark.parametrize('rest', [0.0, 1.0])
def test_robot_time_of_a_polling_logger_is_restored(rest, rng):
    time, *rows = motion(rest)
    rows = sensed(*rows, rng)
    seen, stamps = polled(time, rng)
    signals = table(stamps, *(row[seen] for row in rows))
    repaired, notes = repair(signals)
    new = np.concatenate([[True], np.diff(seen) > 0])
    position = repaired[0]
    # at rest noise of a resolution tells repetitions from new samples no more, nor need it
    moving = np.abs(rows[1][seen]).max(axis=1) > 0.1
    assert np.isin(rows[0][seen[new & moving], 0], position.values).all()
    assert len(position.values) - np.sum(new) == np.sum(~new & ~moving) or rest == 0.0
    if rest == 0.0:
        np.testing.assert_array_equal(position.values, rows[0][seen[new], 0])
        off = position.time - time[seen[new]]
        # a logger is late by half a period on average; rate and offset are fitted to its stamps,
        # which deviate by 0.3 ms (rms) in 5000 rows: 0.01 ms at most
        np.testing.assert_allclose(off, np.mean(off), atol=2e-5)
    text = '; '.join(notes)
    assert 'run.csv: dropped' in text and 'replaced by robot time, with cycles of 1 ms' in text
    missing = seen[-1] - seen[0] + 1 - np.sum(new)
    if rest == 0.0:
        assert f'dropped {np.sum(~new)} of {len(seen)} rows' in text
        assert f'{missing} of {missing + np.sum(new)} samples are missing' in text


def test_real_jitter_of_sampling_is_not_changed(rng):
    """Stamps are right where samples were taken at uneven times."""
    time = np.cumsum(rng.uniform(0.8e-3, 1.6e-3, STEPS))
    phase = np.outer(time, [2.0, 3.3])
    rows = sensed(1.0 - np.cos(phase), np.sin(phase) * [2.0, 3.3], rng)
    assert robot_time(time, rows[0], rows[1]) is None
    signals = table(time, *rows)
    repaired, _ = repair(signals)
    assert all(a is b for a, b in zip(repaired, signals, strict=True))


def test_missing_samples_are_counted(rng):
    time, *rows = motion()
    rows = sensed(*rows, rng)
    kept = np.ones(STEPS, bool)
    kept[[100, 2000, 2001]] = False
    signals = table(time[kept], *(row[kept] for row in rows))
    repaired, notes = repair(signals)
    assert notes == [f'run.csv: 3 of {STEPS} samples are missing, and are interpolated']
    assert all(a is b for a, b in zip(repaired, signals, strict=True))


def test_equal_positions_at_a_turning_point_are_no_repetition():
    position = np.abs(np.arange(-300.0, 300.0) + 0.5)[:, None]  # 0.5 twice
    assert not repeated_rows(position).any()


def test_commands_keep_their_rows(rng):
    """A repeated row may have a new command."""
    time, *rows = motion()
    seen, stamps = polled(time, rng)
    command = Signal('command', 'm', 'N m', stamps, rng.standard_normal(len(stamps)), 'run.csv: c')
    measured = table(stamps, *(row[seen] for row in sensed(*rows, rng)))
    repaired, _ = repair([*measured, command])
    np.testing.assert_array_equal(repaired[-1].values, command.values)
    assert np.all(np.diff(repaired[-1].time) >= 0.0) and repaired[0].time[0] in repaired[-1].time


@pytest.mark.parametrize('step', [1e-6, 0.036, 2.0 * np.pi / 2**14])
def test_the_resolution_of_rounded_values_is_found(step, rng):
    values = np.cumsum(rng.standard_normal(3000)) * 1.5 * step
    assert resolution(step * np.round(values / step)) == pytest.approx(step, rel=1e-6)
    assert resolution(values) == 0.0
    # rounding errors are uniform; standard error of 3000 samples: 1 %; five of these
    errors = values - step * np.round(values / step)
    assert rounding_noise(step * np.round(values / step)) == pytest.approx(errors.std(), rel=0.05)
