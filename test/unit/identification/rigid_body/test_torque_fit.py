"""Maximum-likelihood fit of motion and bodies, compared with a regression."""

import arm_experiment
from free_bodies import fit_bodies, fit_torques
import numpy as np
import pytest

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identification.rigid_body import (
    arm,
    body_posterior,
    excitation,
)
from emppi_ros.identification.rigid_body.arm import (
    ARMATURE,
    BODY_PARAMETERS,
    model_parameters,
    regressor,
)
from emppi_ros.identification.rigid_body.motion_samples import MotionSamples

WEAK = body_posterior.InertialPrior(weight=1e-6)


def _recording(panda, rng, rows=150):
    limits = arm_experiment.limits_of('panda')
    states = excitation.evaluate_motion(
        excitation.random_motion(limits, 10.0, rng), 20.0 * np.arange(rows) / rows
    )
    return MotionSamples(states, arm.motion_torques(panda, states))


@pytest.mark.slow
def test_without_noise_the_true_torques_are_predicted(panda, rng):
    recording, other = _recording(panda, rng), _recording(panda, rng)
    none = MotionSamples(np.zeros((3, 7)), np.full(7, 1e-6))
    found = fit_torques(panda, recording, none, WEAK)
    torque = arm.motion_torques(arm.with_parameters(panda, found.parameters), other.states)
    # a prior of 1e-6 observations with 1e-6 N m each; the worst direction has about 1e-4 of that
    assert np.abs(torque - other.torque).max() < 1e-5 * np.abs(other.torque).max()
    np.testing.assert_array_equal(found.states, recording.states)


def test_the_fit_maximizes_the_joint_likelihood_of_motion_and_bodies(panda, rng, add_noise):
    """The gradient of the joint log-likelihood is zero, for motion and bodies."""
    measured, noise = add_noise(_recording(panda, rng), 0.1, 0.05, rng)
    fit = fit_torques(panda, measured, noise)
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
    again = fit_bodies(x.T @ x, x.T @ (measured.torque.ravel() * weight))
    difference = x @ (again - fit.parameters)
    assert np.sqrt(np.mean(difference**2)) < 0.1  # standard deviations of torques, likewise


@pytest.mark.slow
def test_with_noisy_motion_predictions_beat_least_squares(panda, are_consistent, add_noise):
    errors = []
    for seed in range(2):
        rng = np.random.default_rng([5, seed])
        seen, noise = add_noise(_recording(panda, rng), 0.3, 0.05, rng)
        weight = 1.0 / np.tile(noise.torque, len(seen.torque))
        x = regressor(panda, *seen.states) * weight[:, None]
        x[:, ARMATURE::BODY_PARAMETERS] = 0.0
        y = seen.torque.ravel() * weight
        least = fit_bodies(x.T @ x, x.T @ y, WEAK)
        ours = fit_torques(panda, seen).parameters
        assert are_consistent(ours).all() and are_consistent(least).all()
        clean = (
            regressor(panda, *_recording(panda, rng).states)
            * np.tile(1 / noise.torque, 150)[:, None]
        )
        errors.append(
            [np.mean((clean @ (b - model_parameters(panda))) ** 2) for b in (ours, least)]
        )
    ours, least = np.mean(errors, axis=0)
    assert ours < 0.7 * least  # a bound: the measured ratio is below a half


def test_torques_without_noise_are_errors(panda):
    with pytest.raises(IdentificationError, match='torques have no noise'):
        fit_torques(panda, MotionSamples(np.zeros((3, 20, 7)), np.zeros((20, 7))))
