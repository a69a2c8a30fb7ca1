"""Tables are read exactly, and errors name what is wrong with them."""

import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.recordings import tables
from emppi_ros.recordings.noise import smooth
from emppi_ros.recordings.recordings import read_recording
from emppi_ros.recordings.signals import UNITS, Signal, covariance_matrices, covariance_triangles

HEADER = 'time_s,position/hinge [rad],command/motor [N m]'


def rows(count=200, period=0.01):
    time = period * np.arange(count)
    return [[f'{t:.4f}', f'{np.sin(t):.6f}', '0.5'] for t in time]


def write(folder, lines, header=HEADER, name='run.csv'):
    path = folder / name
    path.write_text('\n'.join([header, *(','.join(line) for line in lines)]) + '\n')
    return path


def test_each_column_has_the_clock_of_its_samples(tmp_path):
    lines = rows()
    for line in lines[1::2]:
        line[2] = ''
    found = read_recording([write(tmp_path, lines)])
    position, command = found.signals['position', 'hinge'], found.signals['command', 'motor']
    assert len(position.time) == 200 and len(command.time) == 100
    assert command.period == pytest.approx(2.0 * position.period)
    assert (position.unit, command.unit) == ('rad', 'N m')
    assert found.sources[0].name == 'run.csv' and len(found.sources[0].sha256) == 64


def test_parquet_holds_the_same_as_csv(tmp_path):
    arrow = pytest.importorskip('pyarrow', reason='the extra `identify` is not installed')
    from pyarrow import parquet

    lines = rows()
    names = HEADER.split(',')
    columns = {
        name: [float(line[i]) if k % 2 or i < 2 else None for k, line in enumerate(lines)]
        for i, name in enumerate(names)
    }
    path = tmp_path / 'run.parquet'
    parquet.write_table(arrow.table(columns), path)
    for k, line in enumerate(lines):
        line[2] = line[2] if k % 2 else ''
    expected = read_recording([write(tmp_path, lines)]).signals
    for key, signal in read_recording([path]).signals.items():
        np.testing.assert_array_equal(signal.time, expected[key].time)
        np.testing.assert_array_equal(signal.values, expected[key].values)
    columns[names[1]][3] = float('inf')
    parquet.write_table(arrow.table(columns), path)
    with pytest.raises(IdentificationError, match=r'row 3: position/hinge \[rad\]: found inf'):
        read_recording([path])
    twice = [names[0], names[1], names[1]]
    path = tmp_path / 'run.PARQUET'
    arrays = [arrow.array([0.01 * k for k in range(200)])] * 3
    parquet.write_table(arrow.Table.from_arrays(arrays, names=twice), path)
    with pytest.raises(IdentificationError, match=r'run.PARQUET: column .* appears twice'):
        read_recording([path])
    path = tmp_path / 'run.parquet'
    path.write_bytes(b'PAR1')
    with pytest.raises(IdentificationError, match=r'run.parquet: cannot be read'):
        read_recording([path])


@pytest.mark.parametrize('name', ['again.CSV', 'again.Parquet'])
def test_suffixes_are_case_insensitive(tmp_path, name):
    pytest.importorskip('pyarrow', reason='the extra `identify` is not installed')
    path, signals = tmp_path / name, read_recording([write(tmp_path, rows())]).signals
    tables.check_writable('--out', path)
    tables.write(path, list(signals.values()))
    assert (path.read_bytes()[:4] == b'PAR1') == name.endswith('Parquet')
    for key, signal in read_recording([path]).signals.items():
        np.testing.assert_array_equal(signal.values, signals[key].values)


def test_blank_lines_at_the_end_and_cells_with_nan_are_no_samples(tmp_path):
    lines = rows()
    expected = read_recording([write(tmp_path, lines)]).signals
    path = write(tmp_path, lines)
    with path.open('a') as file:
        file.write('\n  \n')
    for key, signal in read_recording([path]).signals.items():
        np.testing.assert_array_equal(signal.values, expected[key].values)
    missing = [read_recording([write(tmp_path, changed(7, 1, text))]) for text in ('', 'NaN')]
    for key, signal in missing[0].signals.items():
        np.testing.assert_array_equal(signal.values, missing[1].signals[key].values)


