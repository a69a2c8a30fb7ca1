"""The arm whose bodies are identified."""

import pytest

from emppi_ros.core.paths import ASSETS
from emppi_ros.identify.rigid_body import arm


@pytest.fixture(scope='session')
def panda():
    """Return a Panda of seven bodies; tests must not change it."""
    return arm.load(ASSETS / 'panda.xml')
