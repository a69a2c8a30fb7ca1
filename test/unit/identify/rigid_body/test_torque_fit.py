"""Maximum-likelihood fit of motion and bodies, compared with a regression."""

import json

import numpy as np
import pytest

from benchmarks.identify import arm_experiment, rigid_body_study
from emppi_ros.cli import main
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.rigid_body import (
    arm,
    body_posterior,
    excitation_trajectory,
    physical_consistency,
    torque_fit,
)
from emppi_ros.identify.rigid_body.motion_samples import (
    DifferentiatedMotion,
    MotionNoise,
    MotionSamples,
    add_noise,
    concatenate,
)
from emppi_ros.identify.rigid_body.regressor import model_parameters, regressor

WEAK = body_posterior.InertialPrior(weight=1e-6)


def _recording(panda, rng, rows=150):
    limits = arm_experiment.limits_of('panda')
    states = excitation_trajectory.evaluate_motion(
        excitation_trajectory.random_motion(limits, 10.0, rng), 20.0 * np.arange(rows) / rows
    )
    return MotionSamples(states, arm.motion_torques(panda, states))


def test_without_noise_the_true_torques_are_predicted(panda, rng):
    recording, other = _recording(panda, rng), _recording(panda, rng)
    none = MotionNoise(np.zeros((3, 7)), np.full(7, 1e-6))
    found = torque_fit.fit_torques(panda, recording, none, WEAK)
    torque = arm.motion_torques(arm.with_parameters(panda, found.parameters), other.states)
    # a prior of 1e-6 observations with 1e-6 N m each; the worst direction has about 1e-4 of that
    assert np.abs(torque - other.torque).max() < 1e-5 * np.abs(other.torque).max()
    np.testing.assert_array_equal(found.states, recording.states)


def test_the_fit_maximizes_the_joint_likelihood_of_motion_and_bodies(panda, rng):
    """The gradient of the joint log-likelihood is zero, for motion and bodies."""
    measured, noise = add_noise(_recording(panda, rng), 0.1, 0.05, rng)
    fit = torque_fit.fit_torques(panda, measured, noise)
    changed = arm.with_parameters(panda, fit.parameters)

    def gradients(states, torque):
        """Return gradients of the log-likelihood of torques and motion, in 1 / sd."""
        residual = (measured.torque - torque) / noise.torque**2
        jacobian = np.swapaxes(arm.torque_jacobian(changed, states), 1, 2)
        by_torque = (jacobian @ residual[:, :, None])[:, :, 0]
        by_motion = (measured.states - states) / noise.states[:, None] ** 2
        sd = noise.states.ravel()
        return sd * by_torque, sd * np.concatenate(by_motion, axis=1)

    torque = arm.motion_torques(changed, fit.states)
    by_torque, by_motion = gradients(fit.states, torque)
    # iterations end at changes of a hundredth of a standard deviation: a few times that remains
    remaining = np.sqrt(np.mean((by_torque + by_motion) ** 2))
    assert remaining < 0.1 * np.sqrt(np.mean(by_torque**2))
    weight = 1.0 / np.tile(noise.torque, len(torque))
    x = regressor(panda, *fit.states) * weight[:, None]
    again = body_posterior.fit_bodies(x.T @ x, x.T @ (measured.torque.ravel() * weight))
    difference = x @ (again - fit.parameters)
    assert np.sqrt(np.mean(difference**2)) < 0.1  # standard deviations of torques, likewise


def test_with_noisy_motion_predictions_beat_projected_least_squares(panda):
    errors = []
    for seed in range(2):
        rng = np.random.default_rng([5, seed])
        seen, noise = add_noise(_recording(panda, rng), 0.3, 0.05, rng)
        x, y = rigid_body_study.weighted_regression(panda, seen, noise)
        least = physical_consistency.project(np.linalg.lstsq(x, y, rcond=1e-8)[0], x.T @ x)
        ours = torque_fit.fit_torques(panda, seen).parameters
        assert (
            rigid_body_study.are_consistent(ours).all()
            and rigid_body_study.are_consistent(least).all()
        )
        clean = (
            regressor(panda, *_recording(panda, rng).states)
            * np.tile(1 / noise.torque, 150)[:, None]
        )
        errors.append(
            [np.mean((clean @ (b - model_parameters(panda))) ** 2) for b in (ours, least)]
        )
    ours, least = np.mean(errors, axis=0)
    assert ours < 0.7 * least  # a bound: the measured ratio is below a half


def test_regression_without_offset_passes_through_the_origin(rng):
    pytest.importorskip('sklearn', reason='the extra `identify` is not installed')
    x, y = rng.normal(3.0, 1.0, (80, 4)), rng.normal(2.0, 1.0, 80)
    x[:, 2] = 0.0
    found = rigid_body_study.without_offset(rigid_body_study.regression_study.baselines()['OLS'])(
        x, y
    )
    np.testing.assert_allclose(found, np.linalg.lstsq(x, y, rcond=None)[0], atol=1e-10)


