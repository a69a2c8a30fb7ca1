"""Cells: what is run, and when a row is outdated."""

import dataclasses

import pytest

from benchmarks.robustness import cells
from benchmarks.robustness.cells import RobustnessRequest, make_cells
from benchmarks.robustness.rows import RobustnessRow
from emppi_ros.calibration.row_store import RowStore
from emppi_ros.core.errors import ConfigError


def test_cells_differ_and_come_seed_by_seed() -> None:
    found, skipped = make_cells(RobustnessRequest(('panda_push',), ('tilt', 'size'), seeds=(4, 7)))
    assert len({cell.key for cell in found}) == len(found) and not skipped
    seeds = [cell.seed for cell in found]
    assert seeds == sorted(seeds) and set(seeds) == {4, 7}


def test_a_quick_run_starts_the_graph_once() -> None:
    found, _ = make_cells(
        RobustnessRequest(('panda_push',), ('load', 'size'), quick=True, seeds=(0,))
    )
    values = {(cell.sweep, cell.values) for cell in found}
    assert sum(sweep == 'load' for sweep, _ in values) == 1 < len(values)


def test_a_sweep_that_does_not_apply_is_left_out_with_the_reason() -> None:
    found, skipped = make_cells(RobustnessRequest(('cartpole_swingup',), ('size', 'tilt')))
    assert {cell.sweep for cell in found} == {'tilt'}
    assert skipped == ['cartpole_swingup, size: the task has no free object']


def test_a_change_of_the_belief_outdates_only_what_learns(monkeypatch, make_row, tmp_path) -> None:
    found, _ = make_cells(RobustnessRequest(('panda_push',), ('tilt',), seeds=(0,)))
    store = RowStore(tmp_path, RobustnessRow)
    for cell in found:
        same = {
            f.name: getattr(cell, f.name) for f in dataclasses.fields(cell) if f.name != 'text'
        }
        store.append(make_row(**same, digest=cell.digest))
    assert len(RowStore(tmp_path, RobustnessRow).finished(found)) == len(found)
    monkeypatch.setattr(cells, 'code_digest', lambda _name: 'another')
    assert {row.controller for row in store.finished(found)} == {cells.ORACLE}


@pytest.mark.parametrize(
    ('request_', 'words'),
    [
        (RobustnessRequest(sweeps=('slope',)), "--sweeps: unknown sweep 'slope'"),
        (RobustnessRequest(controllers=('mppi',)), "--controllers: unknown controller 'mppi'"),
    ],
)
def test_an_unknown_name_is_an_error(request_: RobustnessRequest, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_cells(request_)
