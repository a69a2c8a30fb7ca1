"""Pages of results are those of their published rows."""

import importlib
import re

from matplotlib.figure import Figure
from pages import ROOT
import published
import pytest

from benchmarks import pages
from benchmarks.belief import worlds
from benchmarks.paper import plots
from benchmarks.study import Results
from emppi_ros.core import config

STUDIES = {
    'results': 'paper',
    'results_load': 'robustness',
    **{
        f'results_{name}': name
        for name in (
            'articulate', 'belief', 'caution', 'csvgd', 'dual', 'identify', 'learned', 'peers',
            'real', 'robustness', 'track', 'video',
        )
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize('folder', STUDIES)
def test_a_page_is_that_of_its_published_rows(folder, tmp_path, monkeypatch):
    pictures = [ROOT / 'docs' / folder / f'{name}.png' for name in _articulations(folder)]
    monkeypatch.setattr(plots, 'write_joint_pictures', lambda *_: pictures)  # from runs, not rows
    monkeypatch.setattr(Figure, 'savefig', lambda *_, **__: None)
    study = importlib.import_module(f'benchmarks.studies.{STUDIES[folder]}').STUDY
    rows = [config.build(study.row, row, folder) for row in published.rows(folder)]
    cells = ()
    if study.name == 'paper':  # its page lists the settings of tasks
        pytest.importorskip('gymnasium', reason='the extra `tasks` is not installed')
        cells = study.cells(study.select()).cells
    page = study.page(Results(rows, tmp_path, cells))
    text = pages.fill(page.template or study.name, page.values)
    committed, _, origin = published.text(f'docs/{folder}.md').partition(pages.ORIGIN)
    assert f'emppi bench {study.name}' in origin
    assert committed.replace(f']({folder}/', '](').strip() == text.strip()


def test_the_published_estimators_are_the_whole_campaign(monkeypatch):
    monkeypatch.setattr(worlds, 'unavailable', lambda _: '')  # Drake need not be installed
    study = importlib.import_module('benchmarks.studies.belief').STUDY
    wanted, skipped = study.cells(study.select())
    rows = published.rows('results_belief')
    assert len(rows) == len(wanted) and not skipped
    assert {cell.key for cell in wanted} == {
        tuple(row[n] for n in wanted[0].identity) for row in rows
    }


def _articulations(folder):
    return dict.fromkeys(
        re.findall(r'/(articulation_\w+)\.png', published.text(f'docs/{folder}.md'))
    )
