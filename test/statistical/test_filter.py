"""The particle filter agrees with a Kalman filter where one is exact, and learns in a scene."""

import dataclasses

import command_series
import mujoco
import numpy as np
import pytest

from emppi_ros.belief import measurement_model
from emppi_ros.belief.particle_filter import ParticleFilter
from emppi_ros.core import weights
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors import particles
from emppi_ros.priors.resampling import ResamplingConfig
from emppi_ros.state.estimator import Observation
from emppi_ros.tasks.schema import LikelihoodConfig

# A cart whose motor has an unknown gain: the velocity after a step of known force is linear in it.
CART = """
<mujoco><option timestep="0.01" gravity="0 0 0" integrator="Euler"/>
  <worldbody><body><joint name="x" type="slide"/><geom size="0.1" mass="1"/></body></worldbody>
  <actuator><motor name="x" joint="x"/></actuator>
</mujoco>
"""
GAIN = Parameter('gain', 'actuator_gain', 'x', lower=1e-3)
PRIOR_MEAN, PRIOR_SD, SD = 5.0, 0.5, 0.02
STEPS, COUNT = 25, 10_000


def _problem(seed):
    """Return forces, and measured velocity changes: y = gain * force * 0.01 + noise."""
    rng = np.random.default_rng(seed)
    forces = rng.normal(0.0, 2.0, STEPS)
    gain = rng.normal(PRIOR_MEAN, PRIOR_SD)
    return rng, forces, 0.01 * forces * gain + rng.normal(0.0, SD, STEPS)


def _kalman(forces, measured):
    """Return mean and sd of the gain after every measurement, by a scalar Kalman filter."""
    mean, variance, out = PRIOR_MEAN, PRIOR_SD**2, []
    for force, y in zip(forces, measured, strict=True):
        h = 0.01 * force
        k = variance * h / (h * variance * h + SD**2)
        mean, variance = mean + k * (y - h * mean), (1.0 - k * h) * variance
        out.append((mean, np.sqrt(variance)))
    return np.array(out)


def _conjugate(forces, measured):
    """Return the posterior of Bayesian linear regression, all measurements at once."""
    h = 0.01 * forces
    precision = 1.0 / PRIOR_SD**2 + h @ h / SD**2
    return (PRIOR_MEAN / PRIOR_SD**2 + h @ measured / SD**2) / precision, precision**-0.5


def _filter(seed, resampling):
    rng, forces, measured = _problem(seed)
    model = mujoco.MjModel.from_xml_string(CART)
    ensemble = Ensemble(model, [GAIN], COUNT)
    config = LikelihoodConfig(joint_velocity_sd=SD)
    belief = particles.uniform(rng.normal(PRIOR_MEAN, PRIOR_SD, (COUNT, 1)))
    out, resampled = [], 0
    rest = State(np.zeros(1), np.zeros(1))
    for force, y in zip(forces, measured, strict=True):
        ensemble.write(belief.theta)
        predicted = ensemble.predict(rest, np.array([[force]]), 0.01)
        seen = State(np.zeros(1), np.array([y]))
        found = measurement_model.deviations(config, model, predicted, seen)
        evidence = measurement_model.log_likelihoods(config, predicted, found)
        belief = particles.reweight(belief, evidence.sum(axis=1))
        belief, parents = particles.resample(resampling, [GAIN], belief, rng)
        resampled += parents is not None
        out.append(
            (
                weights.mean(belief.log_weights, belief.theta)[0],
                np.sqrt(weights.covariance(belief.log_weights, belief.theta)[0, 0]),
            )
        )
    return np.array(out), resampled, _kalman(forces, measured), _conjugate(forces, measured)


NEVER = ResamplingConfig(ess_fraction=1e-9)
OFTEN = ResamplingConfig(ess_fraction=0.9, shrinkage=0.98)


