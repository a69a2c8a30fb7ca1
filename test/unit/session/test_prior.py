"""A run that starts from a prior's file."""

import numpy as np
import pytest

from emppi_ros.belief import prior_file
from emppi_ros.belief.distributions import Prior
from emppi_ros.belief.prior_file import ParameterPrior, PriorFile
from emppi_ros.session.closed_loop import ClosedLoop, summarize
from emppi_ros.session.particle_filter import ParticleFilter


@pytest.fixture
def known(tmp_path):
    """Return the path of a prior whose mass is one of two."""
    path = tmp_path / 'known.yaml'
    values = ParameterPrior('kg', values=(1.25, 2.5))
    prior_file.write(path, PriorFile('test', (), {'mass': values}, (3.0, 1.0)))
    return str(path)


def test_a_filter_starts_from_the_file_and_returns_to_it(make_task, known):
    task = make_task('slider').with_prior(known)
    belief = ParticleFilter(task, np.random.default_rng(0))
    for _ in range(2):
        # 12 particles, by systematic resampling, of weights 3/4 and 1/4
        assert sorted(belief.belief.theta[:, 0]) == [1.25] * 9 + [2.5] * 3
        belief.reset()


def test_the_task_itself_stays_as_it_was(make_task, known):
    task = make_task('slider')
    before = task.prior.sample(5, np.random.default_rng(0))
    assert task.with_prior(known).prior.file == known
    assert np.array_equal(task.prior.sample(5, np.random.default_rng(0)), before)


def test_a_run_tells_where_its_belief_began(make_task, known):
    loop = ClosedLoop(make_task('slider').with_prior(known), 0)
    loop.run(0.2, stop_at_success=False)
    assert summarize(loop, 'emppi', 0)['prior'] == known


def test_a_controller_of_the_priors_mean_takes_the_files(make_task, known):
    loop = ClosedLoop(make_task('slider').with_prior(known), 0, 'mppi-mean')
    # by systematic resampling of 10 000: one off at most
    assert loop.planner.ensemble.theta[0, 0] == pytest.approx(1.5625, abs=1.25 / 1e4)


def test_a_parametric_file_gives_the_draws_that_the_task_with_this_prior_gives(
    make_task, task_data, tmp_path
):
    prior = {'distribution': 'normal', 'mean': 1.1, 'sd': 0.3}
    path = tmp_path / 'known.yaml'
    prior_file.write(
        path, PriorFile('test', (), {'mass': ParameterPrior('kg', prior=Prior(**prior))})
    )
    data = task_data('slider')
    data['parameters']['mass']['prior'] = prior
    first, second = (
        task.prior.sample(20, np.random.default_rng(3))
        for task in (make_task('slider').with_prior(str(path)), make_task('slider', data))
    )
    assert np.array_equal(first, second)
