"""Runs on a loaded machine: what a graph says becomes a row, and the load ends with it."""

import subprocess
import sys

import pytest

from benchmarks.paper.cells import LEARNER
from benchmarks.robustness import load, plots, runs
from benchmarks.robustness.runs import RobustnessCell
from benchmarks.robustness.sweeps import SWEEPS
from benchmarks.studies import robustness
from benchmarks.studies.robustness import RobustnessStudy
from emppi_ros.core.errors import EmppiError
from emppi_ros.tasks.task import load_task


def make_cells(seed: int) -> list[RobustnessCell]:
    """Return the runs of a seed."""
    study = RobustnessStudy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(robustness, '_why_no_graph', str)
        return study.cells(study.select((seed,), sweeps=('load',))).cells


@pytest.fixture(scope='module')
def cell() -> RobustnessCell:
    """Return a run with half a busy process per core."""
    return make_cells(3)[0]


def test_only_the_planner_that_learns_runs_as_a_graph() -> None:
    assert {one.controller for one in make_cells(0)} == {LEARNER}


def test_what_the_graph_says_becomes_the_row(cell: RobustnessCell) -> None:
    said = {
        'success': True, 'time_s': 4.0, 'bridge_fault_code': '', 'deadline_misses': 0.25,
        'bridge_holds': 2,
    }  # fmt: skip
    asked = []

    def run(*arguments: object) -> tuple[dict, None]:
        asked.append(arguments)
        return said, None

    row = load._run(cell, run)
    assert asked == [('panda_push', 20.0, 3)]
    assert (row.success, row.time_s, row.missed, row.holds) == (True, 4.0, 0.25, 2)
    assert row.key == cell.key and row.digest == cell.digest


def test_a_graph_that_does_not_start_is_a_run_without_success(cell: RobustnessCell) -> None:
    def run(*_: object) -> tuple[dict, None]:
        raise EmppiError('the graph did not start within 60 s')

    row = load._run(cell, run)
    assert (row.success, row.fault, row.time_s) == (False, load.NO_RUN, row.limit_s)
    (group,) = runs.summarize([row])
    assert group.late is group.held is None and group.faults == {load.NO_RUN: 1}


def test_the_report_shows_late_plans(make_row, tmp_path) -> None:
    rows = [
        make_row(sweep='load', values=(busy,), seed=seed, missed=0.1 * busy, holds=seed)
        for busy in (0.0, 2.0)
        for seed in range(2)
    ]
    groups = runs.summarize(rows)
    assert [group.late.median for group in groups] == [0.0, 20.0]
    line = robustness._load_line(groups[1])
    assert line[0] == '2' and line[3] == '20 %' and str(line[4]).startswith('1/2')
    (picture,) = plots.write_all(groups, {'panda_push': load_task('panda_push')}, tmp_path)
    assert picture.path.exists()


def test_busy_processes_end_with_the_context() -> None:
    with load.busy_processes(2) as burners:
        assert [burner.poll() for burner in burners] == [None, None]
    assert all(burner.poll() is not None for burner in burners)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='real-time priority of Linux')
def test_without_the_permission_no_child_gets_real_time_priority() -> None:
    ask = 'import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))'
    code = (
        'from benchmarks.robustness import load; import subprocess, sys; '
        f'load.forbid_real_time_priority(); subprocess.run([sys.executable, "-c", {ask!r}])'
    )
    said = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert 'PermissionError' in said.stderr
    assert not SWEEPS['load_normal_priority'].real_time_priority
