"""The arm whose bodies are identified."""

from pathlib import Path
import sys

import numpy as np
import pytest

from emppi_ros.core.paths import ASSETS
from emppi_ros.identification.rigid_body import arm
from emppi_ros.identification.rigid_body.motion_samples import MotionSamples

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this one


@pytest.fixture(scope='session')
def panda():
    """Return a Panda of seven bodies; tests must not change it."""
    return arm.load(ASSETS / 'panda.xml')


@pytest.fixture(scope='session')
def are_consistent():
    """Return a function that says which bodies (B,) are physically consistent, up to rounding."""

    def judge(parameters):
        rows = parameters.reshape(-1, arm.BODY_PARAMETERS)
        least = [np.linalg.eigvalsh(arm.pseudo_inertia(row))[0] for row in rows]
        size = np.abs(rows[:, :10]).max(axis=1)
        positive = (rows[:, 0] > 0.0) & (rows[:, 10:] >= 0.0).all(axis=1)
        return (np.array(least) > -1e-9 * size) & positive

    return judge


@pytest.fixture
def add_noise():
    """Return a function that adds noise to samples, as shares of the spread of each signal."""

    def add(clean, states, torque, rng):
        share = states * np.array([0.1, 1.0, 1.0])[:, None]  # positions are measured better
        noise = MotionSamples(share * clean.states.std(axis=1), torque * clean.torque.std(axis=0))
        drawn = [rng.standard_normal(part.shape) for part in clean]
        shifted = noise.states[:, None] * drawn[0], noise.torque * drawn[1]
        return MotionSamples(clean.states + shifted[0], clean.torque + shifted[1]), noise

    return add
