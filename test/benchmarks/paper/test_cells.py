"""Cells, their seeds, and the text that describes each completely."""

import pytest

from benchmarks.paper import cells
from benchmarks.paper.cells import Request, changed, make_cells
from benchmarks.studies.paper import PaperStudy
from emppi_ros.core.errors import ConfigError
from emppi_ros.tasks.task import parse_task, task_text

TASK = ('cartpole_swingup',)
PAIR = ('emppi', 'mppi-true')


def test_every_cell_is_there_once_and_half_of_them_compare_too():
    found = make_cells(
        Request(('cartpole_swingup', 'panda_push'), PAIR, (cells.SUCCESS,), range(3))
    )
    assert len({cell.key for cell in found}) == len(found) == 2 * 2 * 3
    assert [cell.seed for cell in found] == [0] * 4 + [1] * 4 + [2] * 4


def test_the_panda_has_twenty_seeds_and_others_ten():
    counts = {name: len(cells.seeds_of(Request(), name)) for name in cells.TASKS}
    assert all(n == (20 if name.startswith('panda') else 10) for name, n in counts.items())
    assert set(cells.seeds_of(Request(seeds=range(7)), 'panda_push')) == set(range(7))


@pytest.mark.parametrize(
    ('names', 'words'),
    [
        ({'tasks': ('cartpol',)}, ["'cartpol'", "did you mean 'cartpole_swingup'"]),
        ({'controllers': ('pid',)}, ['--controllers', "'pid'", 'mppi-true']),
        ({'controllers': ('mppi-nominal',)}, ['--controllers', 'emppi']),
        ({'studies': ('sucess',)}, ['--studies', "did you mean 'success'"]),
    ],
)
def test_unknown_names_are_errors_that_list_the_known_ones(names, words):
    with pytest.raises(ConfigError) as error:
        study = PaperStudy()
        study.cells(study.select(**names))
    for word in words:
        assert word in str(error.value)


def test_a_task_without_a_wrong_model_is_an_error():
    with pytest.raises(ConfigError, match='fr3_follow.*mppi-wrong.*simulation: wrong'):
        make_cells(Request(('fr3_follow',), ('mppi-wrong',)))


def test_changes_are_merged_and_nothing_else_changes():
    text = task_text('cartpole_swingup')
    before, after = parse_task(text), parse_task(changed(text, {'planner': {'models': 2}}))
    assert after.planner.models == 2 and after.planner.rollouts == before.planner.rollouts
    assert after.parameters == before.parameters and after.belief == before.belief
    twice = changed(changed(text, {'duration_s': 1.0}), {'duration_s': 2.0})
    assert twice == changed(text, {'duration_s': 2.0})


def test_the_digest_depends_on_the_settings_only():
    full, again = (make_cells(Request(TASK, PAIR, (cells.SUCCESS,), range(1))) for _ in range(2))
    quick = make_cells(Request(TASK, PAIR, (cells.SUCCESS,), range(1), quick=True))
    assert [c.key for c in full] == [c.key for c in quick]
    assert [c.digest for c in full] == [c.digest for c in again]
    assert {c.digest for c in full}.isdisjoint({c.digest for c in quick})


def test_the_studies_of_the_cart_pole_come_with_it_alone():
    found = make_cells(Request(TASK, PAIR, seeds=range(2)))
    ablated = [c for c in found if c.study == cells.ABLATION]
    sizes = {(m, k) for m in cells.ABLATION_MODELS for k in cells.ABLATION_ROLLOUTS}
    assert {(c.models, c.rollouts) for c in ablated} == sizes and len(ablated) == 2 * len(sizes)
    for cell in ablated:
        planner = parse_task(cell.text).planner
        assert (planner.models, planner.rollouts) == (cell.models, cell.rollouts)
    assert sum(c.study == cells.CALIBRATION for c in found) == cells.CALIBRATION_RUNS >= 100
    other = make_cells(Request(('panda_drawer',), PAIR, seeds=range(2)))
    assert {c.study for c in other} == {cells.SUCCESS}


@pytest.mark.slow
def test_measures_of_risk_are_compared_at_the_same_size_and_seeds():
    found = make_cells(Request(cells.RISK_TASKS, PAIR, (cells.RISK,)))
    seeds = range(cells.RISK_SEEDS)
    assert [(c.task, c.controller, c.seed) for c in found] == [
        (task, name, s) for s in seeds for task in cells.RISK_TASKS for name in cells.MEASURES
    ]
    for cell in found:
        planner, own = parse_task(cell.text).planner, parse_task(task_text(cell.task)).planner
        size = (planner.models, planner.rollouts)
        assert size == (cell.models, cell.rollouts) == tuple(cells.RISK_SIZE.values())
        assert planner.risk == cell.controller and planner.risk_level is None
        assert (planner.temperature, planner.horizon) == (own.temperature, own.horizon)
    few = make_cells(Request(('panda_push',), PAIR, (cells.RISK,), seeds=range(2)))
    assert len(few) == 2 * len(cells.MEASURES)


def test_learning_has_longer_runs_of_the_learner_alone():
    pytest.importorskip('gymnasium', reason='the extra `tasks` is not installed')
    names = ('halfcheetah_backflip', 'cartpole_swingup')
    found = make_cells(Request(names, PAIR, (cells.LEARNING,), range(3)))
    assert [(c.task, c.controller, c.seed) for c in found] == [
        ('halfcheetah_backflip', 'emppi', seed) for seed in range(3)
    ]
    assert parse_task(found[0].text).file.duration_s == 10.0  # 500 control steps
    assert make_cells(Request(names, PAIR[1:], (cells.LEARNING,))) == []
    (quick,) = make_cells(Request(names, PAIR, (cells.LEARNING,), range(1), quick=True))
    assert parse_task(quick.text).file.duration_s == cells.QUICK_S
