"""Row A4: no disk, no file descriptors, nowhere to log."""

import os
from pathlib import Path
import resource
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
if not hasattr(resource, 'prlimit'):
    pytest.skip('needs Linux', allow_module_level=True)

from faultlab import trials
from faultlab.graph import Graph

SILENCE = next(fault for fault in trials.FAULTS if fault.name == 'silent')
ROOT = Path(__file__).resolve().parents[3]


def _run_faults(graph):
    for seed in range(2):
        result = trials.run(graph, SILENCE, np.random.default_rng(seed))
        assert not result.unprovoked and result.said == 'held plan-late'


@pytest.mark.slow
def test_a4_without_a_file_descriptor_left_it_goes_on():
    graph = Graph('forward')
    try:
        pid = graph.bridge.pid
        used = max(int(name) for name in os.listdir(f'/proc/{pid}/fd')) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, used))
        _run_faults(graph)
        assert graph.children.code('bridge') is None
    finally:
        graph.close()


@pytest.mark.slow
@pytest.mark.parametrize('place', ['/dev/full/log', '/proc/log', '/dev/null'])
def test_a4_without_a_place_to_log_it_works_or_says_so(place):
    code, words = _start({'ROS_LOG_DIR': place}, None)
    assert code == 'running' or (code != 0 and words.strip())


@pytest.mark.slow
def test_a4_when_nothing_it_says_can_be_written_it_works():
    with Path('/dev/full').open('wb') as full:
        code, _ = _start({}, full)
    assert code == 'running'


@pytest.mark.slow
def test_a4_with_too_few_file_descriptors_it_ends_and_says_so():
    code, words = _start({}, None, 'ulimit -n 12; ')
    assert code not in (0, 'running') and words.strip()


def _start(environment, out, before=''):
    """Return the exit code of a bridge, or `running` after a while; and its words."""
    from emppi_ros.nodes import children

    process = subprocess.Popen(
        ['sh', '-c', f'{before}exec {sys.executable} -m emppi_ros.nodes.bridge'],
        env={**children.environment(children.unused_domain()), **environment},
        stdout=out or subprocess.PIPE,
        stderr=out or subprocess.STDOUT,
        cwd=ROOT,
    )
    try:
        words, _ = process.communicate(timeout=8.0)
        return process.returncode, (words or b'').decode()
    except subprocess.TimeoutExpired:
        process.kill()
        words, _ = process.communicate()
        return 'running', (words or b'').decode()
