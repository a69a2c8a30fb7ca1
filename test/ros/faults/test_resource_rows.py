"""Row A4: nowhere to log, and too few file descriptors to start."""

from pathlib import Path
import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
if not Path('/dev/full').exists():
    pytest.skip('needs Linux', allow_module_level=True)

ROOT = Path(__file__).resolve().parents[3]
_LIMIT_S = 90.0  # to come up or to end, all together, on a busy machine


@pytest.mark.slow
def test_a4_without_a_place_to_log_or_descriptors_it_works_or_says_so(harness, tmp_path):
    places = {'full': '/dev/full/log', 'proc': '/proc/log', 'null': '/dev/null'}
    settings = {name: {'ROS_LOG_DIR': place} for name, place in places.items()}
    logs = {name: tmp_path / name for name in places} | {'mute': Path('/dev/full')}
    processes = {
        name: _start(harness.domain, name, log, settings.get(name, {}))
        for name, log in logs.items()  # nothing that `mute` says can be written
    }
    logs['poor'] = tmp_path / 'poor'
    processes['poor'] = _start(harness.domain, 'poor', logs['poor'], {}, 'ulimit -n 12; ')

    def outcomes():
        """Return the exit code of each bridge, or `up`, as far as it is known; `poor` must end."""
        seen = {ns.strip('/') for _, ns in harness.tester.get_node_names_and_namespaces()}
        seen.discard('poor')
        codes = {name: process.poll() for name, process in processes.items()}
        codes |= {name: 'up' for name, code in codes.items() if code is None and name in seen}
        return {name: code for name, code in codes.items() if code is not None}

    try:
        harness.spin_until(lambda: len(outcomes()) == len(processes), _LIMIT_S)
        found = outcomes()
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    assert found.pop('mute') == 'up'
    for name, code in found.items():
        assert code == 'up' or (code != 0 and logs[name].read_text().strip()), name


def _start(domain, name, log, environment, before=''):
    """Start a bridge in a namespace; its words go to a file."""
    from emppi_ros.nodes.tools import process_group

    command = (
        f'{before}exec {sys.executable} -m emppi_ros.nodes bridge --ros-args -r __ns:=/{name}'
    )
    with log.open('wb') as stream:
        return subprocess.Popen(
            ['sh', '-c', command],
            env={**process_group.isolated_environment(domain), **environment},
            stdout=stream,
            stderr=stream,
            cwd=ROOT,
        )
