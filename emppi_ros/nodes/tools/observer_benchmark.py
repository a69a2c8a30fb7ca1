"""What it costs the planner that somebody looks, or records: one graph, in turns."""

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
import numpy.typing as npt
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import MarkerArray

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import graph, middleware, qos
from emppi_ros.nodes.markers.node import BELIEF_MARKERS, BELIEF_POINTS, OBJECTS, ROLLOUTS
from emppi_ros.nodes.tools.process_group import Children, environment
from emppi_ros.nodes.topics.cost import COST
from emppi_ros.session.message_tables import statuses
from emppi_ros.viz.web import headless_client

Array = npt.NDArray[np.float64]
KINDS = 'nobody', 'pictures', 'recorder', 'page'  # who watches
_START_S, _SETTLE_S = 60.0, 6.0  # until all works; until those who begin to look have begun
_Q, _AGAIN = (50, 99), 1000  # percentiles; bootstrap
_LAST_WORDS = 2000  # characters, of a command that failed
_PICTURES = {
    BELIEF_MARKERS: MarkerArray, ROLLOUTS: MarkerArray, OBJECTS: MarkerArray,
    BELIEF_POINTS: PointCloud2, COST: DiagnosticArray,
}  # fmt: skip


class Bench:
    """A graph whose arm rests, so that all turns have the same work."""

    def __init__(self, task: str, seed: int) -> None:
        """Start it in processes of its own."""
        middleware.set_up()
        self._surroundings = environment()
        self._context = rclpy.Context()
        self._context.init(domain_id=int(self._surroundings['ROS_DOMAIN_ID']))
        self._node = Node('watcher', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._plan_ms: list[float] = []
        self._node.create_subscription(DiagnosticArray, '/diagnostics', self._hear, qos.DEFAULT)
        specs = [*graph.describe(task, '', seed), graph.MARKERS]
        self._children = Children(specs, self._surroundings, None)

    def warm_up(self) -> None:
        """Return when plans are made; EmppiError, with what the planner said, if none are."""
        end = time.monotonic() + _START_S
        while not self._plan_ms:
            self._spin(0.5)
            if time.monotonic() > end:
                said = self._children.last_words('planner')
                raise EmppiError(f'no plan within {_START_S:g} s; the planner said:\n{said}')
        self._spin(_SETTLE_S)

    def turn(self, kind: str, seconds: float) -> list[float]:
        """Return what plans took [ms] for a time, while that kind of watcher is there."""
        with getattr(self, f'_{kind}')():
            self._spin(_SETTLE_S)
            self._plan_ms.clear()
            self._spin(seconds)
            return list(self._plan_ms)

    def close(self) -> None:
        """End all processes."""
        self._children.stop()
        self._executor.shutdown()
        self._node.destroy_node()
        self._context.try_shutdown()

    @contextlib.contextmanager
    def _nobody(self) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def _pictures(self) -> Iterator[None]:
        """Take every picture, unread: rviz draws on a processor, or a machine, of its own."""
        ears = [
            self._node.create_subscription(kind, topic, lambda _: None, qos.NEWEST, raw=True)
            for topic, kind in _PICTURES.items()
        ]
        yield
        for ear in ears:
            self._node.destroy_subscription(ear)

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
        """Take all that the live page sends; a browser draws on a processor of its own."""
        with self._command('view', '--ros', '--port', '0') as page:
            address = page.stdout.readline()
            found = re.search(r'127[.]0[.]0[.]1:(\d+)', address)
            if found is None:
                raise EmppiError(f'emppi view --ros gave no address, but {address!r}')
            with headless_client.connect_headless(int(found[1])):
                yield

    @contextlib.contextmanager
    def _command(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Run one of `emppi`'s commands beside the graph."""
        with tempfile.TemporaryFile('w+') as errors:
            process = subprocess.Popen(
                [sys.executable, '-u', '-m', 'emppi_ros.cli', *words], env=self._surroundings,
                stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
            try:
                yield process
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate()
            if process.returncode:
                errors.seek(0)
                raise EmppiError(f'emppi {words[0]} failed: {errors.read()[-_LAST_WORDS:]}')

    def _hear(self, message: DiagnosticArray) -> None:
        for name, _, values in statuses(message):
            if name == 'planner' and 'plan_ms_recent' in values:
                self._plan_ms += [float(value) for value in values['plan_ms_recent'].split()]

    def _spin(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._executor.spin_once(timeout_sec=0.05)
            self._children.check()


def measure(
    task: str, turns: int, seconds: float, seed: int, advance: Callable[[float], None]
) -> dict[str, list[list[float]]]:
    """Return what plans took [ms], turn by turn of each kind."""
    bench = Bench(task, seed)
    found: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    try:
        bench.warm_up()
        for turn in range(turns):
            # first and last change places, for a machine gets slower and faster by itself
            for kind in KINDS if turn % 2 == 0 else KINDS[::-1]:
                found[kind].append(bench.turn(kind, seconds))
                advance(sum(map(len, found.values())))
    finally:
        bench.close()
    return found


def summarize(found: dict[str, list[list[float]]]) -> dict[str, dict[str, float]]:
    """
    Return plans, median and 99th percentile [ms] of each kind, and how far above nobody's.

    With the standard error of that (bootstrap of turns): plans of one turn are alike.
    """
    rows = {}
    base = _quantiles(found['nobody'])
    for kind, turns in found.items():
        values = _quantiles(turns)
        more = 100.0 * (values / base - 1.0)
        error = 100.0 * np.std(_again(turns) / _again(found['nobody']), axis=0)
        rows[kind] = {'plans': sum(map(len, turns))}
        for i, q in enumerate(_Q):
            rows[kind] |= {
                f'p{q}_ms': float(values[i]),
                f'p{q}_more_percent': float(more[i]),
                f'p{q}_more_error': float(error[i]) if kind != 'nobody' else 0.0,
            }
    return rows


def _quantiles(turns: list[list[float]]) -> Array:
    return np.percentile(np.concatenate(turns), _Q)


def _again(turns: list[list[float]]) -> Array:
    """Return quantiles (n, 2) of as many turns, drawn from these with replacement."""
    rng = np.random.default_rng(0)
    picks = rng.integers(len(turns), size=(_AGAIN, len(turns)))
    return np.array([_quantiles([turns[i] for i in pick]) for pick in picks])
