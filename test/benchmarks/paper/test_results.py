"""The report has its provenance and every plot that has data."""

from dataclasses import replace
import itertools

import imageio.v2 as imageio
import numpy as np
import pytest

from benchmarks import runner
from benchmarks.paper import cells, plots
from benchmarks.paper.cells import AttemptResult, EstimateSeries, ParameterEstimate
from benchmarks.paper.summary import summarize
from benchmarks.studies.paper import PAPER, PaperStudy, settings_lines
from benchmarks.study import Results
from emppi_ros.calibration import report
from emppi_ros.calibration.report import Provenance
from emppi_ros.tasks.task import parse_task

ORIGIN = Provenance('emppi bench paper --seeds 2', '2020-01-27 12:00 UTC', {'processor': 'abacus'})


def write(folder, rows, origin=ORIGIN, wanted=()):
    """Write the report; return the page."""
    study = PaperStudy()
    runner.write(study, Results(rows, folder, wanted), origin)
    return (folder / runner.PAGE).read_text()


@pytest.fixture
def rows(make_row):
    """Return rows of every study, as random as real ones."""
    rng = np.random.default_rng(0)
    tried = (AttemptResult(1.0, True, False), AttemptResult(2.5, False, True))
    found = []
    for task, scale in (('first_task', 1.0), ('second_task', 20.0)):
        for seed in range(4):
            for name in cells.CONTROLLERS:
                times = tuple(np.linspace(0.0, rng.uniform(3.0, 9.0), 30))
                errors = tuple(np.exp(-np.array(times)) * rng.uniform(1.0, 3.0, 30))
                found.append(
                    make_row(
                        task=task,
                        seed=seed,
                        controller=name,
                        time_s=rng.uniform(1.0, 10.0),
                        success=bool(rng.random() < 0.7),
                        errors=errors,
                        plan_ms=scale,
                        course=EstimateSeries(times, errors, {'mass': errors}),
                        attempts=tried if task == 'second_task' else (),
                    )  # fmt: skip
                )
    sizes = [(m, k) for m in cells.ABLATION_MODELS for k in cells.ABLATION_ROLLOUTS]
    for m, k in sizes:
        hit = bool(rng.random() < 0.5)
        found.append(
            make_row(study=cells.ABLATION, models=m, rollouts=k, success=hit, task=cells.STUDIED)
        )
    for seed, name in itertools.product(range(3), cells.MEASURES):
        hit, time_s = bool(rng.random() < 0.5), rng.uniform(1.0, 10.0)
        found.append(
            make_row(study=cells.RISK, controller=name, seed=seed, success=hit, time_s=time_s)
        )
    found += [make_row(study=cells.LEARNING, seed=seed) for seed in range(3)]
    for seed in range(10):
        mass = ParameterEstimate(1.0 if rng.random() < 0.9 else 3.0, 1.5, 0.4, 0.9, 2.1, 'kg')
        found.append(make_row(study=cells.CALIBRATION, seed=seed, parameters={'mass': mass}))
    return found


@pytest.mark.slow
def test_every_plot_is_written_and_shown(rows, tmp_path):
    summary = summarize(rows)
    pictures = plots.write_all(rows, summary, tmp_path)
    assert {path.stem for path in pictures} == {
        'success', 'plan_time', 'regret', 'squared_error', 'estimates_first_task',
        'estimates_second_task', 'goals', 'learning',
    }  # fmt: skip
    text = write(tmp_path, rows)
    for path in pictures:
        picture = imageio.imread(path)
        assert min(picture.shape[:2]) > 150 and picture[..., :3].std() > 5.0  # not blank
        assert f']({path.name})' in text


@pytest.mark.slow
@pytest.mark.parametrize('study', cells.STUDIES)
def test_of_a_single_study_those_plots_are_written_that_it_has_numbers_for(rows, tmp_path, study):
    tried = (AttemptResult(0.5, True, False), AttemptResult(2.0, False, False))
    found = [replace(row, attempts=tried) for row in rows if row.study == study]
    summary = summarize(found)
    pictures = plots.write_all(found, summary, tmp_path)
    assert write(tmp_path, found)
    assert ('goals' in {path.stem for path in pictures}) == (study == cells.SUCCESS)


@pytest.mark.slow
def test_the_report_has_its_provenance_and_every_number(rows, tmp_path):
    summary = summarize(rows)
    text = write(tmp_path, rows)
    for words in (
        *ORIGIN[:2],
        'abacus',
        'M = 16',
        'K = 4',
        'Calibration',
        'its estimates converge',
    ):
        assert words in text
    for shares in summary.success.values():
        for share in shares.values():
            assert f'| {share} |' in text
    outcomes = [f'{one.success}; {one.time_s:.2f}' for one in summary.risk['slider'].values()]
    assert f'| slider | {" | ".join(outcomes)} |' in text
    assert '| task | none | mean | cvar | worst |' in text
    assert '8 models x 8 rollouts' in text and 'their candidates: 8 instead of 64' in text
    assert 'holds**' in text and 'not evidence' not in text and 'Not all rows' not in text


@pytest.mark.slow
def test_settings_are_listed_beside_those_of_the_paper(make_row, tmp_path):
    request = cells.Request(
        ('panda_drawer', 'cartpole_swingup'), ('emppi',), (cells.SUCCESS,), range(2)
    )
    wanted = cells.make_cells(request)
    lines = {tuple(line[:2]): line[2:] for line in settings_lines(wanted)}
    # the paper has no swing-up of a cart-pole
    assert set(lines) == {
        ('panda_drawer', 'paper'), ('panda_drawer', 'here'), ('cartpole_swingup', 'here'),
    }  # fmt: skip
    assert lines['panda_drawer', 'paper'] == [20, 10, 2, '1', '0.8', '0.01']
    task = parse_task(wanted[0].text)
    ours = lines['panda_drawer', 'here']
    assert ours[2] == task.planner.rollouts and ours[4] == f'{task.planner.temperature:g}'
    sd = task.belief.likelihood.object_position_sd_m
    assert f'{sd**2:.2g} (object positions)' in ours[5] and 'joint' not in ours[5]
    text = write(tmp_path, [], wanted=wanted)
    assert 'Table I' in text and '| panda_drawer | paper | 20 | 10 | 2 |' in text


def test_all_tasks_of_table_i_are_in_the_benchmark():
    assert set(PAPER) < set(cells.TASKS)


def test_a_quick_run_and_rows_of_several_machines_are_marked(make_row, tmp_path):
    rows = [make_row(), make_row(seed=1, made_by='another')]
    quick = ORIGIN._replace(quick=True)
    text = write(tmp_path, rows, quick)
    assert 'not evidence' in text and '- 1 by another' in text


def test_nothing_is_drawn_without_rows(tmp_path):
    assert plots.write_all([], summarize([]), tmp_path) == []
    assert write(tmp_path, [])


def test_one_run_of_one_controller_is_enough_for_a_report(make_row, tmp_path):
    rows = [make_row(course=EstimateSeries((0.0,), (0.0,), {'mass': (1.0,)}), errors=(0.0,))]
    pictures = plots.write_all(rows, summarize(rows), tmp_path)
    assert {path.stem for path in pictures} == {
        'success', 'plan_time', 'squared_error', 'estimates_slider',
    }  # fmt: skip


def test_the_machine_is_described():
    found = report.describe_machine()
    assert {'processor', 'cores', 'memory', 'Python', 'MuJoCo', 'NumPy', 'commit'} <= set(found)
    assert all(isinstance(value, str) and value for value in found.values())
    assert report.machine_label().startswith('emppi_ros ')
