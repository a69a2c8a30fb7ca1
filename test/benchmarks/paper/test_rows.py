"""An interrupted benchmark resumes and computes nothing twice."""

import csv
import dataclasses

import pytest

from benchmarks import row_store
from benchmarks.paper.cells import AttemptResult, Cell, Row
from benchmarks.row_store import RowStore, complete
from benchmarks.studies import paper
from emppi_ros.core.errors import BenchError

CELLS = [
    Cell('success', 'slider', controller, seed, 'name: slider')
    for seed in range(3)
    for controller in ('emppi', 'mppi-true')
]


@pytest.fixture
def counting(make_row):
    """Return a function that computes rows without any run, and the cells that it was given."""
    given = []

    def compute(cells):
        for cell in reversed(cells):  # workers finish in any order
            given.append(cell)
            yield make_row(cell, time_s=float(len(given)))

    return compute, given


def test_a_row_survives_the_round_trip_through_json(make_row, tmp_path):
    tried = (AttemptResult(0.5, True, False), AttemptResult(1.25, False, True))
    row = make_row(attempts=tried, plan_ms=None, time_s=0.1 + 0.2)
    RowStore(tmp_path, Row).append(row)
    assert RowStore(tmp_path, Row).finished([row]) == [row]


def test_finished_rows_are_not_computed_again(tmp_path, counting):
    compute, given = counting
    first = complete(RowStore(tmp_path, Row), CELLS, compute)
    assert given == CELLS[::-1] and [row.key for row in first] == [cell.key for cell in CELLS]
    assert complete(RowStore(tmp_path, Row), CELLS, compute) == first and len(given) == len(CELLS)
    more = [*CELLS, Cell('success', 'slider', 'emppi', 9, 'name: slider')]
    assert complete(RowStore(tmp_path, Row), more, compute)[:-1] == first
    assert given[len(CELLS) :] == more[-1:]


def test_an_interrupted_benchmark_keeps_its_finished_rows(tmp_path, counting):
    compute, given = counting

    def stops(cells):
        for count, row in enumerate(compute(cells)):
            if count == 2:
                raise KeyboardInterrupt
            yield row

    kept = RowStore(tmp_path, Row)
    with pytest.raises(KeyboardInterrupt):
        complete(kept, CELLS, stops)
    assert len(kept.finished(CELLS)) == 2
    assert [row.time_s for row in RowStore(tmp_path, Row).finished(CELLS)] == [2.0, 1.0]
    given.clear()
    complete(RowStore(tmp_path, Row), CELLS, compute)
    assert given == CELLS[3::-1]


def test_an_incomplete_last_line_costs_only_its_own_cell(tmp_path, counting):
    compute, given = counting
    complete(RowStore(tmp_path, Row), CELLS[:3], compute)
    path = tmp_path / row_store.ROWS
    content = path.read_bytes()
    start = content.rstrip(b'\n').rfind(b'\n') + 1
    for cut in {start + 1, (start + len(content)) // 2, len(content) - 1}:
        path.write_bytes(content[:cut])
        given.clear()
        found = complete(RowStore(tmp_path, Row), CELLS[:3], compute)
        assert given == CELLS[:1]  # the last that was written
        assert RowStore(tmp_path, Row).finished(CELLS) == found  # and the new line is whole
    path.write_bytes(content)
    assert len(RowStore(tmp_path, Row).finished(CELLS)) == 3


def test_rows_of_another_task_file_are_recomputed_and_counted(tmp_path, counting):
    compute, given = counting
    complete(RowStore(tmp_path, Row), CELLS, compute)
    changed = [dataclasses.replace(c, text='name: other') if c.seed == 1 else c for c in CELLS]
    kept = RowStore(tmp_path, Row)
    assert kept.outdated(changed) == 2 and len(kept.finished(changed)) == len(CELLS) - 2
    given.clear()
    complete(kept, changed, compute)
    assert given == [c for c in changed[::-1] if c.seed == 1]
    again = RowStore(tmp_path, Row)
    assert again.outdated(changed) == 0 and len(again.finished(changed)) == len(CELLS)


@pytest.mark.parametrize('line', ['{"study": "success"}', '[]', 'no json', '{"a": NaN}'])
def test_an_invalid_line_is_named(tmp_path, counting, line):
    complete(RowStore(tmp_path, Row), CELLS[:1], counting[0])
    with (tmp_path / row_store.ROWS).open('a') as file:
        file.write(line + '\n')
    with pytest.raises(BenchError, match='rows.jsonl line 2: not a row .*remove the line'):
        RowStore(tmp_path, Row)


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(BenchError, match='--out .*cannot be used'):
        RowStore(tmp_path / 'file' / 'below', Row)


def test_tables_have_a_line_for_each_run_and_for_each_parameter(tmp_path, make_row):
    found = [make_row(cell) for cell in CELLS]
    for path in row_store.write_tables(tmp_path, paper._tables(found)):
        with path.open(newline='') as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == len(CELLS)  # of one parameter each
        assert [int(line['seed']) for line in lines] == [cell.seed for cell in CELLS]
    assert lines[0]['parameter'] == 'mass' and lines[0]['inside'] == 'True'
