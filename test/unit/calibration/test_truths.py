"""Truths come from the prior, and some from beyond it."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from emppi_ros.calibration import runs
from emppi_ros.core.errors import BenchError
from emppi_ros.tasks.task import Task, load_task

RUNS = 400


def test_one_run_in_four_has_one_parameter_beyond_the_prior_but_within_its_bounds() -> None:
    task = load_task('cartpole_swingup')
    drawn = runs.draw_truths(task, RUNS, 0)
    of_prior = task.prior.sample(10_000, np.random.default_rng(1))
    counts = dict.fromkeys(('', *(p.name for p in task.parameters)), 0)
    for one in drawn:
        counts[one.beyond] += 1
        for i, parameter in enumerate(task.parameters):
            value = one.values[parameter.name]
            assert parameter.lower <= value <= parameter.upper
            # quantiles of two samples of 10 000 differ by less than 0.01 in probability
            if one.beyond == parameter.name:
                below = (of_prior[:, i] < value).mean()
                assert below < 0.06 or below > 0.94
    assert counts == {'': 300, 'pole_mass': 50, 'pole_inertia': 50}


def test_the_others_are_distributed_as_the_prior() -> None:
    drawn = [
        one for one in runs.draw_truths(load_task('cartpole_swingup'), RUNS, 0) if not one.beyond
    ]
    masses = [one.values['pole_mass'] for one in drawn]
    assert stats.kstest(masses, stats.uniform(0.05, 0.55).cdf).pvalue > 1e-3  # with a fixed seed


def test_the_same_seed_draws_the_same_truths() -> None:
    task = load_task('cartpole_swingup')
    assert (
        runs.draw_truths(task, 8, 1)
        == runs.draw_truths(task, 8, 1)
        != runs.draw_truths(task, 8, 2)
    )


def test_a_task_without_uncertain_parameters_is_an_error(
    make_task: Callable[..., Task], task_data: Callable[..., dict]
) -> None:
    data = task_data('slider')
    for one in data['parameters'].values():
        one['prior'] = {'distribution': 'fixed', 'value': 2.0}
    with pytest.raises(BenchError, match='no uncertain parameter whose interval can be judged'):
        runs.draw_truths(make_task('slider', data), 4, 0)
