"""A measurement that no particle explains ends neither the run nor the belief."""

import numpy as np
import pytest

from emppi_ros.belief import likelihood
from emppi_ros.session.closed_loop import ClosedLoop
from emppi_ros.tasks.task import load_task


@pytest.mark.parametrize('name', ['cartpole_swingup', 'shadow_dice'])
def test_half_of_the_particles_are_drawn_from_the_prior_again(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    loop = ClosedLoop(load_task(name), 0)
    before = loop.filter.belief.theta
    calls = []

    def nobody(_config, predicted, _found):
        calls.append(1)
        return np.full_like(predicted.qvel, -np.inf)

    monkeypatch.setattr(likelihood, 'log_likelihoods', nobody)
    trace = loop.run(0.1)
    assert trace.degenerate == len(calls) > 1
    after = loop.filter.belief
    assert np.all(after.theta[1::2] == before[1::2])
    assert not np.any(after.theta[::2] == before[::2])
    assert np.ptp(after.log_weights) == 0.0
    assert loop.robot.time == pytest.approx(0.1)
