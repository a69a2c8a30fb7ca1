"""Benchmark of observers: planning times of one graph with and without them, in turns."""

from collections.abc import Callable, Iterator
import contextlib
from pathlib import Path
import re
import signal
import subprocess
import sys
import tempfile
import time

from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import MarkerArray

from benchmarks import headless_client
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import graph, process, qos
from emppi_ros.nodes.markers.conversion import COST
from emppi_ros.nodes.markers.node import BELIEF_MARKERS, BELIEF_POINTS, OBJECTS, ROLLOUTS
from emppi_ros.nodes.tools.process_group import ProcessGroup, isolated_environment
from emppi_ros.recordings.message_tables import statuses

KINDS = 'nobody', 'pictures', 'recorder', 'page'  # observers
_START_S, _SETTLE_S = 60.0, 6.0  # for the graph to start; for an observer to start
_PERCENTILES, _RESAMPLES = (50, 99), 1000  # of planning times; of the bootstrap
_MAX_ERROR = 2000  # characters, of a command that failed
_PICTURES = {
    BELIEF_MARKERS: MarkerArray, ROLLOUTS: MarkerArray, OBJECTS: MarkerArray,
    BELIEF_POINTS: PointCloud2, COST: DiagnosticArray,
}  # fmt: skip


class ObserverBenchmark:
    """A graph with its arm at rest, so that all turns have the same load."""

    def __init__(self, task: str, seed: int) -> None:
        self._environment = isolated_environment()
        domain = int(self._environment['ROS_DOMAIN_ID'])
        self._client = process.CommandNode('watcher', domain=domain)
        self._node = self._client.node
        self._plan_ms: list[float] = []
        take = self._take_diagnostics
        self._node.create_subscription(DiagnosticArray, '/diagnostics', take, qos.DEFAULT)
        specs = [*graph.describe(task, '', seed), graph.MARKERS]
        self._children = ProcessGroup(specs, self._environment, None)

    def warm_up(self) -> None:
        """Wait for the first plan; on timeout raise EmppiError with the planner's log."""
        end = time.monotonic() + _START_S
        while not self._plan_ms:
            self._spin(0.5)
            if time.monotonic() > end:
                log = self._children.last_words('planner')
                raise EmppiError(f'no plan within {_START_S:g} s; log of the planner:\n{log}')
        self._spin(_SETTLE_S)

    def turn(self, kind: str, seconds: float) -> list[float]:
        """Return planning times [ms] over a duration with one kind of observer."""
        with getattr(self, f'_{kind}')():
            self._spin(_SETTLE_S)
            self._plan_ms.clear()
            self._spin(seconds)
            return list(self._plan_ms)

    def close(self) -> None:
        """Stop all processes."""
        self._children.stop()
        self._client.close()

    @contextlib.contextmanager
    def _nobody(self) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def _pictures(self) -> Iterator[None]:
        """Receive all markers without reading them, as rviz on another machine would."""
        subscriptions = [
            self._node.create_subscription(kind, topic, lambda _: None, qos.NEWEST, raw=True)
            for topic, kind in _PICTURES.items()
        ]
        yield
        for subscription in subscriptions:
            self._node.destroy_subscription(subscription)

    @contextlib.contextmanager
    def _recorder(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            bag = Path(folder) / 'bag'
            with self._command('record', '--out', str(bag)) as recorder:
                end = time.monotonic() + _START_S
                while not bag.exists() and recorder.poll() is None and time.monotonic() < end:
                    self._spin(0.1)
                yield

    @contextlib.contextmanager
    def _page(self) -> Iterator[None]:
        """Receive everything that the page sends, as a browser on another machine would."""
        with self._command('view', '--ros', '--port', '0') as page:
            address = page.stdout.readline() if page.stdout is not None else ''
            match = re.search(r'127[.]0[.]0[.]1:(\d+)', address)
            if match is None:
                raise EmppiError(f'emppi view --ros printed no URL: {address!r}')
            with headless_client.connect_headless(int(match[1])):
                yield

    @contextlib.contextmanager
    def _command(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command of `emppi` beside the graph."""
        with tempfile.TemporaryFile('w+') as errors:
            process = subprocess.Popen(
                [sys.executable, '-u', '-m', 'emppi_ros.cli', *words], env=self._environment,
                stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
            try:
                yield process
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate()
            if process.returncode:
                errors.seek(0)
                raise EmppiError(f'emppi {words[0]} failed: {errors.read()[-_MAX_ERROR:]}')

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for name, _, values in statuses(message):
            if name == 'planner' and 'plan_ms_recent' in values:
                self._plan_ms += [float(value) for value in values['plan_ms_recent'].split()]

    def _spin(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._client.executor.spin_once(timeout_sec=0.05)
            self._children.check()


def measure(
    task: str, turns: int, seconds: float, seed: int, advance: Callable[[float], None]
) -> dict[str, list[list[float]]]:
    """Return planning times [ms] by kind of observer and turn."""
    times: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    with contextlib.closing(ObserverBenchmark(task, seed)) as bench:
        bench.warm_up()
        for turn in range(turns):
            # alternate the order: the speed of a machine drifts
            for kind in KINDS if turn % 2 == 0 else KINDS[::-1]:
                times[kind].append(bench.turn(kind, seconds))
                advance(sum(map(len, times.values())))
    return times


def summarize(times: dict[str, list[list[float]]]) -> dict[str, dict[str, float]]:
    """
    Return median and 99th percentile [ms] by kind of observer, and the increase over 'nobody'.

    Its standard error is a bootstrap over turns: plans of one turn are correlated.
    """
    rows: dict[str, dict[str, float]] = {}
    base = _quantiles(times['nobody'])
    for kind, turns in times.items():
        values = _quantiles(turns)
        more = 100.0 * (values / base - 1.0)
        error = 100.0 * np.std(_bootstrap(turns) / _bootstrap(times['nobody']), axis=0)
        rows[kind] = {'plans': sum(map(len, turns))}
        for i, q in enumerate(_PERCENTILES):
            rows[kind] |= {
                f'p{q}_ms': float(values[i]),
                f'p{q}_more_percent': float(more[i]),
                f'p{q}_more_error': float(error[i]) if kind != 'nobody' else 0.0,
            }
    return rows


def _quantiles(turns: list[list[float]]) -> Array:
    return np.percentile(np.concatenate(turns), _PERCENTILES)


def _bootstrap(turns: list[list[float]]) -> Array:
    """Return quantiles (n, 2) of turns drawn with replacement."""
    rng = np.random.default_rng(0)
    picks = rng.integers(len(turns), size=(_RESAMPLES, len(turns)))
    return np.array([_quantiles([turns[i] for i in pick]) for pick in picks])
