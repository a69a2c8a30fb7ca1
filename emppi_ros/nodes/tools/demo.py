"""`emppi demo`: the graph on this machine, without `launch`, and a recorder that watches it."""

from collections.abc import Callable
from pathlib import Path
import signal
import sys
import threading
import time
from typing import Any

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_srvs.srv import SetBool

from emppi_ros.bridge import faults
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.common import graph, middleware
from emppi_ros.nodes.tools.bag_recorder import BagRecorder
from emppi_ros.nodes.tools.process_group import Children, environment
from emppi_ros.nodes.tools.run_monitor import RunMonitor
from emppi_ros.sim.simulated_robot import draw_truth
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.report.recording import RunRecord

_START_S = 60.0  # for the graph to come up
_POLL_S = 0.02
_BUSY = {faults.PLAN_LATE, faults.PLANNER_SLOW, faults.STATE_LATE}
_MOST_HOLDS = 10


class DemoError(EmppiError):
    """The graph did not do what it should."""


def run_demo(
    task: str,
    duration_s: float | None = None,
    seed: int = 0,
    out: Path | None = None,
    progress: Callable[[float], None] | None = None,
    backend: str = '',
) -> tuple[dict[str, Any], RunRecord]:
    """
    Run a task as a graph of processes, in real time, until success or for its time.

    Parameters
    ----------
    task : str
        Name or path of the task.
    duration_s : float, optional
        Time allowed, from arming on; the task's own by default.
    seed : int
        Of the hidden truth, the sensors' noise, planner and belief.
    out : Path, optional
        Folder for what the nodes print, and for a bag, which replaces one that is there.
    progress : callable, optional
        Gets the seconds since arming.
    backend : str
        How the bridge talks to the simulator; by default as the robot's YAML says.

    Returns
    -------
    summary : dict
        What `emppi demo --json` prints.
    recording : RunRecord
        What the report is made from.

    Raises
    ------
    EmppiError
        If a node dies, or the graph does not come up.

    """
    loaded = load_task(task)
    _end_by_sigterm()
    middleware.set_up()
    surroundings = environment()
    context = rclpy.Context()
    context.init(domain_id=int(surroundings['ROS_DOMAIN_ID']))
    node = Node('recorder', context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    specs = graph.describe(task, '', seed, backend)
    bag = None if out is None else BagRecorder(node, out / 'bag', overwrite=True)
    children = Children(specs, surroundings, None if out is None else out / 'log')
    try:
        watch = _Watch(children, executor, node, RunMonitor(node, loaded), bag)
        watch.wait_for(watch.ready, _START_S)
        watch.arm(True)
        watch.record()
        watch.follow(duration_s or loaded.file.duration_s, progress)
        fault = watch.recorder.messages['bridge'] if watch.recorder.fault else ''
        watch.arm(False)
        watch.wait_for(watch.fresh_diagnostics(), 3.0)
        summary, recording = watch.recorder.summarize(draw_truth(loaded, seed))
        return {**summary, 'bridge_holds': watch.holds, 'bridge_fault': fault}, recording
    finally:
        children.stop()
        if bag is not None:
            bag.close()
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()


def _end_by_sigterm() -> None:
    """Let SIGTERM end the demo by an exception, so that the nodes are ended too."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class _Watch:
    """What goes on during a demo, step by step."""

    def __init__(
        self,
        children: Children,
        executor: SingleThreadedExecutor,
        node: Node,
        recorder: RunMonitor,
        bag: BagRecorder | None = None,
    ) -> None:
        self._bag = bag
        self._children, self._executor, self._node = children, executor, node
        self.recorder = recorder
        self.holds = 0  # times that the bridge held the arm
        self._arm = node.create_client(SetBool, 'emppi/arm')

    def ready(self) -> bool:
        """Return whether all nodes work, and all is heard here; DemoError if one cannot."""
        if self.recorder.problem:
            raise DemoError(self.recorder.problem)
        return self.recorder.complete and self._arm.service_is_ready()

    def fresh_diagnostics(self) -> Callable[[], bool]:
        """Return a condition: the planner has reported once more than by now."""
        before = self.recorder.diagnostics.get('planner')
        return lambda: self.recorder.diagnostics.get('planner') is not before

    def arm(self, armed: bool) -> None:
        """Call `emppi/arm`."""
        future = self._arm.call_async(SetBool.Request(data=armed))
        self.wait_for(future.done, 5.0)
        answer = future.result()
        if not answer.success:
            raise DemoError(f'emppi/arm: {answer.message}')

    def record(self) -> None:
        """Record from now on."""
        self.recorder.start(self._node.get_clock().now().nanoseconds * 1e-9)

    def follow(self, duration_s: float, progress: Callable[[float], None] | None) -> None:
        """Record until success, for a time, or until the arm is held for a person to look."""
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < duration_s:
            self._step()
            self._resume()
            if progress is not None:
                progress(elapsed)
            if self.recorder.success_time is not None or self._held:
                break

    @property
    def _held(self) -> bool:
        """Whether the bridge holds the arm for more than a busy machine."""
        fault = self.recorder.fault
        return bool(fault) and (fault not in _BUSY or self.holds >= _MOST_HOLDS)

    def _resume(self) -> None:
        """
        Acknowledge a fault that a busy machine brings about, and arm again, as a person would.

        Nobody is near a simulated arm; the summary tells how often.
        """
        if not self.recorder.fault or self._held:
            return
        self.holds += 1
        self.arm(False)
        self.wait_for(lambda: not self.recorder.fault, 5.0)
        self.arm(True)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Watch until a condition holds; DemoError with what nodes say if it never does."""
        began = time.monotonic()
        while not condition():
            self._step()
            if time.monotonic() - began > timeout_s:
                said = '; '.join(f'{k}: {v}' for k, v in self.recorder.messages.items())
                raise DemoError(
                    f'the graph did not come up in {timeout_s:g} s; it says: {said or "nothing"}'
                )

    def _step(self) -> None:
        self._executor.spin_once(timeout_sec=0.0)
        self.recorder.poll()
        if self._bag is not None:
            self._bag.poll()
        self._children.check()
        time.sleep(_POLL_S)