def test_mismatched_data_and_torques_without_noise_are_errors(panda):
    states = np.zeros((3, 20, 7))
    with pytest.raises(IdentificationError, match='do not match'):
        torque_fit.fit_torques(panda, MotionSamples(states, np.zeros((19, 7))))
    with pytest.raises(IdentificationError, match='torques have no noise'):
        torque_fit.fit_torques(panda, MotionSamples(states, np.zeros((20, 7))))


def test_the_command_prints_every_noise_level_and_method(monkeypatch, capsys):
    true = model_parameters(arm.load(rigid_body_study.ASSETS / 'panda.xml'))
    found = {'ridge': 0.9 * true, rigid_body_study.OURS: 0.99 * true, 'nothing': 0.0 * true}
    monkeypatch.setattr(rigid_body_study, 'estimate_all', lambda model, recording: dict(found))
    command = ['bench', 'identify', '--method', 'rigid-body', '--excitation', 'drawn']
    assert main([*command, '--trials', '1', '--json']) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [row['noise'] for row in result['levels']] == list(rigid_body_study.LEVELS)
    for row in result['levels']:
        of = row['methods']
        # errors are squared shares of the torque including gravity, larger than of its variance
        assert 0.0 == of['truth']['torque_error'] < of['ours']['torque_error']
        assert of['ours']['torque_error'] == pytest.approx(of['ridge']['torque_error'] / 100.0)
        assert of['nothing']['lost'] == 1 and of['nothing']['tracking_rad'] is None
        assert of['ours']['possible'] == 1.0 and of['ours']['below_percent']['ridge'] > 0.0


def test_non_inertial_terms_match_those_of_a_joint_least_squares_fit(panda, rng):
    """Normal equations without these terms have the same solution as those with them."""
    recording = _recording(panda, rng, rows=60)
    root = rng.standard_normal((60, 7, 7)) + 3.0 * np.eye(7)
    extra = rng.standard_normal((60, 7, 2))
    covariance = root @ np.swapaxes(root, 1, 2)
    target = recording.torque + np.sum(extra * rng.standard_normal((7, 2)), axis=2)
    normal = torque_fit.normal_equations(panda, recording.states, target, covariance, extra)
    white = np.linalg.inv(np.linalg.cholesky(covariance))
    columns = np.zeros((60, 7, 7, 2))
    for joint in range(7):
        columns[:, joint, joint] = extra[:, joint]
    x = regressor(panda, *recording.states).reshape(60, 7, -1)
    whole = np.concatenate([x, columns.reshape(60, 7, 14)], axis=2)
    rows = (white @ whole).reshape(420, -1)
    best = np.linalg.lstsq(rows, (white @ target[:, :, None]).ravel(), rcond=1e-10)[0]
    # torques are compared, since some parameters have no effect on them. The prior of the terms,
    # ten times the torques, weighs 1e-5 of the information of 60 samples
    found = np.linalg.lstsq(normal.information, normal.score, rcond=1e-12)[0]
    np.testing.assert_allclose(rows[:, :84] @ found, rows[:, :84] @ best[:84], atol=0.02)
    np.testing.assert_allclose(normal.non_inertial.given(found).ravel(), best[84:], atol=0.02)


def test_normal_equations_of_several_recordings_add_up(panda, rng):
    """Each with its own noise, at the fitted motion and bodies."""
    parts = [add_noise(_recording(panda, rng, 80), share, share, rng) for share in (0.05, 0.2)]
    derived = [
        DifferentiatedMotion(seen, noise, 0.0 * seen.torque, 0.1, 0.1) for seen, noise in parts
    ]
    seen, noise = concatenate(derived)
    found = torque_fit.fit_torques(panda, seen, noise)
    information, score = np.zeros((84, 84)), np.zeros(84)
    changed = arm.with_parameters(panda, found.parameters)
    for (own, of), states in zip(parts, np.split(found.states, 2, axis=1), strict=True):
        slopes = arm.torque_jacobian(changed, states)
        covariance = slopes * of.states.ravel() ** 2 @ np.swapaxes(slopes, 1, 2)
        covariance += np.diag(of.torque**2)
        away = np.concatenate(own.states - states, axis=1)
        target = own.torque - (slopes @ away[:, :, None])[:, :, 0]
        normal = torque_fit.normal_equations(panda, states, target, covariance, None)
        information, score = information + normal.information, score + normal.score
    off = body_posterior.fit_bodies(information, score) - found.parameters
    # iterations end at changes of a hundredth of a standard deviation, of 1120 torques
    assert off @ information @ off < 1120 * 0.1**2
    # much less than the change by fitting either recording alone
    alone = torque_fit.fit_torques(panda, *parts[1]).parameters - found.parameters
    assert off @ information @ off < 0.01 * (alone @ information @ alone)
