"""Cells, rows and the page of `emppi bench csvgd`."""

import argparse
import json

import pytest

from benchmarks import pages
from benchmarks.csvgd.experiments import EXPERIMENTS
from benchmarks.studies.csvgd import STUDY
from benchmarks.study import Results
from emppi_ros.cli import main
from emppi_ros.core.errors import IdentificationError


def cells(experiment, seeds=(0,), **options):
    names = argparse.Namespace(**options)
    chosen = STUDY.select(seeds, True, names, experiments=[experiment])
    return STUDY.cells(chosen)


def test_every_experiment_has_every_estimator_and_the_paper_s_windows():
    for name in ('simulated-pendulum', 'weights'):
        runs = {(cell.method, cell.windows) for cell in cells(name).cells}
        assert {method for method, _ in runs} == set(STUDY.axes['methods'].names)
    assert {(method, windows) for method, windows in EXPERIMENTS['simulated-pendulum'].runs} == {
        (method, windows) for method in STUDY.axes['methods'].names for windows in (1, 10)
    }


def test_the_real_pendulum_is_left_out_without_recordings(tmp_path):
    assert cells('real-pendulum').skipped == [
        'real-pendulum: no --data FOLDER (IBM double-pendulum-chaotic-dataset, CDLA-Sharing 1.0)'
    ]
    (line,) = cells('real-pendulum', data=tmp_path).skipped
    assert line.startswith('real-pendulum: no folder ibm_double_pendulum in --data')


def test_a_refusal_and_values_that_are_not_finite_are_on_the_page(monkeypatch, tmp_path):
    def measure(cell):
        if cell.method == 'emcee':
            raise IdentificationError('all particles diverge')
        return {'error': 2.0 / cell.windows, 'mmd': float('inf')}, None

    monkeypatch.setitem(
        vars(EXPERIMENTS['simulated-pendulum']), 'measure', measure
    )  # a frozen dataclass
    rows = [STUDY.compute(cell) for cell in cells('simulated-pendulum').cells]
    page = STUDY.page(Results(rows, tmp_path))
    table, *refused = page.values['simulated_pendulum']
    assert '| `nuts` | 10 | n/a | n/a | n/a | 0.2 |' in table
    assert '- `emcee`, 1 windows, seed 0: all particles diverge' in refused[1]
    assert any('error in one window over that in several: csvgd 10, ' in x for x in page.lines)
    assert '0.2' in pages.fill('csvgd', page.values)


@pytest.mark.slow
def test_a_quick_run_reports_coverage_and_draws_the_weights(tmp_path, capsys):
    words = ['bench', 'csvgd', '--quick', '--jobs', '1', '--out', str(tmp_path), '--json',
             '--experiments', 'empty-box', 'weights']  # fmt: skip
    main(words)
    rows = json.loads(capsys.readouterr().out)['rows']
    assert len(rows) == 8
    assert all(len(row['theta']) == 8 for row in rows if row['experiment'] == 'weights')
    text = (tmp_path / 'results.md').read_text()
    assert '![Particles of the two weights' in text and (tmp_path / 'weights.png').is_file()
    assert '/11 |' in text
