"""An arm of given bodies moves as the regressor says, and recordings show their noise."""

import numpy as np
import pytest

from emppi_ros.bench.identify import arm_experiment
from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common.noise import difference_noise
from emppi_ros.identify.rigid_body import (
    arm,
    excitation_trajectory,
    motion_samples,
    physical_consistency,
    regressor,
)


def _bodies(rng, count):
    """Return bodies (11 count,) that can be: roots of pseudo-inertias, and friction."""
    found = []
    for root in rng.normal(0.0, 0.5, (count, 4, 4)):
        found.append(
            np.append(physical_consistency.from_pseudo_inertia(root @ root.T), rng.random())
        )
    return np.concatenate(found)


def test_every_joint_has_one_body(panda):
    assert panda.nbody - 1 == panda.nv == 7
    assert len(regressor.model_parameters(panda)) == 7 * 11


def test_torques_are_the_regressor_times_whatever_bodies(panda, rng):
    states = rng.uniform(-2.0, 2.0, (3, 30, panda.nv))
    for _ in range(3):
        bodies = _bodies(rng, panda.nv)
        changed = arm.with_parameters(panda, bodies)
        expected = (regressor.regressor(panda, *states) @ bodies).reshape(30, panda.nv)
        found = arm.motion_torques(changed, states)
        np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
        # ... and the model gives them back: rounding, of moments about another point
        np.testing.assert_allclose(
            regressor.model_parameters(changed), bodies, rtol=1e-7, atol=1e-9
        )


def test_torques_of_impossible_bodies_are_linear_too(panda, rng):
    states = rng.uniform(-2.0, 2.0, (3, 30, panda.nv))
    bodies = rng.standard_normal(11 * panda.nv)
    bodies[::33] = 0.0  # no mass, yet a first moment: far out, at some loss of digits
    expected = (regressor.regressor(panda, *states) @ bodies).reshape(30, panda.nv)
    found = arm.motion_torques(arm.with_parameters(panda, bodies), states)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_slopes_are_what_torques_differ_by(panda, rng):
    states, h = rng.uniform(-1.0, 1.0, (3, 10, panda.nv)), 1e-5
    step = h * rng.standard_normal(states.shape)
    found = arm.torque_jacobian(panda, states) @ np.concatenate(step, axis=1)[:, :, None]
    differ = 0.5 * (
        arm.motion_torques(panda, states + step) - arm.motion_torques(panda, states - step)
    )
    # MuJoCo's forward differences of 1e-6: second derivatives of some tens of N m times that
    np.testing.assert_allclose(found[:, :, 0] / h, differ / h, atol=1e-3)


def test_noise_is_seen_through_a_motion(panda, rng):
    motion = excitation_trajectory.random_motion(
        excitation_trajectory.MotionLimits(*_limits(panda)), 10.0, rng
    )
    states = excitation_trajectory.evaluate_motion(
        motion, np.linspace(0.0, 20.0, 2000, endpoint=False)
    )
    clean = motion_samples.MotionSamples(states, arm.motion_torques(panda, states))
    seen, noise = motion_samples.add_noise(clean, 0.1, 0.05, rng)
    found = motion_samples.estimate_noise(seen)
    # fifth differences of 2000 samples hang together: a standard error of some 3 %, four times
    np.testing.assert_allclose(found.states, noise.states, rtol=0.12)
    np.testing.assert_allclose(found.torque, noise.torque, rtol=0.12)
    # without noise next to nothing is taken for it, against the tenth that is asked for
    assert np.all(difference_noise(states) < 1e-4 * noise.states)


def test_few_samples_say_nothing():
    with pytest.raises(IdentificationError, match='5 samples do not determine their noise'):
        difference_noise(np.zeros((3, 5, 2)))


def test_the_true_bodies_track_and_others_stray(panda, rng):
    motion = excitation_trajectory.random_motion(
        excitation_trajectory.MotionLimits(*_limits(panda)), 4.0, rng
    )
    true = regressor.model_parameters(panda)
    exact = arm_experiment.tracking_error(panda, motion, true)
    # what is left comes of torques that hold for 4 ms
    assert exact < 0.01
    assert arm_experiment.tracking_error(panda, motion, 1.2 * true) > 2.0 * exact
    # without a torque the arm falls, and is lost
    assert arm_experiment.tracking_error(panda, motion, 0.0 * true) == np.inf


def _limits(panda):
    return np.outer([-1.0, 1.0, 1.0, 5.0], np.ones(panda.nv))
