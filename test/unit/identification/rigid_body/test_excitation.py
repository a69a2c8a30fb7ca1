"""Excitation trajectories stay within limits, are consistent, and are optimized."""

import numpy as np
import pytest

from emppi_ros.core.paths import ASSETS
from emppi_ros.identification.rigid_body import arm, excitation
from emppi_ros.identification.rigid_body.excitation import HARMONICS, MotionLimits

JOINTS = 4


@pytest.fixture
def limits(rng):
    lower = rng.uniform(-3.0, 0.0, JOINTS)
    return MotionLimits(
        lower, lower + rng.uniform(0.1, 5.0, JOINTS), *rng.uniform(0.2, 5.0, (2, JOINTS))
    )


def test_motions_reach_one_of_their_limits_and_exceed_none(limits, rng):
    time = np.linspace(0.0, 8.0, 20_001)  # 200 times finer than the samples that scale it
    for _ in range(20):
        free = rng.normal(0.0, 3.0, (2 * HARMONICS + 1, JOINTS))
        q, v, a = excitation.evaluate_motion(excitation.scale_to_limits(free, limits, 8.0), time)
        assert np.all(q >= limits.lower - 1e-12) and np.all(q <= limits.upper + 1e-12)
        assert np.all(np.abs(v) <= limits.velocity) and np.all(np.abs(a) <= limits.acceleration)
        used = [
            np.ptp(q, axis=0) / (limits.upper - limits.lower),
            np.abs(v).max(axis=0) / limits.velocity,
            np.abs(a).max(axis=0) / limits.acceleration,
        ]
        # margin for peaks between samples: 1 - cos(pi 5 / 100), twice
        assert np.max(used, axis=0).min() > 0.97


def test_velocities_and_accelerations_match_finite_differences(limits, rng):
    motion, h = excitation.random_motion(limits, 6.0, rng), 1e-5
    time = np.linspace(0.0, 6.0, 50)
    before, now, after = (excitation.evaluate_motion(motion, time + d) for d in (-h, 0.0, h))
    # errors of central differences: h^2 w^3 / 6 = 1e-10 rad/s, and rounding over h
    np.testing.assert_allclose((after[:2] - before[:2]) / (2.0 * h), now[1:], atol=1e-7)


def test_motions_are_periodic(limits, rng):
    motion, time = excitation.random_motion(limits, 6.0, rng), np.linspace(0.0, 6.0, 7)
    first, second = (
        excitation.evaluate_motion(motion, time),
        excitation.evaluate_motion(motion, time + 6.0),
    )
    np.testing.assert_allclose(first, second, atol=1e-12)  # rounding


def test_an_optimized_motion_is_more_informative_than_random_ones(rng):
    model = arm.load(ASSETS / 'panda.xml')
    limits = MotionLimits(*np.outer([-1.0, 1.0, 1.0, 5.0], np.ones(model.nv)))
    prior = np.full(model.nv, 0.5), np.ones(12 * (model.nbody - 1))
    drawn = [
        excitation.information(model, excitation.random_motion(limits, 10.0, rng), *prior)
        for _ in range(10)
    ]
    chosen = excitation.optimize_motion(model, limits, 10.0, prior, rng, trials=60)
    assert excitation.information(model, chosen, *prior) > max(drawn)
    less_noise = prior[0] * 0.5, prior[1]
    assert excitation.information(model, chosen, *less_noise) > max(drawn)
