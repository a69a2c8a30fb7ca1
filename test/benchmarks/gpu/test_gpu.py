"""The measurements for a GPU keep to their time, and say what failed."""

import json
import sys
import time

import pytest

from benchmarks.gpu import measure
from benchmarks.gpu.__main__ import COLUMNS, Runner, find_python, table


@pytest.fixture
def runner(tmp_path):
    """Return a runner with a minute, whose rows are in a new folder."""
    rows = tmp_path / 'rows.jsonl'
    rows.write_text('')
    return Runner(rows, 60.0)


def _rows(runner):
    return [json.loads(line) for line in runner.rows.read_text().splitlines()]


def test_a_part_that_fails_is_a_row_with_its_last_line(runner):
    assert runner.run('fine', [sys.executable, '-c', 'print(1)'], 30.0)
    assert not runner.run('plan x', [sys.executable, '-c', 'raise SystemExit("no GPU")'], 30.0)
    assert _rows(runner) == [{'part': 'plan x', 'failed': 'no GPU (plan-x.log)'}]


def test_a_part_that_takes_too_long_is_killed_with_its_children(runner):
    shell = ['sh', '-c', f'{sys.executable} -c "import time; time.sleep(60)"; echo']
    began = time.monotonic()
    assert not runner.run('slow', shell, 0.5)
    assert time.monotonic() - began < 30.0  # s: not 60
    assert _rows(runner)[0]['failed'] == 'not finished within 0 s: slow.log'


def test_without_time_left_a_part_is_left_out_and_named(runner):
    runner.deadline = time.monotonic() - 1.0
    assert not runner.run('late', ['false'], 10.0)
    assert _rows(runner) == [{'part': 'late', 'failed': 'no time left'}]


def test_an_interpreter_with_the_packages_needs_no_environment(runner, tmp_path):
    venv = tmp_path / 'venv'
    assert find_python(venv, runner, 'numpy') == sys.executable
    assert not venv.exists()


def test_the_table_has_all_rows_and_what_failed():
    rows = [
        {'part': 'plan', 'task': 'panda_push', 'n': 256, 'ms': 12.3456, 'note': 'card'},
        {'part': 'belief', 'failed': 'out of memory'},
    ]
    text = table(rows)
    first, _, row, *_ = text.splitlines()
    assert first == f'| {" | ".join(COLUMNS)} |'
    assert row == '| plan | panda_push | 256 |  | 12.35 |  |  |  |  | card |'
    assert text.endswith('Failed:\n\n- belief: out of memory')
    assert table(rows[:1]).endswith('Nothing failed.')


@pytest.mark.parametrize('part', ['plan', 'belief'])
def test_the_parts_run_on_the_processor(part, tmp_path, monkeypatch):
    monkeypatch.setattr(measure, 'MOTION_S', 0.1)
    path = tmp_path / 'rows.jsonl'
    arguments = ['--task', 'cartpole_swingup', '--device', 'cpu', '--sizes', '10']
    monkeypatch.setattr(sys, 'argv', ['x', part, *arguments, '--rows', str(path), '--quick'])
    measure.main()
    (row,) = map(json.loads, path.read_text().splitlines())
    assert (row['part'], row['task'], row['n']) == (part, 'cartpole_swingup', 10)
    assert row['ms'] * row['rate_hz'] == pytest.approx(1e3)
    assert set(row) <= {*COLUMNS}
