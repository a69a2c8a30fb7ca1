"""Row A4: nowhere to log, and too few file descriptors to start."""

from pathlib import Path
import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
if not Path('/dev/full').exists():
    pytest.skip('needs Linux', allow_module_level=True)


pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[3]
_UP_S = 4.0  # of five that start together, the first has so long to come up or to end


@pytest.mark.slow
def test_a4_without_a_place_to_log_or_descriptors_it_works_or_says_so():
    places = [
        _start({'ROS_LOG_DIR': place}) for place in ('/dev/full/log', '/proc/log', '/dev/null')
    ]
    with Path('/dev/full').open('wb') as full:
        mute = _start({}, full)  # nothing it says can be written
    poor = _start({}, before='ulimit -n 12; ')
    for process in places:
        code, words = _outcome(process)
        assert code == 'running' or (code != 0 and words.strip())
    assert _outcome(mute)[0] == 'running'
    code, words = _outcome(poor)
    assert code not in (0, 'running') and words.strip()


def _start(environment, out=None, before=''):
    """Start a bridge."""
    from emppi_ros.nodes.tools import process_group

    return subprocess.Popen(
        ['sh', '-c', f'{before}exec {sys.executable} -m emppi_ros.nodes.bridge.node'],
        env={**process_group.isolated_environment(process_group.unused_domain()), **environment},
        stdout=out or subprocess.PIPE,
        stderr=out or subprocess.STDOUT,
        cwd=ROOT,
    )


def _outcome(process):
    """Return a bridge's exit code, or `running` after a while; and its words."""
    try:
        words, _ = process.communicate(timeout=_UP_S)
        return process.returncode, (words or b'').decode()
    except subprocess.TimeoutExpired:
        process.kill()
        words, _ = process.communicate()
        return 'running', (words or b'').decode()
