"""The held-out part is forecast from the end of the rest, and a prior agrees with it."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.identify import pendulums
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.states import forecast, method
from emppi_ros.identification.states.estimation import estimate
from emppi_ros.identification.states.solver import SolverConfig
from emppi_ros.recordings.motion import Motion, split
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
    known, later = split(motion, 0.2)
    assert (known.steps, later.steps) == (120, 30)
    found = forecast.forecast(plant, np.array([theta, 1.5 * theta]), known, later)
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
    found = forecast.forecast(plant, theta[None], *split(pushed, 0.2))
    np.testing.assert_allclose(found[0], motion.qpos[120:], atol=1e-9)


def test_a_too_large_share_is_an_error(swing):
    with pytest.raises(IdentificationError, match='99.000% held out of 150 steps leaves 2, exp'):
        split(swing[2], 0.99)


def test_nothing_held_out_gives_an_empty_forecast(swing):
    plant, theta, motion = swing
    known, later = split(motion, 0.0)
    assert (known.steps, later.steps) == (150, 0)
    assert forecast.forecast(plant, theta[None], known, later).shape == (1, 0, 2)


NOISE = 3e-4  # rad, m


@pytest.fixture(scope='module')
def fitted():
    """Return the fit of four fifths of a noisy motion over 400 steps, and its two parts."""
    plant, theta = Plant.from_task(load_task('cartpole_swingup')), np.array([0.31, 0.022])
    qpos, ctrl = pendulums.simulate(
        plant, theta, [0.0, np.pi], 400, lambda data: [5.0 * np.sin(4.0 * data.time)]
    )
    qpos = qpos + NOISE * np.random.default_rng(0).standard_normal(qpos.shape)
    parts = split(Motion(qpos, np.ones_like(qpos), ctrl, np.zeros_like(qpos)), 0.2)
    return parts, estimate(plant, parts[0], SolverConfig())


def test_a_prior_of_the_true_model_agrees_with_its_forecast(fitted):
    parts, result = fitted
    prior = method.draw_prior(result, [parts], 3.0, 0)
    assert prior.spread == 3.0 and prior.notes(3.0) == []


def biased(result, shift):
    """Return a result whose parameters are off by some standard deviations."""
    solution = result.solution
    theta = solution.theta + shift * result.uncertainty.sd
    return result._replace(solution=solution._replace(theta=theta))


def test_a_prior_that_its_forecast_contradicts_is_widened_until_it_does_not(fitted):
    parts, result = fitted
    prior = method.draw_prior(biased(result, 100.0), [parts], 3.0, 0)
    assert prior.missed_before and not prior.missed
    # 100 standard deviations are at least three of the wider prior less than 33
    assert prior.spread >= 6.0
    assert (
        f'the prior has {prior.spread / 3.0:g} times its standard deviations'
        in (prior.notes(3.0)[0])
    )
    wide = method.draw_samples(result, prior.spread, 0)
    np.testing.assert_allclose(prior.samples.std(axis=0), wide.std(axis=0), rtol=0.1)


@pytest.mark.slow
def test_a_forecast_that_no_spread_explains_is_told(fitted):
    (known, later), result = fitted
    shifted = known, replace(later, qpos=later.qpos + 0.5)
    prior = method.draw_prior(result, [shifted], 3.0, 0)
    assert set(prior.missed) == {'slider', 'hinge'} and prior.spread == 3.0
    assert 'no prior is written' in prior.notes(3.0)[0]
