"""Cells: what is run, in which order, and when a row is outdated."""

from collections.abc import Callable
import dataclasses
from pathlib import Path

import pytest

from benchmarks.belief import compute, estimators, worlds
from benchmarks.belief.runs import BeliefCell, BeliefRow, belief_digest
from benchmarks.row_store import RowStore, complete
from benchmarks.studies.belief import BeliefStudy
from emppi_ros.core import config
from emppi_ros.core.errors import ConfigError


def test_code_of_beliefs_counts_only_with_a_belief() -> None:
    digests = {name: belief_digest(name) for name in estimators.ESTIMATORS}
    assert digests[estimators.TRUTH] == digests[estimators.PRIOR] == ''
    assert digests[estimators.EMPPI] != digests[estimators.UKF] != ''


def test_the_frozen_filter_differs_in_nothing_but_its_belief(
    make_cells: Callable[..., list[BeliefCell]],
) -> None:
    ours, frozen = (
        config.parse(cell.text, 'task') for cell in make_cells(estimators.EMPPI, estimators.FROZEN)
    )
    assert frozen.pop('belief') != ours.pop('belief')
    assert frozen == ours


def test_cells_come_seed_by_seed(make_cells: Callable[..., list[BeliefCell]]) -> None:
    made = make_cells(estimators.EMPPI, estimators.TRUTH, seeds=(3, 5))
    assert [cell.seed for cell in made] == [3, 3, 5, 5]


def test_estimators_that_observe_share_the_run_of_the_particle_filter(
    make_cells: Callable[..., list[BeliefCell]],
) -> None:
    loops = {cell.estimator: cell.shared_run for cell in make_cells(*estimators.ESTIMATORS)}
    observing = {name for name, kind in estimators.ESTIMATORS.items() if not kind.in_loop}
    assert {name for name in loops if loops[name] == loops[estimators.EMPPI]} == {
        estimators.EMPPI, *observing,
    }  # fmt: skip
    assert len(set(loops.values())) == len(loops) - len(observing)


def test_worlds_that_are_left_out_are_named_with_the_reason() -> None:
    study = BeliefStudy()
    both = worlds.CONSTANT, worlds.DRAKE
    made, skipped = study.cells(study.select((0,), tasks=('cartpole_swingup',), worlds=both))
    assert {cell.world for cell in made} == {worlds.CONSTANT}
    assert skipped == ['cartpole_swingup, drake: not defined for this task']


@pytest.mark.parametrize(
    ('names', 'words'),
    [
        ({'estimators': ('ukv',)}, "unknown estimator 'ukv' (did you mean 'ukf'?)"),
        ({'worlds': ('jumps',)}, "unknown world 'jumps' (did you mean 'jump'?)"),
    ],
)
def test_unknown_names_are_errors(names: dict[str, tuple[str, ...]], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        BeliefStudy().select(**names)
    assert words in str(error.value)


@pytest.mark.slow
def test_rows_resume_and_equal_those_of_one_go(
    make_cells: Callable[..., list[BeliefCell]], tmp_path: Path
) -> None:
    names = estimators.EMPPI, estimators.FROZEN, estimators.UKF
    wanted = make_cells(*names, duration_s=0.4, seeds=(0, 1))
    given: list[BeliefCell] = []

    def work(missing: list[BeliefCell]) -> list[BeliefRow]:
        given.extend(missing)
        return [row for cell in missing for row in compute.compute([cell])]

    first = complete(RowStore(tmp_path, BeliefRow), wanted[:2], work)
    rows = complete(RowStore(tmp_path, BeliefRow), wanted, work)
    assert given == wanted and rows[:2] == first
    assert complete(RowStore(tmp_path, BeliefRow), wanted, work) == rows and given == wanted

    def result(row: BeliefRow) -> BeliefRow:
        """Return a row without its computing times."""
        return dataclasses.replace(row, compute_s=0.0, update_ms=None)

    assert [result(row) for row in rows] == [
        result(row) for cell in wanted for row in compute.compute([cell])
    ]
