"""Summaries of rows, and verdicts on claims."""

import dataclasses
import json

import numpy as np
import pytest

from benchmarks.paper import cells, claims
from benchmarks.paper.summary import (
    ErrorReduction,
    as_json,
    coverage,
    error_reduction,
    regret,
    summarize,
)
from emppi_ros.calibration.statistics import share
from emppi_ros.cli.output import to_json


def _shares(**counts):
    """Return a summary of 20 runs for each controller on one task."""
    found = {
        name.replace('_', '-'): share([True] * n + [False] * (20 - n))
        for name, n in counts.items()
    }
    learnt = ErrorReduction(1.0, 0.01, share([True]))
    return summarize([])._replace(success={'task': found}, fall={'task': learnt})


def test_regret_is_paired_by_seed_whatever_the_order(make_row):
    times = {0: (3.0, 2.0), 1: (10.0, 1.0), 2: (4.5, 4.0)}
    ours = [make_row(seed=seed, time_s=ours) for seed, (ours, _) in times.items()]
    oracle = [make_row(seed=seed, time_s=best) for seed, (_, best) in reversed(times.items())]
    found = regret(ours, oracle)
    assert found.mean == pytest.approx(10.5 / 3, rel=1e-12)  # rounding
    assert regret(ours[::-1], oracle).mean == found.mean
    assert regret(ours, ours)[:3] == (0.0, 0.0, 0.0)
    assert regret([*ours, make_row(seed=7, time_s=9.0)], oracle) == found  # a seed without oracle
    assert regret(ours, []) is None


def test_the_squared_error_is_judged_at_its_medians(make_row):
    found = error_reduction(
        [make_row(errors=pair) for pair in ((1.0, 0.1), (4.0, 0.2), (9.0, 90.0))]
    )
    assert (found.start, found.end, found.ratio) == (4.0, 0.2, 0.05)
    assert (found.fallen.count, found.fallen.total) == (2, 3)
    assert np.isnan(error_reduction([make_row(errors=(0.0, 0.0))]).ratio)  # nothing to learn


def test_coverage_counts_the_true_values_inside(make_row):
    inside = make_row()
    beyond = dataclasses.replace(inside.parameters['mass'], true=5.0)
    found = coverage([inside, make_row(parameters={'mass': beyond}), inside])
    assert (found['mass'].count, found['mass'].total) == (2, 3)
    assert coverage([]) == {}


@pytest.mark.parametrize(
    ('counts', 'claim', 'holds'),
    [
        ({'emppi': 18}, 'succeeds from the first run', True),
        ({'emppi': 17}, 'succeeds from the first run', False),
        ({'emppi': 18, 'mppi_true': 20}, 'succeeds like the oracle', True),
        ({'emppi': 17, 'mppi_true': 20}, 'succeeds like the oracle', False),
        ({'emppi': 20, 'mppi_true': 10}, 'succeeds like the oracle', True),
        ({'emppi': 18, 'mppi_wrong': 4}, 'succeeds where a wrong model fails', True),
        ({'emppi': 4, 'mppi_wrong': 4}, 'succeeds where a wrong model fails', False),
    ],
)
def test_a_claim_holds_at_its_bound_and_not_beyond(counts, claim, holds):
    verdicts = {v.claim: v for v in claims.judge(_shares(**counts))}
    assert verdicts[claim].holds == holds
    assert verdicts[claim].words == ('holds' if holds else 'does not hold')
    assert '/20' in verdicts[claim].numbers


def test_with_consecutive_targets_attempts_are_compared():
    runs = _shares(emppi=20, mppi_true=20, mppi_wrong=20)
    tried = _shares(emppi=12, mppi_true=16, mppi_wrong=8).success['task']
    found = {v.claim: v.holds for v in claims.judge(runs._replace(attempts={'task': tried}))}
    assert found['succeeds from the first run'] and not found['succeeds like the oracle']
    assert found['succeeds where a wrong model fails']
    assert 'succeeds where a wrong model fails' not in {v.claim for v in claims.judge(runs)}


