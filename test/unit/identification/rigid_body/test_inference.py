"""What a misfit adds to the noise of torques."""

import numpy as np
import pytest

from emppi_ros.identification.rigid_body import inference
from emppi_ros.identification.rigid_body.motion_samples import DifferentiatedMotion, MotionSamples


@pytest.mark.parametrize('share', [0.01, 0.5, 1.0])  # of the expected noise, of torques
@pytest.mark.parametrize('times', [2.0, 40.0])  # as large are residuals
def test_a_misfit_widens_the_whole_noise_whatever_its_source(share, times, rng):
    n, expected = 4000, 0.02
    torque = np.array([share * expected])
    covariance = np.full((n, 1, 1), expected**2)  # with noise of the motion
    residuals = times * expected * rng.standard_normal((n, 1))
    part = DifferentiatedMotion(
        MotionSamples(np.zeros((3, n, 1)), rng.standard_normal((n, 1))),
        MotionSamples(np.zeros((3, 1)), torque), np.zeros((n, 1)), 0.1, 0.01,
    )  # fmt: skip
    misfit = inference.measure_misfit(part, residuals, covariance)
    motion = np.sqrt(np.maximum(expected**2 - torque**2, 0.0))
    given = MotionSamples(motion * np.ones((3, 1)), torque)  # torques of unit inertia
    wider = misfit.widen(given, misfit.widening)
    rms = np.sqrt(np.mean(residuals**2))
    # rounding
    assert np.hypot(wider.states[2], wider.torque) == pytest.approx(rms, rel=1e-9)
