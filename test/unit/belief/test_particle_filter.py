"""The particle filter starts from its prior, and returns to it where no particle fits."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.belief import measurement_model
from emppi_ros.belief.changes import ChangeDetector
from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.tasks.task import load_task


@pytest.mark.parametrize('name', ['cartpole_swingup', 'shadow_dice'])
def test_half_of_the_particles_are_drawn_from_the_prior_again(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if name == 'shadow_dice':
        pytest.importorskip('gymnasium_robotics', reason='the extra `tasks` is not installed')
    task = load_task(name)
    task.belief = dataclasses.replace(task.belief, changes=None)  # only reinjection moves them
    loop = ClosedLoop(task, 0)
    before = loop.filter.belief.theta
    calls = []

    def no_particle(_config, predicted, *_):
        calls.append(1)
        return np.full_like(predicted.qvel, -np.inf)

    monkeypatch.setattr(measurement_model, 'log_likelihoods', no_particle)
    trace = loop.run(0.1)
    assert trace.degenerate == len(calls) > 1
    after = loop.filter.belief
    assert np.all(after.theta[1::2] == before[1::2])
    assert not np.any(after.theta[::2] == before[::2])
    assert np.ptp(after.log_weights) == 0.0
    assert loop.robot.time == pytest.approx(0.1)


def test_a_filter_starts_from_a_prior_file_and_returns_to_it(make_task, prior_path):
    task = make_task('slider').with_prior(prior_path)
    belief = ParticleFilter(task, np.random.default_rng(0))
    for _ in range(2):
        # 12 particles, by systematic resampling, of weights 3/4 and 1/4
        assert sorted(belief.belief.theta[:, 0]) == [1.25] * 9 + [2.5] * 3
        belief.reset()


def test_blocks_undo_no_jumps(monkeypatch):
    pytest.importorskip('gymnasium_robotics', reason='the extra `tasks` is not installed')
    monkeypatch.setattr(ChangeDetector, 'undone', lambda _, theta: np.full_like(theta, np.nan))
    loop = ClosedLoop(load_task('shadow_dice'), 0)
    loop.run(0.1)
    assert np.isfinite(loop.filter.belief.theta).all()
