"""The held-out part is forecast from the end of the rest."""

from dataclasses import replace

import numpy as np
import pytest

from emppi_ros.bench.identify import pendulums
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.motion import Motion
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.states import method
from emppi_ros.tasks.task import load_task


@pytest.fixture(scope='module')
def swing():
    """Return a cart-pole, its parameters, and its motion over 150 steps."""
    plant, theta = Plant.from_task(load_task('cartpole_swingup')), np.array([0.31, 0.022])
    qpos, ctrl = pendulums.simulate(
        plant, theta, [0.0, np.pi], 150, lambda data: [5.0 * np.sin(4.0 * data.time)]
    )
    return plant, theta, Motion(qpos, np.ones_like(qpos), ctrl, np.zeros_like(qpos))


def test_the_forecast_with_true_parameters_is_exact(swing):
    plant, theta, motion = swing
    known, later = method.split(motion, 0.2)
    assert (known.steps, later.steps) == (120, 30)
    found = method.forecast(plant, np.array([theta, 1.5 * theta]), known, later)
    assert found.shape == (2, 30, 2)
    # the last velocity is a difference: rounding over the time step, which grows by the step
    np.testing.assert_allclose(found[0], later.qpos, atol=1e-9)
    assert np.abs(found[1] - later.qpos).max() > 1e-3


def test_external_forces_act_like_the_actuator(swing):
    plant, theta, motion = swing
    pushed = replace(
        motion,
        ctrl=np.zeros_like(motion.ctrl),
        applied=np.column_stack([motion.ctrl[:, 0], np.zeros(len(motion.ctrl))]),
    )
    found = method.forecast(plant, theta[None], *method.split(pushed, 0.2))
    np.testing.assert_allclose(found[0], motion.qpos[120:], atol=1e-9)


def test_a_too_large_share_is_an_error(swing):
    with pytest.raises(IdentificationError, match='99.000% held out of 150 steps leaves 2, exp'):
        method.split(swing[2], 0.99)


def test_nothing_held_out_gives_an_empty_forecast(swing):
    plant, theta, motion = swing
    known, later = method.split(motion, 0.0)
    assert (known.steps, later.steps) == (150, 0)
    assert method.forecast(plant, theta[None], known, later).shape == (1, 0, 2)
