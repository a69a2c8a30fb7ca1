"""The graph of `emppi demo`: node processes on this machine, monitored and recorded."""

from collections.abc import Callable, Sequence
import contextlib
import dataclasses
import functools
from pathlib import Path
import signal
import sys
import tempfile
import threading
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
import numpy as np
from rclpy.client import Client
from rclpy.node import Node
from sensor_msgs.msg import JointState, PointCloud2
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory

from emppi_ros.bridge import faults
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError
from emppi_ros.journal.journal import Measurements
from emppi_ros.nodes.common import graph, process, qos
from emppi_ros.nodes.common.inputs import APPLIED, PLAN, MeasurementInputs
from emppi_ros.nodes.common.polling import PolledSubscription
from emppi_ros.nodes.tools.bag_recorder import BagRecorder
from emppi_ros.nodes.tools.process_group import ProcessGroup, isolated_environment
from emppi_ros.nodes.topics.belief_cloud import BELIEF
from emppi_ros.tasks.task import Task, load_task
from emppi_ros.viz.renderer import depth_camera
from emppi_ros.viz.report.recording import RunObserver, RunRecord

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

    `duration_s` and the seconds that `progress` gets count from arming. A folder `out` receives
    logs, a bag, which replaces an existing one, and with `articulation`, where the belief starts
    again from joints that are inferred while they move, their prior. Returns the summary that
    `emppi demo --json` prints, and the data of the report. EmppiError if a node dies, or the graph
    does not start.
    """
    loaded = load_task(task).with_prior(prior)
    _exit_on_sigterm()
    environment = isolated_environment()
    with contextlib.ExitStack() as stack:
        if articulation:
            folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            prior = str(folder / SEEN)
        specs = graph.describe(task, '', seed, backend, False, prior, tracking=tracking)
        if articulation:
            specs.append(graph.articulation(prior))
        more: dict[str, dict[str, Any]] = {'bridge': _PATIENT}  # parameters of nodes
        more['simulator'] = {'truth': list(truth)} if truth else {}
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
        client = process.CommandNode('recorder', domain=int(environment['ROS_DOMAIN_ID']))
        stack.callback(client.close)
        bag = None if out is None else BagRecorder(client.node, out / 'bag', overwrite=True)
        if bag is not None:
            stack.callback(bag.close)
        children = ProcessGroup(specs, environment, None if out is None else out / 'log')
        stack.callback(children.stop)
        session = _DemoSession(children, client, loaded, bag)
        session.wait_for(session.ready, 'the graph did not start', _START_S)
        session.arm(True)
        session.start(client.node.get_clock().now().nanoseconds * 1e-9)
        session.follow(duration_s or loaded.file.duration_s, progress)
        code = session.fault
        fault = session.messages['bridge'] if code else ''
        session.arm(False)
        before = session.diagnostics.get('planner')
        session.wait_for(
            lambda: session.diagnostics.get('planner') is not before,
            'no diagnostics of the planner',
        )
        summary, record = session.summarize()
        record = record.until_success()  # then the robot is disarmed, and lets go
        summary |= {
            'belief_updates': len(record.belief_times),
            'bridge_holds': session.holds,
            'bridge_fault': fault,
            'bridge_fault_code': code,
        }
        if tracking == graph.DEPTH:
            values = session.diagnostics.get('tracker', {})
            summary['tracker'] = {k: float(values.get(k, 'nan')) for k in _OF_TRACKER}
        if articulation:
            values = session.diagnostics.get('articulation', {})
            summary['articulation'] = {
                name: values.get(f'{_JOINT}{name}', 'undecided') for name in loaded.tracked
            }
        return summary, record


def _exit_on_sigterm() -> None:
    """Turn SIGTERM into an exception, so that the nodes are stopped too."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class _RecordedMeasurements(Measurements):
    """Measurements that an observer records one by one, however rarely they are polled."""

    def __init__(self, task: Task, observer: RunObserver) -> None:
        super().__init__(task)
        self._observer = observer

    def add_joints(self, stamp: float, position: Array, velocity: Array) -> None:
        """Add a joint state, and record the state of that time."""
        super().add_joints(stamp, position, velocity)
        self._observer.record_state(self.estimator)

    def add_pose(self, name: str, stamp: float, position: Array, quaternion: Array) -> None:
        """Add a tracked pose, and record the state of that time."""
        super().add_pose(name, stamp, position, quaternion)
        self._observer.record_state(self.estimator)


