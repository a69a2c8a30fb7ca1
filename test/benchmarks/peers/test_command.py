"""`emppi bench peers`: report, resuming, and errors."""

import json
from pathlib import Path
import sys

import pytest

from benchmarks.studies.peers import PeersStudy
from emppi_ros.cli import main

SMALL = [
    'bench', 'peers', '--tasks', 'cartpole', '--worlds', 'true,unknown', '--planners',
    'emppi,mppi,judo-cem', '--quick', '--json', '--rollouts', '16',
]  # fmt: skip


def test_without_judo_an_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, 'judo', None)
    assert main([*SMALL, '--out', str(tmp_path)]) != 0
    assert "Python package 'judo' is not installed; `make peers`" in capsys.readouterr().err


@pytest.mark.parametrize('kind', ['task', 'world', 'planner'])
def test_an_unknown_name_ends_with_status_2_and_names_the_option(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(['bench', 'peers', '--out', str(tmp_path), f'--{kind}s', 'other']) == 2
    assert f"--{kind}s: unknown {kind} 'other'" in capsys.readouterr().err


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a quick benchmark, which was run once."""
    pytest.importorskip('judo', reason='`make peers` installs Judo')
    place = tmp_path_factory.mktemp('peers')
    assert main([*SMALL, '--out', str(place)]) == 0
    return place


def test_a_quick_benchmark_writes_rows_a_table_plots_and_a_report(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {
        'rows.jsonl', 'table.csv', 'results.md', 'reward_cartpole.png', 'ratio.png',
    }  # fmt: skip
    assert 'not evidence' in (folder / 'results.md').read_text()


def test_the_same_command_reuses_finished_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(PeersStudy, 'compute', staticmethod(pytest.fail))
    assert main([*SMALL, '--out', str(folder)]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found['runs'] == found['reused'] == 6


def test_rollouts_that_models_cannot_share_are_an_error(
    folder: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main([*SMALL[:-1], '12', '--out', str(folder)]) == 2
    assert '--rollouts: found 12; expected a multiple of the 8 models' in capsys.readouterr().err
