"""A study is one module, one page and one line in the registry."""

import argparse
from dataclasses import dataclass
import json
import sys
from types import SimpleNamespace

import pytest

from benchmarks import pages, runner
from benchmarks.study import Axis, Cells, Computed, Page, Run, Study, computed, grouped
from emppi_ros.cli import bench, main, output
from emppi_ros.core.errors import ConfigError

PAGE = """# Coins

{heads} heads.

## Each toss

{tosses}

## Lost coins

They are here if there are any.

{lost}
"""


@dataclass(frozen=True)
class Toss(Run):
    coin: str
    seed: int


@dataclass(frozen=True)
class TossCell(Toss):
    digest: str = 'a'


@dataclass(frozen=True)
class TossRow(Toss, Computed):
    heads: bool


class CoinStudy(Study):
    name, help, description = 'coin', 'toss coins', 'Toss coins.'
    row = TossRow
    axes = {'coins': Axis('coin', ('penny', 'dime'))}
    seeds = range(4)
    quick, outdated_by, parallel = 'one toss', 'coins', False
    computed = 0

    def cells(self, selection):
        names = selection.names['coins']
        return Cells([TossCell(name, seed) for seed in selection.seeds for name in names])

    @staticmethod
    def compute(cell):
        CoinStudy.computed += 1
        return TossRow(**computed(cell, 0.0), heads=cell.seed % 2 == 0)

    def page(self, results):
        heads = sum(row.heads for row in results.rows)
        tosses = [f'- {coin}: {len(rows)}' for coin, rows in grouped(results.rows, 'coin').items()]
        values = {'heads': heads, 'tosses': tosses, 'lost': []}
        table = (('coin', 'seed'), [row.key for row in results.rows])
        return Page(values, {'table.csv': table}, (), [f'{heads} heads'], {'heads': heads})


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Register the study; return its command."""
    (tmp_path / 'coin.md').write_text(PAGE)
    module = SimpleNamespace(STUDY=CoinStudy())
    monkeypatch.setitem(sys.modules, 'benchmarks.studies.coin', module)
    monkeypatch.setattr(bench, 'STUDIES', (*bench.STUDIES, 'coin'))
    monkeypatch.setattr(pages, 'TEMPLATES', tmp_path)
    monkeypatch.setattr(CoinStudy, 'computed', 0)
    return ['bench', 'coin', '--out', str(tmp_path / 'out')]


def test_a_study_computes_what_is_missing_and_writes_its_page(command, tmp_path, capsys):
    assert main([*command, '--seeds', '2', '--coins', 'dime', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['heads'] == 1
    assert main([*command, '--seeds', '2']) == 0
    assert CoinStudy.computed == 4 and '2 heads' in capsys.readouterr().out
    text = (tmp_path / 'out' / runner.PAGE).read_text()
    assert text.startswith('# Coins\n\n2 heads.\n\n## Each toss\n\n- penny: 2\n\n- dime: 2\n')
    assert 'Lost coins' not in text  # all of its values are empty
    assert text.index('## Each toss') < text.index(pages.ORIGIN) < text.index('emppi bench coin')
    assert (tmp_path / 'out' / 'table.csv').read_text().split() == [
        'coin,seed', 'penny,0', 'dime,0', 'penny,1', 'dime,1',
    ]  # fmt: skip


def test_a_cell_and_its_row_have_the_same_key():
    cell = TossCell('dime', 3)
    assert cell.key == CoinStudy().compute(cell).key == ('dime', 3)


def test_unknown_names_are_errors_that_name_the_option():
    with pytest.raises(ConfigError, match=r"--coins: unknown coin 'dyme' \(did you mean 'dime'"):
        CoinStudy().select(coins=['dyme'])


def test_seeds_are_a_count_or_a_range():
    assert output.seeds('3') == range(3)
    assert output.seeds('50-59') == range(50, 60)
    assert list(output.seeds('7-7')) == [7]
    for text in ('0', '-3', '9-5', '1-2-3', '1-', 'x'):
        with pytest.raises(argparse.ArgumentTypeError, match=repr(text)):
            output.seeds(text)
