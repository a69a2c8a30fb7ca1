"""The fuzz tests share modules that are no tests: cases, and what is legal."""

import gc
import os
from pathlib import Path
import sys

import pytest

os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope='module', autouse=True)
def frozen_heap():
    """Leave objects of earlier tests out of garbage collection: it may take a second of a case."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
