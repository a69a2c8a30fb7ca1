"""The graph of `emppi demo`: node processes on this machine, monitored and recorded."""

from collections.abc import Callable, Sequence
import contextlib
import dataclasses
from pathlib import Path
import signal
import sys
import tempfile
import threading
import time
from typing import Any

from rclpy.client import Client
from std_srvs.srv import SetBool

from emppi_ros.bridge import faults
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import graph, process
from emppi_ros.nodes.tools.bag_recorder import BagRecorder
from emppi_ros.nodes.tools.process_group import ProcessGroup, isolated_environment
from emppi_ros.nodes.tools.run_monitor import RunMonitor
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.report.recording import RunRecord
from emppi_ros.viz.simulated_camera import depth_camera

_START_S = 60.0  # for the graph to start
_ANSWER_S = 30.0  # of a node; on a busy machine it takes a while
_POLL_S = 0.02
_MAX_HOLDS = 10
# the arm is simulated: on a slow machine it may follow older plans than a real arm
_PATIENT = {'plan_timeout_s': 0.3, 'rest_within_s': 0.6, 'plan_lost_s': 0.6, 'late_plans': 1000}
_JOINT = 'joint '  # before the name of an object, in diagnostics
SEEN = 'seen_{task}.yaml'  # the prior from joints that were seen
_OF_TRACKER = ('images', 'rate_hz', 'track_ms_p50', 'latency_ms_p50', 'latency_ms_p95')


class DemoError(EmppiError):
    """The graph did not start, or refused a request."""


def run_demo(
    task: str,
    duration_s: float | None = None,
    seed: int = 0,
    out: Path | None = None,
    progress: Callable[[float], None] | None = None,
    backend: str = '',
    prior: str = '',
    truth: Sequence[str] = (),
    tracking: str = graph.TRUTH,
    articulation: bool = False,
) -> tuple[dict[str, Any], RunRecord]:
    """
    Run a task as a graph of processes in real time, until success or a time limit.

    `duration_s` counts from arming on and is the task's own by default; `progress` gets the
    seconds since arming. A folder `out` receives the logs of the nodes and a bag, which replaces
    an existing one. Without a name in `backend` the robot's own connects bridge and simulator.
    `prior` names a prior file; `truth` has true values such as `block_mass=0.3`; `tracking` says
    where poses of objects come from, one of `graph.TRACKING`. With `articulation` the joints of
    objects are inferred while they move, and the belief starts again from them; their prior is
    written to `out`.
    Return the summary that `emppi demo --json` prints, and the data of the report. EmppiError if a
    node dies, or the graph does not start.
    """
    loaded = load_task(task).with_prior(prior)
    _exit_on_sigterm()
    environment = isolated_environment()
    client = process.CommandNode('recorder', domain=int(environment['ROS_DOMAIN_ID']))
    scratch = contextlib.ExitStack()
    if articulation:
        folder = out or Path(scratch.enter_context(tempfile.TemporaryDirectory()))
        prior = str(folder / SEEN)
    specs = graph.describe(task, '', seed, backend, False, prior, tracking=tracking)
    if articulation:
        specs.append(graph.articulation(prior))
    more: dict[str, dict[str, Any]] = {'bridge': _PATIENT}  # parameters of nodes
    if truth:
        more['simulator'] = {'truth': list(truth)}
    if tracking == graph.DEPTH:
        view = depth_camera(loaded, loaded.visual_model())  # /tf_static needs tf2_msgs
        more['tracker'] = {
            'camera_position': list(view.position),
            'camera_quaternion': view.quaternion.tolist(),
        }
    specs = [
        dataclasses.replace(spec, parameters={**spec.parameters, **more.get(spec.name, {})})
        for spec in specs
    ]
    bag = None if out is None else BagRecorder(client.node, out / 'bag', overwrite=True)
    children = ProcessGroup(specs, environment, None if out is None else out / 'log')
    try:
        session = _DemoSession(children, client, RunMonitor(client.node, loaded), bag)
        session.wait_for(session.ready, 'the graph did not start', _START_S)
        session.arm(True)
        session.record()
        session.follow(duration_s or loaded.file.duration_s, progress)
        code = session.monitor.fault
        fault = session.monitor.messages['bridge'] if code else ''
        session.arm(False)
        session.wait_for(session.fresh_diagnostics(), 'no diagnostics of the planner')
        summary, record = session.monitor.summarize()
        # the robot is disarmed after success, and lets go
        record = record.until_success()
        summary |= {
            'belief_updates': len(record.belief_times),
            'bridge_holds': session.holds,
            'bridge_fault': fault,
            'bridge_fault_code': code,
        }
        if tracking == graph.DEPTH:
            values = session.monitor.diagnostics.get('tracker', {})
            summary['tracker'] = {k: float(values.get(k, 'nan')) for k in _OF_TRACKER}
        if articulation:
            values = session.monitor.diagnostics.get('articulation', {})
            summary['articulation'] = {
                name: values.get(f'{_JOINT}{name}', 'undecided') for name in loaded.tracked
            }
        return summary, record
    finally:
        children.stop()
        if bag is not None:
            bag.close()
        client.close()
        scratch.close()


