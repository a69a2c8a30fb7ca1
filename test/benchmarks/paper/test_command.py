"""`emppi bench paper`: report, resuming, and errors."""

import json
from pathlib import Path

import pytest

from benchmarks.studies.paper import PaperStudy
from emppi_ros.cli import main

SMOKE = [
    'bench', 'paper', '--tasks', 'cartpole_swingup', '--controllers', 'emppi,mppi-true',
    '--seeds', '1', '--jobs', '1', '--quick',
]  # fmt: skip
SMALL = [*SMOKE, '--studies', 'success', '--json']


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a quick benchmark of all studies, which was run once."""
    place = tmp_path_factory.mktemp('paper')
    assert main([*SMOKE, '--out', str(place)]) == 0
    return place


@pytest.mark.slow
def test_a_quick_benchmark_writes_rows_tables_plots_and_a_report(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names >= {'rows.jsonl', 'table.csv', 'estimates.csv', 'results.md'}
    text = (folder / 'results.md').read_text()
    assert f'emppi {" ".join(SMOKE)} --out {folder}' in text
    for words in ('cartpole_swingup', 'mppi-true', 'hold', 'not evidence', 'MuJoCo', 'GiB'):
        assert words in text
    pictures = {name for name in names if name.endswith('.png')}
    assert pictures == {
        'success.png', 'regret.png', 'squared_error.png', 'estimates_cartpole_swingup.png',
        'plan_time.png',
    }  # fmt: skip
    assert all(f']({name})' in text for name in pictures)


@pytest.mark.slow
def test_the_same_command_reuses_finished_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(PaperStudy, 'compute', None)  # would fail, were it called
    before = (folder / 'rows.jsonl').read_bytes()
    assert main([*SMALL, '--out', str(folder)]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out.splitlines()[-1])
    assert found['runs'] == found['reused'] == 2 and found['outdated'] == 0
    assert set(found['success']['cartpole_swingup']) == {'emppi', 'mppi-true'}
    assert {claim['claim'] for claim in found['claims']} >= {'succeeds like the oracle'}
    assert '2 of 2 runs are already finished' in captured.err
    assert (folder / 'rows.jsonl').read_bytes() == before


@pytest.mark.slow
def test_so_far_reports_finished_runs_only(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(PaperStudy, 'compute', None)  # would fail, were it called
    (tmp_path / 'rows.jsonl').write_bytes((folder / 'rows.jsonl').read_bytes())
    several = [*SMALL, '--seeds', '3', '--out', str(tmp_path)]
    assert main([*several, '--so-far']) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])['runs'] == 2
    assert '2 of 6 runs, ' in (tmp_path / 'results.md').read_text()
    empty = tmp_path / 'empty'
    assert main([*SMALL, '--out', str(empty), '--so-far']) == 2
    assert 'none of these runs is finished in' in capsys.readouterr().err


def test_ctrl_c_keeps_finished_runs_and_ends_with_status_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    compute, calls = PaperStudy.compute, []

    def interrupted(cell: object) -> object:
        calls.append(cell)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return compute(cell)

    monkeypatch.setattr(PaperStudy, 'compute', staticmethod(interrupted))
    assert main([*SMALL, '--out', str(tmp_path)]) == 130
    captured = capsys.readouterr()
    assert captured.out == '' and 'Traceback' not in captured.err
    assert '1 of 2 runs are stored in ' in captured.err
    assert len((tmp_path / 'rows.jsonl').read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['--tasks', 'cartpol'], ["'cartpol'", "did you mean 'cartpole_swingup'"]),
        (['--controllers', 'emppi,pid'], ['--controllers', "'pid'", 'mppi-true']),
        (['--studies', 'failure'], ['--studies', "'failure'", 'success']),
        (['--scheduler', 'tcp://127.0.0.1:1'], ['tcp://127.0.0.1:1', 'no scheduler answers']),
    ],
)
def test_errors_are_one_line_on_stderr(
    arguments: list[str], words: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture,
) -> None:  # fmt: skip
    if '--scheduler' in arguments:
        cluster = pytest.importorskip('emppi_ros.parallel.cluster', reason='Dask is not installed')
        monkeypatch.setattr(cluster, 'CONNECT_S', 0.5)
    command = ['bench', 'paper', '--tasks', 'cartpole_swingup', '--controllers', 'emppi']
    assert main([*command, *arguments, '--out', str(tmp_path / 'out')]) == 2
    captured = capsys.readouterr()
    assert captured.out == '' and 'Traceback' not in captured.err
    line = captured.err.splitlines()[-1]
    assert line.startswith('error: ')
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    'arguments', [['--seeds', '0'], ['--jobs', '0'], ['--seeds', 'many'], ['--tasks']]
)
def test_invalid_arguments_end_with_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(['bench', 'paper', *arguments])
    assert ended.value.code == 2
