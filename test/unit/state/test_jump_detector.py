"""A jump is what neither velocities nor the usual noise explain."""

import numpy as np
import pytest

from emppi_ros.model.ensemble import State
from emppi_ros.state.estimator import JumpDetector
from emppi_ros.tasks.task import load_task


def test_motion_that_velocities_explain_is_no_jump():
    model = load_task('cartpole_swingup').model
    here = State(np.zeros(2), np.zeros(2))
    detector = JumpDetector(model)
    assert not detector.update(0.02, here, State(np.array([0.0, 0.04]), np.array([0.0, 2.0])))
    assert detector.update(0.02, here, State(np.array([0.0, 3.0]), np.array([0.0, 2.0])))


@pytest.mark.parametrize('sd', [0.001, 0.03, 0.1])
def test_noise_is_no_jump_and_a_reset_is_one(sd):
    model, rng = load_task('fr3_follow').model, np.random.default_rng(0)
    detector, rest, turned = JumpDetector(model), np.zeros(model.nq), 1.5 * np.ones(model.nq)
    states = [State(rest + sd * rng.standard_normal(model.nq), np.zeros(model.nv))
              for _ in range(2000)]  # fmt: skip
    found = [detector.update(0.02, a, b) for a, b in zip(states, states[1:], strict=False)]
    # the noise is unknown at first; later, 7 joints x 2000 x P(6 sd) is 3e-5
    assert not any(found[20:])
    # a robot that was reset is found even if that happens again and again
    moved = [s._replace(qpos=s.qpos + turned) for s in states[:3]]
    for before, after in zip(states[:3], moved, strict=True):
        assert detector.update(0.02, before, after)
