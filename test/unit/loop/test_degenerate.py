"""A belief update that no particle explains ends neither the run nor the belief."""

import numpy as np
import pytest

from emppi_ros.belief import likelihood
from emppi_ros.loop.closed_loop import ClosedLoop
from emppi_ros.tasks.task import load_task


def test_a_run_goes_on_when_no_particle_explains_a_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = ClosedLoop(load_task('cartpole_swingup'), 0)
    before = loop.filter.belief
    monkeypatch.setattr(
        likelihood, 'log_likelihood', lambda *_: np.full(len(before.theta), -np.inf)
    )
    trace = loop.run(0.2)
    assert trace.degenerate > 0
    assert loop.filter.belief is before
    assert loop.robot.time == pytest.approx(0.2)
