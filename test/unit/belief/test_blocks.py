"""Blocks of a belief learn each from their own evidence, and from nothing else."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.belief import blocks, distributions, particles
from emppi_ros.belief.blocks import Block
from emppi_ros.belief.resampling import ResamplingConfig
from emppi_ros.core.errors import ConfigError, DegenerateWeightsError, SceneError
from emppi_ros.model.parameters import Parameter

PARAMETERS = [Parameter(f'p{i}', 'body_ipos', 'b', 0) for i in range(3)]
BLOCKS = [Block((0, 2), (0, 1)), Block((1,), (2,))]
CONFIG = ResamplingConfig(shrinkage=0.995, tempering=0.5)
COUNT = 4000


def _evidence(theta, truth, sd=0.05):
    """Return what three degrees of freedom say, each of one parameter alone."""
    order = [0, 2, 1]
    return -0.5 * ((theta[:, order] - truth[order]) / sd) ** 2


def test_each_block_finds_its_own_parameters(rng):
    truth = np.array([1.0, -0.5, 0.3])
    theta = rng.standard_normal((COUNT, 3))
    for _ in range(60):
        theta, size = blocks.update(
            CONFIG,
            PARAMETERS,
            BLOCKS,
            particles.uniform(theta),
            _evidence(theta, truth),
            rng,
        )
        # each update leaves half of the sample size, or all that it says is heard
        assert size >= 0.45 * COUNT
    # 60 looks of sd 0.05 leave 0.0065; the mean of 4000 particles is far surer than that
    np.testing.assert_allclose(theta.mean(axis=0), truth, atol=0.01)
    assert np.all(theta.std(axis=0) < 0.02)


def test_a_block_that_hears_nothing_keeps_mean_and_spread(rng):
    theta = rng.standard_normal((COUNT, 3))
    silent = np.zeros((COUNT, 3))
    silent[:, 2] = -0.5 * (theta[:, 1] / 0.1) ** 2
    after, _ = blocks.update(CONFIG, PARAMETERS, BLOCKS, particles.uniform(theta), silent, rng)
    for i in (0, 2):
        # jitter of sd 0.1 in 4000 particles: five standard errors of mean and spread
        assert after[:, i].mean() == pytest.approx(theta[:, i].mean(), abs=5 * 0.1 / 63)
        assert after[:, i].std() == pytest.approx(theta[:, i].std(), rel=5 * 0.1 / 63)
    assert after[:, 1].std() < 0.9 * theta[:, 1].std()


def test_one_block_of_all_is_an_update_of_all(rng):
    theta = rng.standard_normal((50, 3))
    evidence = _evidence(theta, np.zeros(3), sd=1.0)
    config = dataclasses.replace(CONFIG, tempering=None)
    together, _ = blocks.update(
        config,
        PARAMETERS,
        [Block((0, 1, 2), (0, 1, 2))],
        particles.uniform(theta),
        evidence,
        np.random.default_rng(1),
    )
    belief = particles.reweight(particles.uniform(theta), evidence.sum(axis=1))
    drawn, _ = particles.draw(config, PARAMETERS, belief, np.random.default_rng(1))
    assert np.array_equal(together, drawn.theta)


def test_evidence_that_leaves_nobody_is_an_error(rng):
    with pytest.raises(DegenerateWeightsError):
        lost = np.full((9, 3), -np.inf)
        blocks.update(CONFIG, PARAMETERS, BLOCKS, particles.uniform(np.zeros((9, 3))), lost, rng)


@pytest.mark.parametrize(
    ('entries', 'match'),
    [
        ([{'parameters': ['mas'], 'by': ['x']}], r"blocks\[0\]: parameters: unknown .*'mas'"),
        (
            [{'parameters': ['mass'], 'by': ['y']}],
            r"by: 'y' is not one of `objects`: unknown joint",
        ),
        (
            [{'parameters': ['mass'], 'by': ['x']}] * 2,
            "parameter 'mass' is in 2 blocks, expected 1",
        ),
    ],
)
def test_blocks_that_make_no_sense_are_errors(make_task, task_data, entries, match):
    data = task_data('slider')
    data['belief']['blocks'] = entries
    with pytest.raises((ConfigError, SceneError), match=match):
        make_task('slider', data)


def test_a_task_with_blocks_learns_in_them(make_task, task_data):
    data = task_data('slider')
    data['belief']['blocks'] = [{'parameters': ['mass'], 'by': ['x']}]
    task = make_task('slider', data)
    assert task.blocks == (Block((0,), (0,)),)
    assert distributions.sample(
        task.parameters, task.priors, 2, np.random.default_rng(0)
    ).shape == (2, 1)
