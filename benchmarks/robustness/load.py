"""
Compute the row of a cell on a loaded machine: the ROS 2 graph of a task, in real time.

Busy processes of normal priority run beside the nodes, each in a session of its own, so that the
kernel's autogroups do not favour the nodes.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
import contextlib
import ctypes
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.robustness.runs import RobustnessCell, RobustnessRow
from benchmarks.robustness.sweeps import SWEEPS
from benchmarks.study import computed
from emppi_ros.core.errors import EmppiError
from emppi_ros.tasks.task import parse_task

_BURN = 'while True: pass'
NO_RUN = 'the graph did not start, or a node ended'
_PR_CAPBSET_DROP, _CAP_SYS_NICE = 24, 23  # linux/prctl.h, linux/capability.h
RunGraph = Callable[..., tuple[dict[str, Any], Any]]  # `nodes.tools.demo.run_demo`


def compute(cell: RobustnessCell, run_graph: RunGraph) -> RobustnessRow:
    """
    Return the row of a cell, computed in a process of its own.

    A graph that does not start, or one of whose nodes ends, is a run without success.
    """
    context = multiprocessing.get_context('spawn')
    with (
        busy_processes(round(cell.values[0] * (os.cpu_count() or 1))),
        ProcessPoolExecutor(1, context) as pool,
    ):
        return pool.submit(_run, cell, run_graph).result()


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run `count` processes that are busy until the end of the context."""
    burners = [
        subprocess.Popen([sys.executable, '-c', _BURN], start_new_session=True)
        for _ in range(count)
    ]
    try:
        yield burners
    finally:
        for burner in burners:
            burner.kill()
        for burner in burners:
            burner.wait()


def _run(cell: RobustnessCell, run_graph: RunGraph) -> RobustnessRow:
    """Run the graph from this process, which ends after it."""
    began = time.perf_counter()
    if not SWEEPS[cell.sweep].real_time_priority:
        forbid_real_time_priority()
    limit = parse_task(cell.text, cell.task).file.duration_s
    results: dict[str, Any] = {'success': False, 'time_s': limit}
    try:
        summary, _ = run_graph(cell.task, limit, cell.seed)
    except EmppiError:
        results['fault'] = NO_RUN
    else:
        if summary['success']:
            results = {'success': True, 'time_s': summary['time_s']}
        results |= {
            'fault': summary['bridge_fault_code'],
            'missed': summary['deadline_misses'],
            'holds': summary['bridge_holds'],
        }
    return RobustnessRow(**computed(cell, began), **results, limit_s=limit)


def forbid_real_time_priority() -> None:
    """
    Take the permission for real-time priorities from the processes that this one will start.

    Linux only; it cannot be given back. For root it is a capability, for others a limit.
    """
    for limit in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):
        resource.setrlimit(limit, (0, 0))
    ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_SYS_NICE, 0, 0, 0)