class RunMonitor(RunObserver):
    """Records a run from its topics, from the call of `start` on."""

    def __init__(self, node: Node, task: Task) -> None:
        super().__init__(task)
        self._inputs = MeasurementInputs(node, task, _RecordedMeasurements(task, self))
        topics = (
            (PointCloud2, BELIEF, qos.EVERY),
            (JointTrajectory, PLAN, qos.DEFAULT),
            (JointState, APPLIED, qos.DEFAULT),
            (DiagnosticArray, '/diagnostics', qos.DEFAULT),
        )
        self._subscriptions = [
            PolledSubscription(node, kind, topic, functools.partial(self.take, topic), profile)
            for kind, topic, profile in topics
        ]

    @property
    def complete(self) -> bool:
        """Whether all nodes publish and the belief is updated."""
        updates = int(self.diagnostics.get('belief', {}).get('updates', 0))
        return (
            all(self.rows[name] for name in (PLAN, APPLIED, 'beliefs'))
            and {'planner', 'bridge', 'simulator'} <= set(self.diagnostics)
            and np.isfinite(self._inputs.estimator.stamp)
            and (updates > 0 or not self._task.parameters)
        )

    @property
    def problem(self) -> str:
        """Why a node could not be configured or activated, '' if all could."""
        problems = ((name, values.get('problem')) for name, values in self.diagnostics.items())
        return '; '.join(f'{name}: {problem}' for name, problem in problems if problem)

    @property
    def fault(self) -> str:
        """Code of the bridge's fault, '' without one."""
        return self.diagnostics.get('bridge', {}).get('fault', '')

    def poll(self) -> None:
        """Process received messages."""
        self._inputs.poll()
        for subscription in self._subscriptions:
            subscription.poll()


class _DemoSession(RunMonitor):
    """The steps of a demo."""

    def __init__(
        self,
        children: ProcessGroup,
        client: process.CommandNode,
        task: Task,
        bag: BagRecorder | None,
    ) -> None:
        super().__init__(client.node, task)
        self._children, self._client, self._bag = children, client, bag
        self.holds = 0  # times that the bridge held the arm
        self._arm: Client[SetBool.Request, SetBool.Response] = client.node.create_client(
            SetBool, 'emppi/arm'
        )

    def ready(self) -> bool:
        """Return whether all nodes publish; DemoError if one cannot be configured."""
        if self.problem:
            raise DemoError(self.problem)
        return self.complete and self._arm.service_is_ready()

    def arm(self, armed: bool) -> None:
        """Call `emppi/arm`."""
        future = self._arm.call_async(SetBool.Request(data=armed))
        self.wait_for(future.done, 'no answer from emppi/arm')
        answer = future.result()
        if answer is None or not answer.success:
            raise DemoError(f'emppi/arm: {"no answer" if answer is None else answer.message}')

    def follow(self, duration_s: float, progress: Callable[[float], None] | None) -> None:
        """Record until success, a time limit, or a fault that needs an operator."""
        start = time.monotonic()
        while (elapsed := time.monotonic() - start) < duration_s:
            self._step()
            self._resume()
            if progress is not None:
                progress(elapsed)
            if self.success_time is not None or self._stopped:
                break

    @property
    def _stopped(self) -> bool:
        """Whether the bridge holds the arm for another reason than an overloaded machine."""
        return bool(self.fault) and (self.fault not in faults.OVERLOAD or self.holds >= _MAX_HOLDS)

    def _resume(self) -> None:
        """Acknowledge a fault of an overloaded machine, and arm again; the arm is simulated."""
        if not self.fault or self._stopped:
            return
        self.holds += 1
        self.arm(False)
        self.wait_for(lambda: not self.fault, 'the fault was not acknowledged')
        self.arm(True)

    def wait_for(
        self, condition: Callable[[], bool], problem: str, timeout_s: float = _ANSWER_S
    ) -> None:
        """Wait for a condition; on timeout raise DemoError with the nodes' diagnostics."""
        start = time.monotonic()
        while not condition():
            self._step()
            if time.monotonic() - start > timeout_s:
                status = '; '.join(f'{k}: {v}' for k, v in self.messages.items())
                raise DemoError(
                    f'{problem} within {timeout_s:g} s; diagnostics: {status or "none"}'
                )

    def _step(self) -> None:
        self._client.executor.spin_once(timeout_sec=0.0)
        self.poll()
        if self._bag is not None:
            self._bag.poll()
        self._children.check()
        time.sleep(_POLL_S)
