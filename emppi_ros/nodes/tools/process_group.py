"""Nodes as child processes: started together, watched, and ended in order."""

from collections.abc import Mapping, Sequence
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
from emppi_ros.nodes.common.graph import NodeSpec

_GRACE_S = 3.0  # from SIGINT to SIGKILL
_LAST_LINES = 15


class NodeDiedError(EmppiError):
    """A node's process ended by itself."""


class Children:
    """The processes of a graph; what they print goes to a file each."""

    def __init__(
        self, specs: Sequence[NodeSpec], environment: Mapping[str, str], folder: Path | None
    ) -> None:
        """Start them all."""
        self._temporary = tempfile.TemporaryDirectory() if folder is None else None
        self._folder = Path(self._temporary.name) if folder is None else folder
        self._folder.mkdir(parents=True, exist_ok=True)
        self._environment = dict(environment)
        self._processes: dict[str, subprocess.Popen] = {}
        self._ending: set[str] = set()
        for spec in specs:
            self.start(spec)

    def start(self, spec: NodeSpec) -> None:
        """Start one node, for the first time or again."""
        arguments = [sys.executable, '-m', spec.module, '--ros-args']
        for key, value in spec.parameters.items():
            arguments += ['-p', f'{key}:={_as_yaml(value)}']
        self._ending.discard(spec.name)
        with self._log(spec.name).open('ab') as log:
            self._processes[spec.name] = subprocess.Popen(
                arguments, env=self._environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def check(self) -> None:
        """Raise NodeDiedError, with its last words, if a process has ended."""
        for name, process in self._processes.items():
            if name not in self._ending and process.poll() is not None:
                raise NodeDiedError(
                    f'node {name!r} ended with exit code {process.returncode}; it said:\n'
                    + self.last_words(name)
                )

    def last_words(self, name: str) -> str:
        """Return the last lines that a node printed."""
        lines = self._log(name).read_text(encoding='utf-8', errors='replace').splitlines()
        return '\n'.join(lines[-_LAST_LINES:]) or '(nothing)'

    def expect_end(self, name: str) -> None:
        """Let `check` find nothing wrong with the end of a node."""
        self._ending.add(name)

    def end(self, name: str, number: int = signal.SIGINT) -> None:
        """Ask one node to end."""
        self.expect_end(name)
        self._processes[name].send_signal(number)

    def suspend(self, name: str) -> None:
        """Let one node hang."""
        self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Let it go on."""
        self._processes[name].send_signal(signal.SIGCONT)

    def code(self, name: str) -> int | None:
        """Return the exit code of one node, None while it runs."""
        return self._processes[name].poll()

    def stop(self) -> dict[str, int]:
        """End all processes, by force where they do not; return their exit codes."""
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _GRACE_S
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._temporary is not None:
            self._temporary.cleanup()
        return {name: process.returncode for name, process in self._processes.items()}

    def _log(self, name: str) -> Path:
        return self._folder / f'{name}.log'


def environment(domain: int | None = None) -> dict[str, str]:
    """Return this process's environment, with a domain of its own and on this machine only."""
    here = Path(__file__).resolve().parents[3]
    paths = [str(here), *filter(None, [os.environ.get('PYTHONPATH')])]
    if domain is None and 'ROS_DOMAIN_ID' not in os.environ:
        domain = unused_domain()
    chosen = {} if domain is None else {'ROS_DOMAIN_ID': str(domain)}
    return {
        **middleware.settings(os.environ),
        **os.environ,
        **chosen,
        'PYTHONPATH': os.pathsep.join(paths),
    }


def unused_domain() -> int:
    """Return a ROS domain on whose ports nobody on this machine listens."""
    start = 37 * os.getpid()  # so that two begun together try different ones, far apart
    for offset in range(100):
        domain = 1 + (start + offset) % 100  # the domains that are safe on every system
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


def _as_yaml(value: object) -> str:
    """Return a parameter as the command line takes it; an empty string needs its quotes."""
    return "''" if value == '' else str(value)
