"""The fault laboratory lies beside the tests, and is no part of the package."""

from pathlib import Path
import sys

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


@pytest.fixture(
    scope='module', params=['trajectory', pytest.param('forward', marks=pytest.mark.slow)]
)
def graph(request):
    """Return a graph to break, for the tests of one file."""
    pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
    from faultlab.graph import Graph

    made = Graph(request.param)
    yield made
    made.close()
