"""Torques of an arm match the regressor, and noise is estimated from its recordings."""

from free_bodies import difference_noise, estimate_noise
import numpy as np

from emppi_ros.identification.rigid_body import arm, excitation, motion_samples


def _bodies(rng, count):
    """Return consistent bodies (12 count,): positive pseudo-inertias, friction and armature."""
    bodies = []
    for root in rng.normal(0.0, 0.5, (count, 4, 4)):
        bodies.append(np.append(arm.from_pseudo_inertia(root @ root.T), rng.random(2)))
    return np.concatenate(bodies)


def test_every_joint_has_one_body(panda):
    assert panda.nbody - 1 == panda.nv == 7
    assert len(arm.model_parameters(panda)) == 7 * 12


def test_torques_equal_the_regressor_times_the_parameters(panda, rng):
    states = rng.uniform(-2.0, 2.0, (3, 30, panda.nv))
    for _ in range(3):
        bodies = _bodies(rng, panda.nv)
        changed = arm.with_parameters(panda, bodies)
        expected = (arm.regressor(panda, *states) @ bodies).reshape(30, panda.nv)
        torques = arm.motion_torques(changed, states)
        np.testing.assert_allclose(torques, expected, atol=1e-10 * np.abs(expected).max())
        # ... and the model returns the parameters: rounding, of moments about another point
        np.testing.assert_allclose(arm.model_parameters(changed), bodies, rtol=1e-7, atol=1e-9)


def test_torques_of_inconsistent_bodies_are_linear_in_their_parameters(panda, rng):
    states = rng.uniform(-2.0, 2.0, (3, 30, panda.nv))
    bodies = rng.standard_normal(12 * panda.nv)
    bodies[::33] = 0.0  # no mass, yet a first moment: far away, with some loss of digits
    expected = (arm.regressor(panda, *states) @ bodies).reshape(30, panda.nv)
    torques = arm.motion_torques(arm.with_parameters(panda, bodies), states)
    np.testing.assert_allclose(torques, expected, atol=1e-5 * np.abs(expected).max())


def test_torque_jacobians_match_finite_differences(panda, rng):
    states, h = rng.uniform(-1.0, 1.0, (3, 10, panda.nv)), 1e-5
    step = h * rng.standard_normal(states.shape)
    change = arm.torque_jacobian(panda, states) @ np.concatenate(step, axis=1)[:, :, None]
    expected = 0.5 * (
        arm.motion_torques(panda, states + step) - arm.motion_torques(panda, states - step)
    )
    # MuJoCo's forward differences of 1e-6: second derivatives of some tens of N m times that
    np.testing.assert_allclose(change[:, :, 0] / h, expected / h, atol=1e-3)


def test_noise_is_estimated_from_a_moving_arm(panda, rng, add_noise):
    motion = excitation.random_motion(excitation.MotionLimits(*_limits(panda)), 10.0, rng)
    states = excitation.evaluate_motion(motion, np.linspace(0.0, 20.0, 2000, endpoint=False))
    clean = motion_samples.MotionSamples(states, arm.motion_torques(panda, states))
    noisy, noise = add_noise(clean, 0.1, 0.05, rng)
    estimate = estimate_noise(noisy)
    # fifth differences of 2000 samples are correlated: standard errors of about 3 %, times four
    np.testing.assert_allclose(estimate.states, noise.states, rtol=0.12)
    np.testing.assert_allclose(estimate.torque, noise.torque, rtol=0.12)
    # without noise the estimate is next to nothing
    assert np.all(difference_noise(states) < 1e-4 * noise.states)


def _limits(panda):
    return np.outer([-1.0, 1.0, 1.0, 5.0], np.ones(panda.nv))
