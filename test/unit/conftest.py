"""Pictures are made where they can be, and clusters are real ones."""

from collections.abc import Iterator
import contextlib
import json
import os
from pathlib import Path
import subprocess
import sys
import time

import pytest

from emppi_ros.priors import prior_file
from emppi_ros.priors.prior_file import ParameterPrior, PriorFile
from emppi_ros.viz import renderer as rendering


@pytest.fixture(scope='session')
def renderer():
    """Skip on a machine without off-screen rendering."""
    try:
        rendering.check_renderer()
    except rendering.RenderError:
        pytest.skip('no off-screen rendering on this machine')


@pytest.fixture
def prior_path(tmp_path):
    """Return the path of a prior file with two masses, 1.25 and 2.5, weighted 3 to 1."""
    path = tmp_path / 'prior.yaml'
    values = ParameterPrior('kg', values=(1.25, 2.5))
    prior_file.write(path, PriorFile('test', (), {'mass': values}, (3.0, 1.0)))
    return str(path)


class Cluster:
    """A scheduler and workers of its own, each a process on this machine."""

    def __init__(self, folder: Path) -> None:
        """Start it."""
        self._file = folder / 'scheduler.json'
        self._processes = {'scheduler': self._start('scheduler', '--port', '0')}
        self.add_worker()
        self.address = ''

    def wait(self) -> None:
        """Wait until the scheduler has written where it is, all of it."""
        while not self.address:
            assert self._processes['scheduler'].poll() is None
            time.sleep(0.05)
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                self.address = json.loads(self._file.read_text())['address']

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen:
        command = [
            sys.executable, '-m', f'distributed.cli.dask_{kind}', '--host', '127.0.0.1',
            '--scheduler-file', str(self._file), '--no-dashboard', *arguments,
        ]  # fmt: skip
        environment = {**os.environ, 'OMP_NUM_THREADS': '1'}
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def add_worker(self) -> None:
        """Start a worker with two threads."""
        self._processes['worker'] = self._start(
            'worker', '--nthreads', '2', '--no-nanny', '--local-directory', str(self._file.parent)
        )

    def kill(self, *kinds: str) -> None:
        """Kill the scheduler, or the worker that was added last."""
        for kind in kinds:
            self._processes[kind].kill()
            self._processes[kind].wait()

    def stop(self) -> None:
        """Kill all."""
        self.kill(*self._processes)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Return a cluster of one worker with two threads."""
    pytest.importorskip('distributed', reason='Dask is not installed (extra `cluster`)')
    started = Cluster(tmp_path)
    try:
        started.wait()
        yield started
    finally:
        started.stop()