@pytest.mark.parametrize(
    ('text', 'note'),
    [
        (lambda lines: [f'# {HEADER}', *map(','.join, lines)], None),
        (lambda lines: ['# by a robot', f'#{HEADER}', *map(','.join, lines)], None),
        (lambda lines: ['# by a robot', HEADER, *map(','.join, lines)], None),
        (lambda lines: [x.replace(',', '\t') for x in [HEADER, *map(','.join, lines)]], None),
        (lambda lines: [x.replace(',', ';') for x in [HEADER, *map(','.join, lines)]], None),
        (
            lambda lines: [
                HEADER.replace(',', ';'), *(';'.join(line).replace('.', ',') for line in lines)
            ],
            'read commas as decimal commas',
        ),
        (
            lambda lines: [f',{HEADER}', *(f'{k},' + ','.join(x) for k, x in enumerate(lines))],
            "ignored column '': row numbers",
        ),
        (
            lambda lines: [
                f'Unnamed: 0,{HEADER}', *(f'{7 * k},' + ','.join(x) for k, x in enumerate(lines))
            ],
            "ignored column 'Unnamed: 0'",
        ),
        (lambda lines: [f'{HEADER},', *(','.join(line) + ',' for line in lines)], "column ''"),
        (
            lambda lines: [HEADER, '0,0,0', *(f'{float(x[0]) + 5},{x[1]},{x[2]}' for x in lines)],
            'dropped 1 of 201 rows: their time is 0',
        ),
    ],
)  # fmt: skip
def test_tables_of_other_programs_hold_the_same(tmp_path, text, note):
    expected = read_recording([write(tmp_path, rows())]).signals
    path = tmp_path / 'other.csv'
    path.write_text('\n'.join(text(rows())) + '\n')
    found = read_recording([path])
    assert len(found.notes) == (note is not None) and (note or '') in ''.join(found.notes)
    for key, signal in found.signals.items():
        np.testing.assert_array_equal(signal.values, expected[key].values)


@pytest.mark.parametrize('start', [0, 1_760_000_000])
@pytest.mark.parametrize(
    ('factor', 'unit'), [(10**3, 'milliseconds'), (10**6, 'microseconds'), (10**9, 'nanoseconds')]
)
def test_times_in_other_units_are_told_by_their_steps(tmp_path, start, factor, unit):
    lines = [[str(round((start + float(line[0])) * factor)), *line[1:]] for line in rows()]
    found = read_recording([write(tmp_path, lines)])
    (note,) = found.notes
    assert f'time_s is in {unit}, because rows are' in note and 'taken as 0.01 s (100 Hz)' in note
    # floats resolve 0.3 us at such times
    expected = start + 0.01 * np.arange(200)
    np.testing.assert_allclose(found.signals['position', 'hinge'].time, expected, atol=1e-6)


def test_points_and_commas_in_numbers_are_refused(tmp_path):
    lines = [';'.join(line) for line in changed(7, 1, '1.000,5')]
    path = tmp_path / 'run.csv'
    path.write_text('\n'.join([HEADER.replace(',', ';'), *lines]))
    with pytest.raises(IdentificationError, match=r'numbers with both \. and , .*decimals with a'):
        read_recording([path])


def changed(line, column, text):
    lines = rows()
    lines[line][column] = text
    return lines


@pytest.mark.parametrize(
    ('lines', 'words'),
    [
        (rows(20), r'position/hinge \[rad\]: too short: 20 samples; record 100'),
        (changed(7, 1, 'inf'), r"line 9: position/hinge \[rad\]: found 'inf', expected a number"),
        (changed(7, 1, 'much'), r"line 9: .*found 'much'"),
        (changed(7, 0, ''), 'sample 7 is not after the one before, at 0.06 s: sort the rows'),
        (
            rows()[:99] + rows()[150:],
            r'gap of 0.52 s after 0.98 s, .*: use one part \(--from, --to',
        ),
        (rows(period=150.0), r'0.00667 samples a second; expected .* is time_s in seconds\?'),
        ([line[:2] for line in rows()], 'line 2: found 2 cells, expected 3'),
        ([[c.replace('.', ',') for c in line] for line in rows()], 'found 6 cells.* Separate col'),
        ([], 'expected a header and rows'),
    ],
)
def test_wrong_rows_are_named(tmp_path, lines, words):
    with pytest.raises(IdentificationError, match=words):
        read_recording([write(tmp_path, lines)])


