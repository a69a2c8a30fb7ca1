"""The table of several runs: what ended each, and z of its parameters."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from emppi_ros.cli import demo, main, run_table
from emppi_ros.core.errors import EmppiError


def _summary(**values):
    parameters = {'mass': {'mean': 0.4, 'sd': 0.05, 'true': 0.3}}
    return {'success': False, 'time_s': 5.0, 'parameters': parameters, **values}


@pytest.mark.parametrize(
    ('values', 'end'),
    [
        ({'success': True, 'faults': [(1.0, 'late')], 'diverged': 3}, 'success'),
        ({}, 'time limit'),
        ({'diverged': 3}, 'time limit; 3 rollouts diverged'),
        ({'faults': [(1.0, 'no plan'), (2.0, 'joint 2 jumps')]}, 'fault: joint 2 jumps'),
        ({'bridge_fault': 'held: joint 2 jumps'}, 'fault: held: joint 2 jumps'),
        ({'bridge_fault': ''}, 'time limit'),
        (
            {'bridge_fault': '', 'deadline_misses': 0.8},
            'time limit; this machine plans too slowly: 80% of the plans missed their deadline',
        ),
        (
            {'bridge_fault': 'no plan', 'bridge_fault_code': 'plan-late', 'deadline_misses': 0.9},
            'fault: no plan; this machine plans too slowly: 90% of the plans missed their '
            'deadline',
        ),
        (
            {'bridge_fault': 'no plan', 'bridge_fault_code': 'plan-late', 'deadline_misses': 0.1},
            'fault: no plan',
        ),
        (
            {'bridge_fault': 'held', 'bridge_fault_code': 'residual', 'late_measurements': 0.6},
            'fault: held; this machine is too slow for the belief: it skipped 60% of the '
            'measurements, to use new ones in time; use fewer particles',
        ),
        (
            {'bridge_fault': 'held', 'bridge_fault_code': 'residual', 'late_measurements': 0.4},
            'fault: held',
        ),
        (
            {'bridge_fault': 'jump', 'bridge_fault_code': 'state-jump', 'late_measurements': 0.6},
            'fault: jump',
        ),
    ],
)
def test_every_run_has_an_end(values, end):
    assert run_table.describe_end(_summary(**values)) == end


def test_an_error_ends_its_own_run_only():
    def fail():
        raise EmppiError('the planner ended')

    rows = [run_table.compute_row(1, fail), run_table.compute_row(2, _summary)]
    totals = run_table.total(rows)
    assert (totals['successes'], totals['of'], totals['median_time_s']) == (0, 2, None)
    assert totals['rms_z'] == {'mass': pytest.approx(2.0)}
    head, failed, ended, last, _ = run_table.table(rows, totals, {})
    assert head.split() == ['seed', 'success', 'time_s', 'z', 'mass', 'ended']
    assert failed.split() == ['1', 'no', '-', '-', 'error:', 'the', 'planner', 'ended']
    assert ended.split() == ['2', 'no', '5.00', '+2.00', 'time', 'limit']
    assert last.split() == ['all', '0/2', '-', '2.00']


def test_runs_without_any_result_are_a_table():
    rows = [{**run_table.compute_row(0, lambda: _summary(parameters={})), 'time_s': np.nan}]
    assert run_table.table(rows, run_table.total(rows), {})[1].split()[:3] == ['0', 'no', '-']


def test_demos_are_repeated_for_each_seed_and_tabulated(monkeypatch, capsys, tmp_path):
    calls = []

    def run_demo(_task, _duration, seed, folder, *_):
        calls.append((seed, folder))
        if len(calls) == 2:
            raise EmppiError('the graph did not start')
        return _summary(success=seed == 3, deadline_misses=0.012, bridge_holds=2), None

    graph = SimpleNamespace(run_demo=run_demo)
    monkeypatch.setattr(demo.extras, 'load_node_module', lambda _: graph)
    command = ['demo', 'panda_push', '--seeds', '3-4', '--repeat', '2', '--out', str(tmp_path)]
    assert main(command) == 0
    names = ['seed_3_0', 'seed_3_1', 'seed_4_0', 'seed_4_1']
    assert calls == [(int(name[5]), tmp_path / name) for name in names]
    _, first, failed, *_, last, _ = capsys.readouterr().out.splitlines()
    assert first.split() == ['3', 'yes', '5.00', '+2.00', '1.2', '2', 'success']
    assert failed.endswith('-  error: the graph did not start')
    assert last.split()[:2] == ['all', '1/4']
    assert main(['demo', 'panda_push', '--seed', '3', '--repeat', '2', '--json']) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row['ended'] for row in result['runs']] == ['success', 'success']
    assert calls[4:] == [(3, None), (3, None)]


def test_a_machine_on_which_a_real_arm_would_have_stopped_is_a_warning():
    late = {'deadline_misses': 0.8, 'bridge_fault_code': ''}
    (warning,) = run_table.warnings(_summary(**late))
    assert 'too slowly for a real arm: 80% of the plans' in warning
    assert run_table.warnings(_summary(**{**late, 'deadline_misses': 0.1})) == []
    assert run_table.warnings(_summary(**{**late, 'bridge_fault_code': 'plan-late'})) == []
