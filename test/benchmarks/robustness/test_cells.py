"""Cells: what is run, and when a row is outdated."""

import pytest

from benchmarks.paper.cells import ORACLE
from benchmarks.robustness import runs
from benchmarks.robustness.runs import RobustnessRow
from benchmarks.row_store import RowStore
from benchmarks.studies import robustness
from benchmarks.studies.robustness import RobustnessStudy
from emppi_ros.core.errors import ConfigError

STUDY = RobustnessStudy()


def test_cells_differ_and_come_seed_by_seed() -> None:
    found, skipped = STUDY.cells(STUDY.select((4, 7), sweeps=('tilt', 'size')))
    assert len({cell.key for cell in found}) == len(found) and not skipped
    seeds = [cell.seed for cell in found]
    assert seeds == sorted(seeds) and set(seeds) == {4, 7}


def test_a_quick_run_starts_the_graph_once(monkeypatch) -> None:
    monkeypatch.setattr(robustness, '_why_no_graph', str)
    found, _ = STUDY.cells(STUDY.select((0,), quick=True, sweeps=('load', 'size')))
    values = {(cell.sweep, cell.values) for cell in found}
    assert sum(sweep == 'load' for sweep, _ in values) == 1 < len(values)


def test_a_sweep_that_does_not_apply_is_left_out_with_the_reason() -> None:
    found, skipped = STUDY.cells(
        STUDY.select(tasks=('cartpole_swingup',), sweeps=('size', 'tilt'))
    )
    assert {cell.sweep for cell in found} == {'tilt'}
    assert skipped == ['cartpole_swingup, size: the task has no free object']


def test_a_change_of_the_belief_outdates_only_what_learns(monkeypatch, make_row, tmp_path) -> None:
    found, _ = STUDY.cells(STUDY.select((0,), sweeps=('tilt',)))
    store = RowStore(tmp_path, RobustnessRow)
    for cell in found:
        store.append(make_row(**cell.identity, digest=cell.digest))
    assert len(RowStore(tmp_path, RobustnessRow).finished(found)) == len(found)
    monkeypatch.setattr(runs, 'belief_digest', lambda _name: 'another')
    assert {row.controller for row in store.finished(found)} == {ORACLE}


@pytest.mark.parametrize(
    ('names', 'words'),
    [
        ({'sweeps': ('slope',)}, "--sweeps: unknown sweep 'slope'"),
        ({'controllers': ('mppi',)}, "--controllers: unknown controller 'mppi'"),
    ],
)
def test_an_unknown_name_is_an_error(names: dict[str, tuple[str, ...]], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        STUDY.select(**names)
