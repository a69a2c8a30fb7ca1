"""Row A4: nowhere to log, and too few file descriptors to start."""

from pathlib import Path
import subprocess
import sys
import time

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
if not Path('/dev/full').exists():
    pytest.skip('needs Linux', allow_module_level=True)

ROOT = Path(__file__).resolve().parents[3]
_UP_S = 4.0  # so long may they take, all five together, to come up or to end
_END_S = 60.0  # and one that cannot, on a busy machine


def test_a4_without_a_place_to_log_or_descriptors_it_works_or_says_so():
    places = [
        _start({'ROS_LOG_DIR': place}) for place in ('/dev/full/log', '/proc/log', '/dev/null')
    ]
    with Path('/dev/full').open('wb') as full:
        mute = _start({}, full)  # nothing it says can be written
    poor = _start({}, before='ulimit -n 12; ')
    up = time.monotonic() + _UP_S
    for process in places:
        code, words = _outcome(process, up)
        assert code == 'running' or (code != 0 and words.strip())
    assert _outcome(mute, up)[0] == 'running'
    code, words = _outcome(poor, up + _END_S)
    assert code not in (0, 'running') and words.strip()


def _start(environment, out=None, before=''):
    """Start a bridge."""
    from emppi_ros.nodes.tools import process_group

    return subprocess.Popen(
        ['sh', '-c', f'{before}exec {sys.executable} -m emppi_ros.nodes bridge'],
        env={**process_group.isolated_environment(process_group.unused_domain()), **environment},
        stdout=out or subprocess.PIPE,
        stderr=out or subprocess.STDOUT,
        cwd=ROOT,
    )


def _outcome(process, until):
    """Return a bridge's exit code, or `running` at a time; and its words."""
    try:
        words, _ = process.communicate(timeout=max(0.1, until - time.monotonic()))
        return process.returncode, (words or b'').decode()
    except subprocess.TimeoutExpired:
        process.kill()
        words, _ = process.communicate()
        return 'running', (words or b'').decode()
