"""What .ci/run makes of its stages: a failure, a second try, and skipped tests that fail a run."""

import importlib.util
import os
from pathlib import Path
import stat
import time

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location('run_stages', ROOT / '.ci' / 'run_stages.py')
ci = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ci)

LOG = """
SKIPPED [2] test/unit/test_a.py:12: needs a browser: none is here
SKIPPED [1] test/unit/test_b.py: Drake is not installed
FAILED test/unit/test_c.py::test_x - assert 0
= 1 failed, 11 passed, 3 skipped, 4 deselected, 2 warnings in 61.20s (0:01:01) =
7 passed in 0.12s
the robot passed 3 points in 2 s
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a repository with stages of a few lines, whose results the test writes."""
    (tmp_path / '.ci' / 'stages').mkdir(parents=True)
    (tmp_path / '.ci' / 'skips.toml').write_text(
        "[[skip]]\nfile = 'test/a_*.py'\nreason = 'no GPU'\nwhy = 'none is lent'\n"
        "[[skip]]\nfile = 'test/b.py'\nreason = 'not installed'\nstage = 'other'\n"
    )
    monkeypatch.setattr(ci, 'ROOT', tmp_path)
    monkeypatch.setattr(ci, 'LOGS', tmp_path / 'out' / 'ci')
    monkeypatch.setattr(ci, 'STAGES', (ci.Stage('plain'), ci.Stage('other', real_time=True)))
    write(tmp_path, 'plain', 'echo "3 passed in 0.1s"')
    write(tmp_path, 'other', 'echo "2 passed in 0.1s"')
    return tmp_path


def write(folder, stage, script):
    path = folder / '.ci' / 'stages' / stage
    path.write_text(f'#!/bin/sh\n{script}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_tests_and_skips_are_read_from_the_output_of_pytest():
    lines = LOG.splitlines()
    assert ci.count_tests(lines) == {'passed': 18, 'failed': 1, 'skipped': 3}
    assert ci.find_skips(lines) == (
        (2, 'test/unit/test_a.py', 'needs a browser: none is here'),
        (1, 'test/unit/test_b.py', 'Drake is not installed'),
    )


def test_every_stage_is_a_script_and_every_script_a_stage():
    scripts = {path.name: path for path in (ROOT / '.ci' / 'stages').iterdir()}
    assert set(scripts) == {stage.name for stage in ci.STAGES}
    assert all(os.access(path, os.X_OK) for path in scripts.values())


def test_a_run_that_passes_ends_with_its_table(folder, capsys):
    assert ci.main([]) == 0
    *_, head, plain, other, _, _, last = capsys.readouterr().out.splitlines()
    assert head.split() == ['stage', 'result', 'seconds', 'tests', 'skipped']
    assert plain.split() == ['plain', 'passed', '0', '3']
    assert other.split()[:2] == ['other', 'passed']
    assert last == 'stages: 2 passed, 0 failed'


def test_a_failed_stage_fails_the_run_and_the_others_run_all_the_same(folder, capsys):
    write(folder, 'plain', 'echo "FAILED test_x"; exit 3')
    assert ci.main([]) == 1
    output = capsys.readouterr().out
    assert 'FAILED test_x' in output and 'error: failed: plain\n' in output
    assert output.endswith('stages: 1 passed, 1 failed\n')


def test_a_stage_in_real_time_is_tried_twice_and_both_results_are_told(folder, capsys):
    write(folder, 'other', 'mkdir tried && exit 1; exit 0')
    assert ci.main([]) == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert rows.count(['other', 'failed']) == rows.count(['other', 'passed']) == 1
    write(folder, 'other', 'echo "$PYTEST_ADDOPTS" >> options; exit 1')
    assert ci.main(['other']) == 1
    first, again = (folder / 'options').read_text().splitlines()
    assert again == f'{first} --last-failed'


def test_a_machine_that_is_too_slow_costs_a_second_try_and_fails_no_run(folder, capsys):
    write(folder, 'other', 'exit 75')
    assert ci.main([]) == 0
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert rows.count(['other', 'overloaded']) == 2


def test_a_skip_that_is_not_listed_fails_the_run(folder, capsys):
    write(folder, 'plain', 'echo "SKIPPED [1] test/a_x.py:3: no GPU here"')
    assert ci.main([]) == 0
    write(folder, 'plain', 'echo "SKIPPED [1] test/a_x.py:3: it was tedious"')
    assert ci.main([]) == 1
    assert 'test/a_x.py: it was tedious: not in .ci/skips.toml' in capsys.readouterr().out


def test_a_skip_that_another_stage_makes_up_for_must_be_run_there(folder, capsys):
    skip = 'echo "SKIPPED [1] test/b.py:3: X is not installed"'
    write(folder, 'plain', skip)
    assert ci.main([]) == 0
    write(folder, 'other', f'{skip}; echo "2 passed, 1 skipped in 0.1s"')
    assert ci.main([]) == 1
    assert 'skipped in stage other, too' in capsys.readouterr().out


def test_what_a_stage_leaves_running_is_ended(folder):
    write(folder, 'plain', 'sleep 1000 & echo $! > pid')
    assert ci.main(['plain']) == 0
    process, deadline = int((folder / 'pid').read_text()), time.monotonic() + 10.0
    while is_running(process):  # the signal is sent, but the process need not have run since
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_running(process):
    try:
        return Path(f'/proc/{process}/stat').read_text().split()[2] not in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_an_unknown_stage_is_named(capsys):
    assert ci.main(['tests']) == 2
    assert 'no stage tests; stages: system, install' in capsys.readouterr().err
