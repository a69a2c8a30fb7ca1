"""The examples run as they are, are short, and print what they promise."""

import os
from pathlib import Path
import subprocess
import sys

import pytest

FOLDER = Path(__file__).resolve().parents[2] / 'examples'
MOST_LINES = 40
RUNS = {
    'cartpole.py': ({'DURATION_S': '0.3'}, 'mass 0.'),
    'belief_from_recording.py': ({'DURATION_S': '0.5'}, 'block_friction: 0.'),
    'compare_controllers.py': ({'DURATION_S': '0.2', 'TASK': 'cartpole_swingup'}, 'mppi-true'),
    'track_video.py': ({'DURATION_S': '0.3'}, 'cart: tracked in '),
    'articulate_tracks.py': ({}, 'door on world: revolute, axis [0. 0. 1.]'),
    'identify_parameters.py': ({'DURATION_S': '1.5'}, 'standard deviation'),
    'feed_forward.py': ({'DURATION_S': '3'}, 'torque [N m]: ['),
    'video_to_task.py': ({}, 'axis_x: '),
    'batch_over_seeds.py': (
        {'DURATION_S': '0.2', 'TASK': 'cartpole_swingup', 'SEEDS': '2'},
        '0 of 2 runs succeed',
    ),
}


@pytest.mark.parametrize('path', sorted(FOLDER.glob('*.py')), ids=lambda path: path.name)
def test_an_example_is_short(path):
    assert len(path.read_text().splitlines()) <= MOST_LINES


@pytest.mark.slow
@pytest.mark.parametrize('name', RUNS)
def test_an_example_runs(name):
    options, expected = RUNS[name]
    run = subprocess.run(
        [sys.executable, FOLDER / name],
        env={**os.environ, **options},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert expected in run.stdout