@pytest.mark.parametrize(('shares', 'holds'), [((0.951, 1.0), True), ((0.95, 1.0), False)])
def test_a_joints_type_is_known_if_every_run_knows_it(make_row, shares, holds):
    rows = [make_row(right_kind=share, seed=i) for i, share in enumerate((*shares, None))]
    found = summarize(rows).kinds['slider']
    assert (found.known.total, found.least, found.still) == (2, shares[0], 1)
    (verdict,) = (v for v in claims.judge(summarize(rows)) if 'type after 2 cm' in v.claim)
    assert verdict.holds == holds
    assert f'{found.known}' in verdict.numbers and '1 other' in verdict.numbers


@pytest.mark.parametrize(('times', 'holds'), [((4.0,) * 9 + (4.02,), True), ((4.02,) * 2, False)])
def test_a_backflip_is_to_take_200_control_steps_in_nine_of_ten_runs(make_row, times, holds):
    rows = [
        make_row(task='halfcheetah_backflip', seed=i, time_s=time, period_ms=20.0)
        for i, time in enumerate(times)
    ]
    (verdict,) = (v for v in claims.judge(summarize(rows)) if '200 control steps' in v.claim)
    assert verdict.holds == holds and f'/{len(times)}' in verdict.numbers
    failed = make_row(task='halfcheetah_backflip', success=False, period_ms=20.0)
    assert summarize([failed]).in_steps['halfcheetah_backflip'].count == 0


@pytest.mark.parametrize(('left', 'holds'), [(0.05, True), (0.06, False)])
def test_learning_runs_are_judged_by_their_final_error(make_row, left, holds):
    rows = [make_row(study=cells.LEARNING, errors=(1.0, left), limit_s=4.0, period_ms=10.0)]
    found = summarize(rows)
    assert found.learning['slider'][1:] == (4.0, 400) and not found.success and not found.fall
    (verdict,) = claims.judge(found)
    assert verdict.claim == 'its squared error falls by 95 % within 4 s, 400 steps'
    assert verdict.holds == holds
    assert json.loads(to_json(as_json(found)))['learning']['slider']['fall']['end'] == left


def test_a_joint_that_never_moved_or_is_not_open_is_not_judged(make_row):
    assert summarize([make_row()]).kinds == {}
    others = [make_row(right_kind=1.0, controller='no-update'), make_row()]
    assert summarize(others).kinds == {}


def test_studies_that_were_not_run_are_not_judged():
    assert claims.judge(_shares(mppi_true=20)) == []
    found = {v.claim for v in claims.judge(_shares(emppi=20, mppi_wrong=18))}
    assert found == {
        'succeeds from the first run',
        'its estimates converge',
    }  # wrong, but it works


@pytest.mark.parametrize(('count', 'holds'), [(80, True), (79, False), (97, True), (98, False)])
def test_calibration_is_judged_from_80_to_97_percent(count, holds):
    found = {'mass': share([True] * count + [False] * (100 - count))}
    (verdict,) = claims.judge_calibration(_shares()._replace(calibration=found))
    assert verdict.holds == holds


def test_a_summary_has_every_study_and_is_json(make_row):
    rows = [
        *(make_row(seed=s, controller=c) for s in (0, 1) for c in ('emppi', 'mppi-true')),
        make_row(study=cells.CALIBRATION, controller='filter', plan_ms=None),
        make_row(study=cells.ABLATION, models=4, rollouts=1, success=False),
        *(
            make_row(study=cells.RISK, controller='worst', seed=s, success=s > 0, time_s=t)
            for s, t in enumerate((10.0, 2.0, 3.0))
        ),
    ]
    found = json.loads(to_json(as_json(summarize(rows))))
    assert found['success']['slider']['emppi']['count'] == 2
    assert set(found['regret_s']['slider']) == {'emppi'}
    assert found['squared_error']['slider']['ratio'] == 0.25
    assert found['calibration']['mass']['rate'] == 1.0
    assert found['kind_of_joint'] == {}
    assert found['ablation'] == [
        {'models': 4, 'rollouts': 1, 'rate': 0.0, **dataclasses.asdict(share([False]))}
    ]
    outcome = {'rate': 2 / 3, 'time_s': 3.0, **dataclasses.asdict(share([False, True, True]))}
    assert found['risk'] == {'slider': {'worst': outcome}}


def test_no_rows_give_an_empty_summary():
    assert not any(summarize([])) and claims.judge(summarize([])) == []
