"""The arm whose bodies are identified."""

import numpy as np
import pytest

from emppi_ros.core.paths import ASSETS
from emppi_ros.identify.rigid_body import arm, physical_consistency


@pytest.fixture(scope='session')
def panda():
    """Return a Panda of seven bodies; tests must not change it."""
    return arm.load(ASSETS / 'panda.xml')


@pytest.fixture(scope='session')
def are_consistent():
    """Return a function that says which bodies (B,) are physically consistent, up to rounding."""

    def judge(parameters):
        rows = parameters.reshape(-1, physical_consistency.BODY_PARAMETERS)
        least = [np.linalg.eigvalsh(physical_consistency.pseudo_inertia(row))[0] for row in rows]
        size = np.abs(rows[:, :10]).max(axis=1)
        positive = (rows[:, 0] > 0.0) & (rows[:, 10:] >= 0.0).all(axis=1)
        return (np.array(least) > -1e-9 * size) & positive

    return judge
