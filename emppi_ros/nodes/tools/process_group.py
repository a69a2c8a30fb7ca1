"""Nodes as child processes: started together, monitored and stopped together."""

from collections.abc import Mapping, Sequence
import contextlib
import os
from pathlib import Path
import signal
import socket
import subprocess
import sys
import tempfile
import time

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import middleware
from emppi_ros.nodes.common.graph import PACKAGE, NodeSpec

_GRACE_S = 3.0  # from SIGINT to SIGKILL
_LAST_LINES = 15


class NodeDiedError(EmppiError):
    """A node's process ended unexpectedly."""


class ProcessGroup:
    """The processes of a graph; each writes its output to a log file."""

    def __init__(
        self, specs: Sequence[NodeSpec], environment: Mapping[str, str], folder: Path | None
    ) -> None:
        self._temporary = contextlib.ExitStack()
        self._folder = folder or Path(self._temporary.enter_context(tempfile.TemporaryDirectory()))
        self._folder.mkdir(parents=True, exist_ok=True)
        self._environment = dict(environment)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ending: set[str] = set()  # nodes that may end
        for spec in specs:
            self.start(spec)

    def start(self, spec: NodeSpec) -> None:
        """Start or restart a node."""
        arguments = [sys.executable, '-m', f'{PACKAGE}.nodes', spec.name, '--ros-args']
        for key, value in spec.parameters.items():
            quoted = "''" if value == '' else value
            arguments += ['-p', f'{key}:={quoted}']
        self.ending.discard(spec.name)
        with self._log(spec.name).open('ab') as log:
            self.processes[spec.name] = subprocess.Popen(
                arguments, env=self._environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def check(self) -> None:
        """Raise NodeDiedError, with the end of its log, if a process has ended."""
        for name, process in self.processes.items():
            if name not in self.ending and process.poll() is not None:
                raise NodeDiedError(
                    f'node {name!r} ended with exit code {process.returncode}; its last output:\n'
                    + self.last_words(name)
                )

    def last_words(self, name: str) -> str:
        """Return the last lines of a node's log."""
        lines = self._log(name).read_text(encoding='utf-8', errors='replace').splitlines()
        return '\n'.join(lines[-_LAST_LINES:]) or '(nothing)'

    def end(self, name: str, number: int = signal.SIGINT) -> None:
        """Send a signal that ends a node."""
        self.ending.add(name)
        self.processes[name].send_signal(number)

    def stop(self) -> dict[str, int]:
        """Stop all processes, killing those that do not react; return their exit codes."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _GRACE_S
        for process in self.processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._temporary.close()
        return {name: process.returncode for name, process in self.processes.items()}

    def _log(self, name: str) -> Path:
        return self._folder / f'{name}.log'


def isolated_environment(domain: int | None = None) -> dict[str, str]:
    """Return this process's environment with an unused ROS domain, restricted to this machine."""
    here = Path(__file__).resolve().parents[3]
    paths = [str(here), *filter(None, [os.environ.get('PYTHONPATH')])]
    if domain is None and 'ROS_DOMAIN_ID' not in os.environ:
        domain = unused_domain()
    environment = {**middleware.settings(os.environ), **os.environ}
    if domain is not None:
        environment['ROS_DOMAIN_ID'] = str(domain)
    return {**environment, 'PYTHONPATH': os.pathsep.join(paths)}


def unused_domain() -> int:
    """Return a ROS domain whose ports are unused on this machine."""
    start = 37 * os.getpid()  # processes that start together try different domains
    for offset in range(100):
        domain = 1 + (start + offset) % 100  # domains that are valid on every system
        if _free(7400 + 250 * domain) and _free(7410 + 250 * domain):  # the ports of DDS
            return domain
    raise EmppiError('all ROS domains from 1 to 100 are in use: set ROS_DOMAIN_ID')


def _free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(('', port))
        except OSError:
            return False
    return True