@pytest.mark.parametrize(
    ('header', 'words'),
    [
        ('time,position/hinge [rad],command/motor [N m]', "no column 'time_s'; found 'time'"),
        ('time_s,hinge,command/motor [N m]', "column 'hinge': expected a name such as 'position/"),
        ('time_s,angle/hinge [rad],command/motor [N m]', 'kinds: position, velocity, torque'),
        ('time_s,position/hinge [deg],command/motor [N m]', "found 'deg', expected rad or m"),
        ('time_s,position/hinge [rad],position/hinge [rad]', 'appears twice'),
        ('time_s position/hinge command/motor', 'are columns separated by commas'),
    ],
)
def test_wrong_columns_are_named(tmp_path, header, words):
    with pytest.raises(IdentificationError, match=words):
        read_recording([write(tmp_path, rows(), header)])


def test_a_signal_may_be_in_one_file_only(tmp_path):
    first = write(tmp_path, rows())
    with pytest.raises(IdentificationError, match=r'two.csv: position/hinge .*: is in .*run.csv'):
        read_recording([first, write(tmp_path, rows(), name='two.csv')])
    with pytest.raises(IdentificationError, match=r'missing.csv: cannot be read'):
        read_recording([tmp_path / 'missing.csv'])


def test_the_filter_has_no_lag_and_halves_the_power_twice_at_its_cutoff():
    rate, time = 500.0, np.arange(5000) / 500.0
    for hz in (2.0, 10.0, 40.0):
        wave = np.sin(2 * np.pi * hz * time)
        middle = slice(1000, 4000)
        found = smooth(wave, rate, 10.0)[middle]
        # digital filters are warped: tan(pi f / rate) in place of f
        warped = np.tan(np.pi * hz / rate) / np.tan(np.pi * 10.0 / rate)
        gain = 1.0 / (1.0 + warped**4)  # of second order, forward and backward
        np.testing.assert_allclose(found, gain * wave[middle], atol=1e-6)  # transients of the ends
    unchanged = smooth(wave, rate, 250.0)
    np.testing.assert_array_equal(unchanged, wave)


def test_covariances_of_poses_are_read_as_they_were_written(tmp_path):
    time = 0.01 * np.arange(150)
    factors = np.random.default_rng(1).normal(size=(150, 6, 6))
    matrices = factors @ np.swapaxes(factors, 1, 2)
    values = covariance_triangles(matrices)
    signal = Signal('covariance', 'left.arm', UNITS['covariance'][0], time, values, 'here')
    tables.write(tmp_path / 'poses.csv', [signal])
    (found,) = tables.read(tmp_path / 'poses.csv')
    assert (found.kind, found.of, found.unit) == signal[:3]
    # written with all digits; products of matrices are symmetric up to rounding
    np.testing.assert_allclose(covariance_matrices(found.values), matrices, atol=1e-14)
    header = (tmp_path / 'poses.csv').read_text().splitlines()[0].split(',')
    assert len(header) == 22
    assert header[1:5] == [
        f'covariance/left.arm.{part}'
        for part in ('x.x [m^2]', 'x.y [m^2]', 'x.z [m^2]', 'x.rx [m rad]')
    ]


def test_an_unknown_part_of_a_covariance_is_named(tmp_path):
    header = HEADER + ',covariance/block.x.q [m^2]'
    path = write(tmp_path, [[*row, '1'] for row in rows()], header)
    with pytest.raises(IdentificationError, match=r"such as 'covariance/block.x.rx \[m rad\]'"):
        tables.read(path)
