"""`emppi bench belief`: report, resuming, and errors."""

import json
from pathlib import Path

import pytest

from benchmarks.studies.belief import BeliefStudy
from emppi_ros.cli import main

SMALL = [
    'bench', 'belief', '--tasks', 'cartpole_swingup', '--worlds', 'jump,drake',
    '--estimators', 'emppi,ukf,truth', '--jobs', '1', '--quick', '--json',
]  # fmt: skip


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a quick benchmark, which was run once."""
    place = tmp_path_factory.mktemp('belief')
    assert main([*SMALL, '--out', str(place)]) == 0
    return place


@pytest.mark.slow
def test_a_quick_benchmark_writes_rows_tables_plots_and_a_report(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names >= {'rows.jsonl', 'table.csv', 'scores.csv', 'results.md'}
    assert len((folder / 'rows.jsonl').read_text().splitlines()) == 3
    text = (folder / 'results.md').read_text()
    for words in ('not evidence', 'cartpole swingup', 'cartpole_swingup, drake: not defined'):
        assert words in text
    assert all(f']({name})' in text for name in names if name.endswith('.png'))


@pytest.mark.slow
def test_the_same_command_reuses_finished_runs_unless_fresh(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    calls = []

    def counted(cells: object, threads: int | None = None) -> object:
        calls.append(cells)
        raise KeyboardInterrupt

    monkeypatch.setattr(BeliefStudy, 'compute', staticmethod(counted))
    assert main([*SMALL, '--out', str(folder)]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found['runs'] == found['reused'] == 3 and not calls
    assert {group['estimator'] for group in found['groups']} == {'emppi', 'ukf', 'truth'}
    assert main([*SMALL, '--out', str(folder), '--fresh', '--so-far']) == 0 and not calls
    assert main([*SMALL, '--out', str(folder), '--fresh']) == 130 and len(calls) == 1


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['--worlds', 'jumps'], "unknown world 'jumps'"),
        (['--estimators', 'ours'], "unknown estimator 'ours'"),
        (['--tasks', 'cartpole'], 'cartpole'),
    ],
)
def test_errors_end_with_status_2_and_name_the_option(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(['bench', 'belief', '--out', str(tmp_path), '--jobs', '1', *arguments]) == 2
    assert words in capsys.readouterr().err
