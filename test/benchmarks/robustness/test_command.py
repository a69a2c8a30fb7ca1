"""`emppi bench robustness`: report, resuming, and errors."""

import json
from pathlib import Path

import pytest

from benchmarks.studies.robustness import RobustnessStudy
from emppi_ros.cli import main

SMALL = [
    'bench', 'robustness', '--tasks', 'cartpole_swingup', '--sweeps', 'tilt,size', '--jobs', '1',
    '--controllers', 'emppi', '--quick', '--json',
]  # fmt: skip


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a quick benchmark, which was run once."""
    place = tmp_path_factory.mktemp('robustness')
    assert main([*SMALL, '--out', str(place)]) == 0
    return place


@pytest.mark.slow
def test_a_quick_benchmark_writes_rows_a_table_plots_and_a_report(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {'rows.jsonl', 'table.csv', 'results.md', 'tilt_cartpole_swingup.png'}
    text = (folder / 'results.md').read_text()
    for words in ('not evidence', 'cartpole_swingup, size: the task has no free object', '0.05'):
        assert words in text
    header, *lines = (folder / 'table.csv').read_text().splitlines()
    assert header.startswith('task,sweep,values,controller,seed,success')
    assert len(lines) == 7 * 2  # conditions x parameters


def test_the_same_command_reuses_finished_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(RobustnessStudy, 'compute', staticmethod(pytest.fail))
    assert main([*SMALL, '--out', str(folder)]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found['runs'] == found['reused'] == 7
    assert [group['values'] for group in found['groups']] == sorted(
        group['values'] for group in found['groups']
    )


def test_an_unknown_sweep_ends_with_status_2_and_names_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(['bench', 'robustness', '--out', str(tmp_path), '--sweeps', 'slope']) == 2
    assert "--sweeps: unknown sweep 'slope'" in capsys.readouterr().err
