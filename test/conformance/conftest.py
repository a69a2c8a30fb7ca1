"""Simulated robots and what drives them; skipped where `make conformance` made nothing yet."""

from pathlib import Path
import sys

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this one

import franka_processes


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a simulated robot ('sim') or what drives it ('driver')."""
    if reason := franka_processes.missing():
        pytest.skip(reason)
    started = []

    def begin(kind, *options):
        started.append(
            {'sim': franka_processes.Sim, 'driver': franka_processes.drive}[kind](
                tmp_path, *options
            )
        )
        return started[-1]

    yield begin
    for process in reversed(started):
        process.end()
