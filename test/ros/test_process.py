"""A node's process: who may find it."""

import os
import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

CODE = """
import os
from emppi_ros.errors import EmppiError
from emppi_ros.nodes import {module} as module, process
def make(*_):
    print(os.environ.get('ROS_AUTOMATIC_DISCOVERY_RANGE'))
    raise EmppiError('enough')
{call}
"""
WAYS = {
    'node': ('process', 'process.run(make)'),
    'demo': ('demo', 'module.load_task = lambda _: None; module.environment = make\n'
             'try: module.run_demo("x")\nexcept EmppiError: pass'),
}  # fmt: skip


@pytest.mark.parametrize('way', WAYS)
@pytest.mark.parametrize('wanted', [None, 'SUBNET', 'OFF'])
def test_a_process_is_found_on_this_host_only_unless_the_user_wants_more(way, wanted):
    module, call = WAYS[way]
    environment = {k: v for k, v in os.environ.items() if k != 'ROS_AUTOMATIC_DISCOVERY_RANGE'}
    if wanted:
        environment['ROS_AUTOMATIC_DISCOVERY_RANGE'] = wanted
    done = subprocess.run(
        [sys.executable, '-c', CODE.format(module=module, call=call)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == [wanted or 'LOCALHOST']
