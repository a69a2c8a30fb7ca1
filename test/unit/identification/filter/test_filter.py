"""The method `filter`: the likelihood of the belief, and particles of its posterior."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.app.synthetic_recording import sensor_signals
from emppi_ros.core import weights
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.filter import likelihood, method, smc
from emppi_ros.identification.filter.likelihood import RecordingLikelihood
from emppi_ros.identification.filter.smc import SmcConfig
from emppi_ros.model.parameters import Parameter
from emppi_ros.priors.distributions import Prior
from emppi_ros.recordings.recordings import Recording
from emppi_ros.tasks.task import load_task

COUNT = 1000


def calm(name):
    """Return a task with few constant particles, which a fixed likelihood weighs."""
    task = copy.copy(load_task(name))
    never = replace(task.belief.resampling, ess_fraction=1e-300, tempering=None)
    fixed = replace(task.belief.likelihood, scale='fixed')
    task.belief = replace(
        task.belief, resampling=never, likelihood=fixed, changes=None, particles=8
    )
    return task


def record(task, trace):
    signals = {(one.kind, one.of): one for one in sensor_signals(task, trace)}
    return Recording(signals, ())


@pytest.mark.slow
@pytest.mark.parametrize(
    'name', ['panda_push', 'cartpole_swingup']
)  # with and without a tracked object
def test_log_likelihoods_are_those_of_the_belief(name):
    task = calm(name)
    loop = ClosedLoop(task, 3)
    theta = loop.filter.belief.theta.copy()
    trace = loop.run(2.5)
    seen = likelihood.build(task, record(task, trace))
    found = RecordingLikelihood(task, [seen], len(theta), threads=1).log_likelihood(theta)
    assert np.ptp(found) > 1.0  # nats: the particles differ
    # sums of about a thousand nats, in another order
    np.testing.assert_allclose(
        weights.normalize(found), loop.filter.belief.log_weights, rtol=1e-9, atol=1e-8
    )
    twice = RecordingLikelihood(task, [seen, seen], len(theta), threads=1).log_likelihood(theta)
    np.testing.assert_allclose(twice, 2.0 * found, rtol=1e-12)


PARAMETERS = (Parameter('a', 'body_ipos', 'b'), Parameter('b', 'body_ipos', 'b', 1))
PRIORS = (Prior('normal', mean=1.0, sd=2.0), Prior('normal', mean=-1.0, sd=0.5))


def test_a_linear_gaussian_posterior_is_the_closed_form():
    design = np.array([[1.0, 1.0], [1.0, -0.5], [0.2, 1.0]])
    measured, noise = np.array([2.0, -1.0, 0.5]), 0.1

    def log_likelihood(theta):
        return -0.5 * np.sum(((theta @ design.T - measured) / noise) ** 2, axis=1)

    rng = np.random.default_rng(0)
    settings = SmcConfig(particles=COUNT, power=1.0)
    found = smc.infer(PARAMETERS, PRIORS, log_likelihood, settings, rng)
    before = np.diag([1.0 / 2.0**2, 1.0 / 0.5**2])
    covariance = np.linalg.inv(before + design.T @ design / noise**2)
    mean = covariance @ (before @ [1.0, -1.0] + design.T @ measured / noise**2)
    # after resampling and two moves the effective sample size is at least a tenth: standard errors
    # are sd / sqrt(100) of means, and sd / sqrt(200) of deviations; four of these
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_array_less(np.abs(found.theta.mean(axis=0) - mean), 4.0 * sd / 10.0)
    np.testing.assert_allclose(found.theta.std(axis=0), sd, rtol=4.0 / np.sqrt(200.0))
    tilt = covariance[0, 1] / np.prod(sd)
    assert np.corrcoef(found.theta.T)[0, 1] == pytest.approx(tilt, abs=0.4)
    np.testing.assert_array_equal(found.log_likelihood, log_likelihood(found.theta))
    assert found.powers[0] == 0.0 and found.powers[-1] == 1.0
    assert np.all(np.diff(found.powers) > 0.0)


def test_an_inference_resumes_at_any_power_bit_for_bit():
    def log_likelihood(theta):
        return -0.5 * np.sum((theta / 0.05) ** 2, axis=1)

    def infer(watch=lambda _: None, state=None, seed=0):
        rng = np.random.default_rng(seed)
        settings = SmcConfig(particles=20, power=1.0)
        return smc.infer(PARAMETERS, PRIORS, log_likelihood, settings, rng, watch, state)

    states = []
    whole = infer(states.append)
    assert len(states) == len(whole.powers) - 1 > 3
    for state in states:
        kept = {name: np.asarray(part) for name, part in state._asdict().items()}
        again = infer(state=smc.SmcState(**kept), seed=7)  # it has its own random generator
        for one, other in zip(again, whole, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_flat_likelihood_keeps_the_prior_and_diverged_particles_are_dropped():
    def half(theta):
        return np.where(theta[:, 0] > 1.0, 0.0, -np.inf)

    rng, settings = np.random.default_rng(0), SmcConfig(particles=COUNT)
    found = smc.infer(PARAMETERS, PRIORS, half, settings, rng).theta
    assert found[:, 0].min() > 1.0
    # a half normal: mean sd sqrt(2 / pi); effective sample size of 100, four standard errors
    mean = 1.0 + 2.0 * np.sqrt(2.0 / np.pi)
    assert found[:, 0].mean() == pytest.approx(mean, abs=4.0 * 2.0 / 10.0)
    assert found[:, 1].std() == pytest.approx(0.5, rel=4.0 / np.sqrt(200.0))

    def none(theta):
        return np.full(len(theta), -np.inf)

    with pytest.raises(IdentificationError, match='all particles diverge'):
        smc.infer(PARAMETERS, PRIORS, none, settings, rng)


def test_a_point_prior_stays_a_point():
    priors = (Prior('fixed', value=0.5), PRIORS[1])
    rng, settings = np.random.default_rng(0), SmcConfig(particles=50)

    def log_likelihood(theta):
        return -50.0 * theta[:, 1] ** 2

    found = smc.infer(PARAMETERS, priors, log_likelihood, settings, rng)
    assert np.all(found.theta[:, 0] == 0.5) and found.theta[:, 1].std() > 0.0


@pytest.fixture(scope='module')
def push():
    """Return a push of three seconds: the task, its recording, and the truth."""
    task = load_task('panda_push')
    trace = ClosedLoop(task, 4).run(3.0)
    return task, record(task, trace), trace.truth


@pytest.mark.slow
def test_friction_is_identified_from_a_push(push):
    task, recording, truth = push
    _, found = method.infer_task(task, [recording], SmcConfig(particles=60), 0, threads=1)
    row = found['parameters']['block_friction']
    assert row['sd'] < 0.5 * 0.15  # that of the prior
    # four standard deviations of the particles
    assert row['value'] == pytest.approx(truth[1], abs=4.0 * row['sd'])
    assert max(found['innovations'].values()) < 1.0  # the task assumes more noise than there is


@pytest.mark.slow
def test_a_cluster_changes_no_bit(push, cluster):
    task, recording, _ = push
    short = SmcConfig(particles=5, moves=1, power=0.01)  # two workers: blocks of 3 and 2
    here, _ = method.infer_task(task, [recording], short, 0, threads=1)
    there, _ = method.infer_task(
        task, [recording], short, 0, threads=1,
        scheduler=cluster.address,
    )  # fmt: skip
    for one, other in zip(there, here, strict=True):
        np.testing.assert_array_equal(one, other)


def without(recording, key):
    signals = {k: s for k, s in recording.signals.items() if k != key}
    return Recording(signals, ())


def changed(recording, key, change):
    signal = recording.signals[key]
    return Recording({**recording.signals, key: signal._replace(**change(signal))}, ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ('spoil', 'words'),
    [
        (lambda r: without(r, ('velocity', 'panda_joint2')), "'panda_joint2': its velocity was"),
        (lambda r: without(r, ('pose', 'block')), 'whose pose was not recorded'),
        (lambda r: without(r, ('command', 'panda_joint1')), 'whose command was not recorded'),
        (
            lambda r: changed(r, ('pose', 'block'), lambda s: {'time': s.time + 60.0}),
            'unsynchronised: 0 observations',
        ),
        (  # a tracker with x and y exchanged
            lambda r: changed(
                r, ('pose', 'block'), lambda s: {'values': s.values[:, [1, 0, 2, 3, 4, 5, 6]]}
            ),
            'object_position: the model does not match',
        ),
    ],
)
def test_wrong_recordings_are_named(push, spoil, words):
    task, recording, _ = push
    with pytest.raises(IdentificationError, match=words):
        method.infer_task(task, [spoil(recording)], SmcConfig(particles=10, moves=1), 0, threads=1)
