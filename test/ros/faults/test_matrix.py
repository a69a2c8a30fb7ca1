"""Every row of the matrix has a state, and names tests that exist."""

import ast
from pathlib import Path

from faultlab import matrix, rows
import pytest

ROOT = Path(__file__).resolve().parents[3]
NUMBERS = [
    *(f'P{i}' for i in range(1, 11)), *(f'B{i}' for i in range(1, 8)),
    *(f'S{i}' for i in range(1, 7)), *(f'C{i}' for i in range(1, 4)),
    *(f'N{i}' for i in range(1, 5)),
    *(f'L{i}' for i in range(1, 6)), *(f'Y{i}' for i in range(1, 4)),
    *(f'X{i}' for i in range(1, 4)), *(f'A{i}' for i in range(1, 5)),
]  # fmt: skip


def test_the_matrix_has_all_rows_once():
    assert [row.number for row in rows.ROWS] == NUMBERS


@pytest.mark.parametrize('row', rows.ROWS, ids=lambda row: row.number)
def test_a_row_names_tests_that_exist_or_says_why_there_are_none(row):
    assert row.tests or row.not_run
    for test in row.tests:
        name, _, function = test.partition('::')
        path = ROOT / name
        assert path.is_file(), f'{row.number}: no {name}'
        names = [n.name for n in ast.walk(ast.parse(path.read_text())) if hasattr(n, 'name')]
        wanted = function.split('[')[0]
        assert any(n.startswith(wanted) for n in names), f'{row.number}: no {test}'


@pytest.mark.parametrize('outcome', ['passed', 'failed', 'skipped', None])
def test_a_row_always_has_a_state(outcome):
    for row in rows.ROWS:
        tests = {}
        if outcome and row.tests:
            tests = {f'{row.tests[0]}_x': {'outcome': outcome, 'reason': 'Skipped: why'}}
        words = matrix.state(row, tests)
        expected = outcome if tests else 'not run'
        assert words.removeprefix('**').startswith(expected)
        assert row.number in matrix.render(tests, 'make faults')


def test_what_failed_in_any_phase_failed():
    class Report:
        nodeid, user_properties, longrepr = 'a', [('count', 3)], ('', 1, 'Skipped: x')

        def __init__(self, outcome):
            self.outcome = outcome

    collector = matrix.Collector()
    for outcome in ('passed', 'failed', 'passed'):
        collector.pytest_runtest_logreport(Report(outcome))
    assert collector.tests['a']['outcome'] == 'failed' and collector.tests['a']['count'] == 3
