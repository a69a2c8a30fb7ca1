"""Cells, rows and pages of `emppi bench identify`."""

import json

import pytest

from benchmarks.identify.cells import Family
from benchmarks.identify.families import FAMILIES
from benchmarks.studies.identify import STUDY
from benchmarks.study import Axis, Results
from emppi_ros.cli import main
from emppi_ros.core.errors import IdentificationError


@pytest.fixture
def family(monkeypatch):
    """Register a family of two methods; one of them fails with odd seeds, and refuses seed 2."""

    def measure(case, method, seed):
        if seed == 2 and method == 'plain':
            raise IdentificationError('no motion')
        return {} if seed % 2 and method == 'plain' else {'error': 1.0 + (method == 'plain')}

    made = Family(
        'two methods', ('slow',), {'new': 'the new one', 'plain': ''}, {'error': 'error [m]'},
        measure, (('new', 'error'),), ('plain',), ('benchmarks/identify/families.py',),
    )  # fmt: skip
    monkeypatch.setitem(FAMILIES, 'regression', made)
    monkeypatch.setitem(STUDY.axes, 'methods', Axis('method'))  # also those of the dummy
    return made


def rows(seeds):
    chosen = STUDY.select(seeds, families=['regression'], methods=['new', 'plain'])
    return [STUDY.compute(cell) for cell in STUDY.cells(chosen).cells]


@pytest.mark.usefixtures('family')
def test_a_new_family_has_cells_claims_and_tables(tmp_path):
    page = STUDY.page(Results(rows([0, 4]), tmp_path))
    assert list(page.lines) == [
        'regression: error [m]: `new` -50 to -50 % against the best baseline that never fails, '
        'in 1 cases.'
    ]
    assert '| `new` | 1 (1 to 1) |' in page.values['regression'][1]
    assert page.values['regression_methods'] == '- `new`: the new one.'


@pytest.mark.usefixtures('family')
def test_failures_and_refusals_are_on_the_page_and_end_a_comparison(tmp_path):
    page = STUDY.page(Results(rows([0, 1, 2]), tmp_path))
    assert list(page.lines) == ['regression: Failed: `plain` in 2 of 3 runs.']
    assert '2, 2 of 3 failed' in page.values['regression'][1]
    assert '- slow, `plain`, seed 2: no motion' in page.values['regression'][-1]


def test_all_methods_of_a_family_have_cells_and_others_have_none():
    cells = STUDY.cells(STUDY.select(range(3), families=['regression'])).cells
    family = FAMILIES['regression']
    assert len(cells) == 3 * len(family.cases) * len(family.methods)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)


def test_the_command_keeps_rows_and_writes_a_page(tmp_path, capsys):
    command = ['bench', 'identify', '--quick', '--families', 'regression', '--methods', 'OLS']
    for reused in (0, 1):
        assert main([*command, 'stepwise', '--json', '--jobs', '1', '--out', str(tmp_path)]) == 0
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert result['runs'] == 2 and result['reused'] == 2 * reused
    assert all(0.0 < row['values']['clean'] < 1.0 for row in result['rows'])
    page = (tmp_path / 'results.md').read_text()
    assert '`stepwise`' in page and '0 redundant' in page
