"""Summaries of synthetic rows, the report and its plots."""

import math
from pathlib import Path

import pytest

from benchmarks import means, runner
from benchmarks.belief import summary, worlds
from benchmarks.belief.runs import BeliefRow, ParameterSeries
from benchmarks.belief.scores import ParameterScores
from benchmarks.studies.belief import BeliefStudy
from benchmarks.study import Results
from emppi_ros.calibration.report import Provenance

ORIGIN = Provenance('emppi bench belief', 'today', {'processor': 'one'})


def make_row(seed: int, recovered_s: float | None, **fields: object) -> BeliefRow:
    """Return a row of a run in which a mass jumps from 1 to 2 kg at 1 s."""
    scores = ParameterScores(
        inside_50=0.5, inside_90=0.8 + 0.02 * seed, mean_square_z=4.0, crps=0.25,
        log_score=-float(seed), found_s=0.1, changes=True, recovered_s=recovered_s, true=2.0,
        mean=1.8, sd=0.1, low=1.6, high=2.1, unit='kg',
    )  # fmt: skip
    series = ParameterSeries((1.0, 2.0), (1.1, 1.8), (0.9, 1.6), (1.3, 2.1))
    values = {
        'task': 'slider', 'world': worlds.JUMP, 'estimator': 'emppi', 'seed': seed, 'digest': '',
        'success': seed % 2 == 0, 'time_s': 1.0 + seed, 'limit_s': 9.0, 'updates': 2,
        'update_ms': 3.0, 'degenerate': 0, 'misfit_s': None, 'scores': {'mass': scores},
        'times': (0.0, 2.0),
        'series': {'mass': series}, 'compute_s': 60.0, 'made_by': 'a test',
    }  # fmt: skip
    return BeliefRow(**{**values, **fields})


@pytest.fixture
def made() -> list[BeliefRow]:
    """Return seven runs of one estimator, and one of another that observes."""
    ours = [make_row(seed, None if seed == 3 else 0.5 + 0.5 * seed) for seed in range(7)]
    return [*ours, make_row(0, 0.1, estimator='ukf', success=None, time_s=None)]


def test_a_group_has_the_means_medians_and_shares_of_its_runs(made: list[BeliefRow]) -> None:
    ours, ukf = summary.summarize(made)
    assert (ours.estimator, ours.runs, ukf.estimator, ukf.runs) == ('emppi', 7, 'ukf', 1)
    assert ours.scores is not None
    assert ours.scores.inside_90.mean == pytest.approx(0.86)
    assert ours.scores.rms_z.rms == 2.0
    assert ours.scores.log_score.median == -3.0
    assert (ours.scores.inside_end.count, ours.scores.inside_end.total) == (7, 7)
    assert ours.success is not None and (ours.success.count, ours.success.total) == (4, 7)
    assert ours.time_s is not None and ours.time_s.median == 7.0  # three are infinite
    assert ours.recovered['mass'].soon.count == 3  # 0.5, 1.0 and 1.5 s
    assert ours.recovered['mass'].time_s.median == 2.5
    assert ours.recovered['mass'].time_s.high == math.inf
    assert ukf.success is None and ukf.time_s is None


def test_updates_without_a_counted_time_leave_no_scores() -> None:
    none = dict.fromkeys(('inside_50', 'inside_90', 'mean_square_z', 'crps', 'log_score'))
    row = make_row(0, None)
    early = ParameterScores(**{**vars(row.scores['mass']), **none})
    (group,) = summary.summarize([make_row(0, None, scores={'mass': early})])
    assert group.scores is None and group.recovered['mass'].time_s.median == math.inf


def test_the_report_has_every_number_and_every_plot(made: list[BeliefRow], tmp_path: Path) -> None:
    study = BeliefStudy()
    results = Results(made, tmp_path, [None] * 20)
    runner.write(study, results, ORIGIN, ['slider, drake: not installed'])
    text = (tmp_path / runner.PAGE).read_text()
    for words in (
        'emppi bench belief', '8 of 20 runs, 8.0 minutes', 'slider, drake: not installed',
        '| jump | emppi | 7 | 50 % (50-50) | 86 % (83-89) | 2 (2 to 2) |', 'FilterPy',
        '| jump | change | mass | emppi | 2.5 (0.5 to inf) | 3/7 (',
    ):  # fmt: skip
        assert words in text
    pictures = {path.name for path in tmp_path.glob('*.png')}
    assert pictures == {'coverage_slider.png', 'recovery_slider.png', 'series_jump_slider.png'}
    assert all(f']({name})' in text for name in pictures)
    header, *lines = (tmp_path / 'scores.csv').read_text().splitlines()
    assert header.startswith('task,world,estimator,seed,parameter,inside_50') and len(lines) == 8


def test_numbers_for_json_have_the_rates_of_shares(made: list[BeliefRow]) -> None:
    plain = means.plain(summary.summarize(made)[0])
    assert plain['success']['rate'] == 4 / 7
    assert plain['recovered']['mass']['soon']['count'] == 3
