"""A node's process: who may find it."""

import json
import os
from pathlib import Path
import signal
import subprocess
import sys

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from emppi_ros.core import paths
from emppi_ros.nodes.common import middleware
from emppi_ros.nodes.common.graph import NodeSpec
from emppi_ros.nodes.tools.process_group import isolated_environment

CODE = """
import json
import os
import sys
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import middleware, process
import emppi_ros.nodes.{module} as module
def make(*_):
    names = [*middleware.CHOICES, middleware.TRANSPORTS]
    print(*(os.environ.get(name) for name in names), flush=True)
    raise EmppiError('enough')
def call():
    {call}
for given in json.loads(sys.argv[1]):
    if os.fork() == 0:  # everything is imported, and nothing has begun
        os.environ.update([given] if given else [])
        try:
            call()
        finally:
            os._exit(0)
    os.wait()
"""
WAYS = {
    'node': ('common.process', 'process.run(make)'),
    'demo': ('tools.demo', 'from unittest import mock\n    module.load_task = mock.MagicMock()\n'
             '    module.process.rclpy.Context = make\n'
             '    try: module.run_demo("x")\n    except EmppiError: pass'),
}  # fmt: skip
OURS = str(paths.share() / 'config' / 'fastdds.xml')
CHOSEN = {  # what the user sets: range, peers, profiles, transports
    (): ('SYSTEM_DEFAULT', None, OURS, 'UDPv4'),
    (middleware.RANGE, 'SUBNET'): ('SUBNET', None, None, 'UDPv4'),
    (middleware.RANGE, 'OFF'): ('OFF', None, None, 'UDPv4'),
    ('ROS_STATIC_PEERS', 'arm'): ('LOCALHOST', 'arm', None, 'UDPv4'),
    (middleware.PROFILES, 'mine.xml'): ('LOCALHOST', None, 'mine.xml', 'UDPv4'),
    (middleware.TRANSPORTS, 'LARGE_DATA'): ('SYSTEM_DEFAULT', None, OURS, 'LARGE_DATA'),
}


@pytest.fixture(scope='module', params=WAYS)
def found(request):
    """Return the settings of a process by what the user sets."""
    module, call = WAYS[request.param]
    names = [*middleware.CHOICES, middleware.TRANSPORTS]
    environment = {k: v for k, v in os.environ.items() if k not in names}
    done = subprocess.run(
        [sys.executable, '-c', CODE.format(module=module, call=call), json.dumps(list(CHOSEN))],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(zip(CHOSEN, map(str.split, done.stdout.splitlines()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize('given', CHOSEN, ids=lambda given: given[-1] if given else 'nothing')
def test_a_process_keeps_to_itself_and_to_this_host_unless_the_user_wants_more(found, given):
    reach, peers, profiles, transports = CHOSEN[given]
    assert found[given] == [str(v) for v in (reach, peers, profiles, None, transports)]


def test_with_other_middleware_it_looks_on_this_host(monkeypatch):
    monkeypatch.setattr(middleware, 'get_rmw_implementation_identifier', lambda: 'rmw_zenoh_cpp')
    assert middleware.settings({})[middleware.RANGE] == 'LOCALHOST'
    assert middleware.PROFILES not in middleware.settings({})


@pytest.mark.slow
@pytest.mark.skipif(not Path('/proc/self/maps').exists(), reason='needs Linux')
def test_the_bridge_shares_no_memory_whose_locks_a_hung_planner_could_hold(harness):
    children = harness.spawn(NodeSpec('bridge'))
    harness.spin_until(lambda: harness.statuses.get('bridge'))
    maps = Path(f'/proc/{children.processes["bridge"].pid}/maps').read_text()
    assert 'dds_port' not in maps  # what Fast DDS calls them


URGENT = """
import os, time
from emppi_ros.nodes.common import process
from rclpy.node import Node
class Working(Node):
    failed = False
    def __init__(self):
        super().__init__('working')
        self.urgent, self.began = True, time.monotonic()
        self.create_timer(0.02, self.look)
    def look(self):
        threads = {{int(t) for t in os.listdir('/proc/self/task')}}
        seen = {{(os.sched_getscheduler(t), os.sched_getparam(t).sched_priority) for t in threads}}
        print(self.urgent, len(threads) > 1, *sorted(seen), flush=True)
        passed = time.monotonic() - self.began
        self.urgent, self.failed = not 0.1 < passed < 0.3, passed > 0.5
process.run(Working, real_time={level})
"""


def _may_be_prompt():
    code = 'import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))'
    return not subprocess.run(
        [sys.executable, '-c', code], check=False, capture_output=True
    ).returncode


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, 'SCHED_RR'), reason='needs Linux')
@pytest.mark.parametrize('level', [0, 1])
def test_who_has_to_be_in_time_has_priority_while_it_is_urgent_where_permitted(harness, level):
    done = subprocess.run(
        [sys.executable, '-c', URGENT.format(level=level)],
        check=False, env=isolated_environment(harness.domain), capture_output=True, text=True,
    )  # fmt: skip
    usual, prompt = (os.SCHED_OTHER, 0), (os.SCHED_RR, level)
    said = dict.fromkeys(line for line in done.stdout.splitlines())  # in order, once each
    held = prompt if level and _may_be_prompt() else usual
    assert {f'True True {held}', f'False True {usual}'} <= set(said), done.stdout + done.stderr
    assert list(said)[0] == done.stdout.splitlines()[-1] == f'True True {held}'


FAILING = """
import sys
from emppi_ros.nodes.common import process
from rclpy.node import Node
class Failing(Node):
    failed = True
    def __init__(self):
        super().__init__('failing')
    def shutdown(self):
        self.failed = False  # as a node whose loop is stopped
sys.exit(process.run(Failing))
"""


def test_a_node_that_failed_ends_with_an_error_code_whatever_its_shutdown_does(harness):
    done = subprocess.run(
        [sys.executable, '-c', FAILING], check=False, env=isolated_environment(harness.domain)
    )
    assert done.returncode == 2


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_imports_ends_a_node_without_a_word(number):
    command = [sys.executable, '-m', 'emppi_ros.nodes', 'planner']
    environment = isolated_environment()
    with subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True) as process:
        maps = Path(f'/proc/{process.pid}/maps')
        while 'numpy' not in maps.read_text():  # one of the first imports
            assert process.poll() is None, process.stderr.read()
        process.send_signal(number)
        output, errors = process.communicate()
    assert (process.returncode, output, errors) == (0, '', '')


def test_a_node_that_does_not_exist_is_refused_with_the_names_of_those_that_do():
    command = [sys.executable, '-m', 'emppi_ros.nodes', 'planer']
    done = subprocess.run(
        command, env=isolated_environment(), check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == (
        'usage: python -m emppi_ros.nodes '
        '{planner,belief,bridge,simulator,markers,task_server,depth_camera,tracker,articulation} '
        '[--ros-args ...]\n'
    )
