"""Pictures are made where they can be."""

import pytest

from emppi_ros.report import video


@pytest.fixture(scope='session')
def renderer():
    """Skip on a machine without off-screen rendering."""
    try:
        video.check_renderer()
    except video.RenderError:
        pytest.skip('no off-screen rendering on this machine')