@pytest.mark.parametrize('seed', [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))])
@pytest.mark.parametrize('resampling', [NEVER, OFTEN], ids=['weights', 'liu-west'])
def test_the_filter_agrees_with_a_kalman_filter_on_a_linear_gaussian_problem(seed, resampling):
    ours, resampled, kalman, conjugate = _filter(seed, resampling)
    assert kalman[-1] == pytest.approx(conjugate, rel=1e-9)  # the oracle's own check
    # Importance sampling of n particles with effective size e estimates the mean with a standard
    # error of sd / sqrt(e) and the sd with sd / sqrt(2 e); e stays above a third of n here. Each
    # resampling adds as much again: errors add in squares over r + 1 of them. Four of these. The
    # logarithm's curvature over the jitter, (1 - 0.98^2) * (sd / mean)^2 / 2 of a mean, is 2e-4.
    error = 4.0 * np.sqrt((resampled + 1) * 3.0 / COUNT) * kalman[:, 1]
    curvature = resampled * 1e-3
    assert np.all(np.abs(ours[:, 0] - kalman[:, 0]) < error + curvature)
    assert np.all(np.abs(ours[:, 1] - kalman[:, 1]) < error / np.sqrt(2.0) + curvature)
    assert (resampled > 0) == (resampling is OFTEN)
    assert kalman[-1, 1] < 0.5 * PRIOR_SD  # there was something to learn


@pytest.mark.slow
@pytest.mark.parametrize('name', ['slider', 'block'])
def test_a_filter_finds_the_mass_of_what_is_pushed(make_task, task_data, name):
    data = task_data(name)
    data['belief'] = {
        'particles': 200,
        'likelihood': {'joint_velocity_sd': 0.002}
        if name == 'slider'
        else {'object_position_sd_m': 0.0005, 'joint_velocity_sd': 0.01},
        'object_gain': 1.0,
    }
    task = make_task(name, data)
    truth = np.array([[1.7]])
    world = Ensemble(task.model, task.parameters, 1)
    world.write(truth)
    update = ParticleFilter(task, np.random.default_rng(4))
    before = update.belief
    state = task.start()
    if name == 'block':
        state.qvel[1] = 0.3  # sliding, and pushed from behind
        state.qpos[0] = 0.12
    command = np.array([4.0]) if name == 'slider' else np.array([0.6])
    for i in range(40):
        stamp = 0.02 * i
        moment = Observation(state, state, {})
        done = update.observe(stamp, moment, command_series.held(command))
        assert (done is None) == (i == 0)
        after = world.predict(state, np.tile(command, (10, 1)), 0.002)
        state = State(after.qpos[0], after.qvel[0])
    mean = weights.mean(update.belief.log_weights, update.belief.theta)[0]
    sd = np.sqrt(weights.covariance(update.belief.log_weights, update.belief.theta)[0, 0])
    prior_sd = np.sqrt(weights.covariance(before.log_weights, before.theta)[0, 0])
    # no noise at all: the posterior is about the truth, as wide as the likelihood and the
    # distance of particles from one another let it be
    assert sd < 0.2 * prior_sd and abs(mean - 1.7) < 4.0 * sd + 0.02


def test_a_filter_without_news_keeps_its_prior(make_task):
    task = make_task('slider')
    task.belief = dataclasses.replace(task.belief, changes=None)
    update = ParticleFilter(task, np.random.default_rng(0))
    before = update.belief
    still = State(np.zeros(1), np.zeros(1))
    for i in range(10):  # at rest without force, every mass predicts the same
        update.observe(0.02 * i, Observation(still, still, {}), command_series.held(np.zeros(1)))
    np.testing.assert_allclose(
        update.belief.log_weights,
        before.log_weights,
        rtol=0,
        atol=1e-12,  # rounding of zeros
    )
    assert np.array_equal(update.belief.theta, before.theta)


def test_a_gap_in_measurements_starts_anew_and_a_reset_draws_again(make_task):
    task = make_task('slider')
    update = ParticleFilter(task, np.random.default_rng(0))
    states = State(np.zeros(1), np.zeros(1)), State(np.zeros(1), np.ones(1))
    still, moving = (Observation(state, state, {}) for state in states)
    push = command_series.held([5.0])
    assert update.observe(0.0, still, push) is None
    assert update.observe(0.9, moving, push) is None  # a gap of 0.9 s says nothing
    assert update.observe(0.9, moving, push) is None  # nor does the same moment
    assert update.observe(0.92, moving, push) is not None
    first = update.belief
    update.reset()
    assert not np.array_equal(update.belief.theta, first.theta)
    assert np.ptp(update.belief.log_weights) == 0.0
    assert update.observe(0.94, moving, push) is None