def _exit_on_sigterm() -> None:
    """Turn SIGTERM into an exception, so that the nodes are stopped too."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class _DemoSession:
    """The steps of a demo."""

    def __init__(
        self,
        children: ProcessGroup,
        client: process.CommandNode,
        monitor: RunMonitor,
        bag: BagRecorder | None,
    ) -> None:
        self._children, self._client = children, client
        self.monitor, self._bag = monitor, bag
        self.holds = 0  # times that the bridge held the arm
        self._arm: Client[SetBool.Request, SetBool.Response] = client.node.create_client(
            SetBool, 'emppi/arm'
        )

    def ready(self) -> bool:
        """Return whether all nodes publish; DemoError if one cannot be configured."""
        if self.monitor.problem:
            raise DemoError(self.monitor.problem)
        return self.monitor.complete and self._arm.service_is_ready()

    def fresh_diagnostics(self) -> Callable[[], bool]:
        """Return a condition that holds once the planner has published new diagnostics."""
        before = self.monitor.diagnostics.get('planner')
        return lambda: self.monitor.diagnostics.get('planner') is not before

    def arm(self, armed: bool) -> None:
        """Call `emppi/arm`."""
        future = self._arm.call_async(SetBool.Request(data=armed))
        self.wait_for(future.done, 'no answer from emppi/arm')
        answer = future.result()
        if answer is None or not answer.success:
            raise DemoError(f'emppi/arm: {"no answer" if answer is None else answer.message}')

    def record(self) -> None:
        """Record from now on."""
        self.monitor.start(self._client.node.get_clock().now().nanoseconds * 1e-9)

    def follow(self, duration_s: float, progress: Callable[[float], None] | None) -> None:
        """Record until success, a time limit, or a fault that needs an operator."""
        start = time.monotonic()
        while (elapsed := time.monotonic() - start) < duration_s:
            self._step()
            self._resume()
            if progress is not None:
                progress(elapsed)
            if self.monitor.success_time is not None or self._held:
                break

    @property
    def _held(self) -> bool:
        """Whether the bridge holds the arm for another reason than an overloaded machine."""
        fault = self.monitor.fault
        return bool(fault) and (fault not in faults.OVERLOAD or self.holds >= _MAX_HOLDS)

    def _resume(self) -> None:
        """
        Acknowledge a fault that an overloaded machine causes, and arm again, as an operator would.

        The arm is simulated, so this is safe; the summary counts it.
        """
        if not self.monitor.fault or self._held:
            return
        self.holds += 1
        self.arm(False)
        self.wait_for(lambda: not self.monitor.fault, 'the fault was not acknowledged')
        self.arm(True)

    def wait_for(
        self, condition: Callable[[], bool], problem: str, timeout_s: float = _ANSWER_S
    ) -> None:
        """Wait for a condition; on timeout raise DemoError with the nodes' diagnostics."""
        start = time.monotonic()
        while not condition():
            self._step()
            if time.monotonic() - start > timeout_s:
                status = '; '.join(f'{k}: {v}' for k, v in self.monitor.messages.items())
                raise DemoError(
                    f'{problem} within {timeout_s:g} s; diagnostics: {status or "none"}'
                )

    def _step(self) -> None:
        self._client.executor.spin_once(timeout_sec=0.0)
        self.monitor.poll()
        if self._bag is not None:
            self._bag.poll()
        self._children.check()
        time.sleep(_POLL_S)
