"""
Drive the graph with a simulated FR3 for a while, and say how it went: `make soak MINUTES=30`.

What is counted: motions sent, reflexes, stops that nobody provoked, the bridge's period, and what
each process holds of memory, files and threads. Beside each stop stands for how long the machine
itself had woken nobody: see test/ros/faults/faultlab/witness.py.
"""

import argparse
import json
import multiprocessing
import os
from pathlib import Path
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / 'ros' / 'faults'))

from faultlab.witness import Witness, covered
from franka_graph import TASK, Graph, lighter
from franka_oracle import derivatives
import franka_processes

from emppi_ros.bridge import faults

_SAMPLE_S = 5.0
_WARM_UP_S = 600.0
_PAGE = os.sysconf('SC_PAGE_SIZE')
_BAD = ('held', 'stopping', 'inactive')
_BEFORE_S = 0.3  # a stop: what stood still then is its cause


def usage(pid):
    """Return memory (MB), open files and threads of a process."""
    base = Path('/proc') / str(pid)
    resident = int((base / 'statm').read_text().split()[1]) * _PAGE / 1e6
    return resident, len(list((base / 'fd').iterdir())), len(list((base / 'task').iterdir()))


def watch(graph, minutes):
    """Return rows (time, memory, files, threads) of each process, and arm again after stops."""
    pids = {name: graph.pid(name) for name in graph.specs}
    rows = {name: [] for name in pids}
    success, rearmed = [], 0
    began = time.monotonic()
    while time.monotonic() - began < 60.0 * minutes:
        time.sleep(_SAMPLE_S)
        now = time.monotonic() - began
        for name, pid in pids.items():
            rows[name].append((now, *usage(pid)))
        success.append(graph.sim.measure()['success'])
        if graph.says() in ('held', 'inactive'):
            rearmed += 1
            graph.start_moving()
    return rows, success, rearmed


def growth(rows, minutes):
    """Return MB an hour, by a line through what comes after warming up; nothing if too short."""
    rows = np.array(rows)
    late = rows[rows[:, 0] > min(_WARM_UP_S, 60.0 * minutes / 3)]
    return float(np.polyfit(late[:, 0] / 3600.0, late[:, 1], 1)[0])


def stood_still(stalls, moment):
    """Return for how long [ms] the machine woke nobody just before a moment (monotonic)."""
    moment += time.time() - time.monotonic()
    return round(1e3 * covered(stalls, moment - _BEFORE_S, moment), 1)


def robot_before(log, moment):
    """Return the robot's longest cycle [ms], and its missed commands, just before a moment."""
    begin = moment - _BEFORE_S
    near = log[(log['t'] > begin) & (log['t'] < moment)]
    longest = 1e3 * np.max(np.diff(near['t'], prepend=begin, append=moment))
    return round(float(longest), 1), int(near['extrapolated'].sum())


def summary(graph, minutes, watched, stalls):
    """Return the figures."""
    rows, success, rearmed = watched
    log, operator = graph.sim.log(), graph.operator
    robot_said = graph.sim.errors.read_text()
    long = np.diff(stalls)[:, 0] * 1e3
    period = np.diff(operator.stamps) * 1e3
    acceleration, jerk = derivatives(log)
    quantiles = {f'p{q:g}': float(np.percentile(period, q)) for q in (50, 99, 99.9, 100)}
    return {
        'minutes': minutes,
        'load_average': os.getloadavg()[2],
        'commands': {'bridge': len(operator.stamps), 'per_s': 1e3 / float(np.mean(period))},
        'at_1_khz': {'received': len(log), 'made_up_by_robot': int(log['extrapolated'].sum())},
        'most': {
            'acceleration': float(np.max(np.abs(acceleration))),
            'jerk': float(np.max(np.abs(jerk))),
        },
        'reflexes': robot_said.count('aborting the motion'),
        'robot_errors': graph.sim.measure()['errors'],
        'robot_said': [x for x in robot_said.splitlines() if 'INFO' not in x],
        # state, fault, reason; ms that the machine stood still; the robot's longest cycle [ms],
        # and the commands that it missed
        'stops': [
            (state, fault, *rest, stood_still(stalls, moment), *robot_before(log, moment))
            for moment, state, fault, *rest in operator.states
            if state in _BAD and fault
        ],
        'late_plans': [
            stood_still(stalls, moment)
            for moment, state, fault, *_ in operator.states
            if state == 'stopping' and not fault
        ],
        'machine_stood_still': {f'over_{k}_ms': int(np.sum(long > k)) for k in (5, 20, 50, 100)},
        'armed_again': rearmed,
        'bridge_period_ms': quantiles,
        'bridge_latency_ms': {k: graph.says(f'latency_ms_{k}') for k in ('p50', 'p99')},
        'command_success_rate': {'mean': float(np.mean(success)), 'least': min(success)},
        'processes': {
            name: {
                'mb': [round(x[1], 1) for x in r[:: round(60.0 / _SAMPLE_S)]],
                'mb_per_hour': growth(r, minutes),
                'files': sorted({x[2] for x in r[1:]}),
                'threads': sorted({x[3] for x in r[1:]}),
                'last_words': graph.children.last_words(name).splitlines(),
            }
            for name, r in rows.items()
        },
    }


def main():
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('--minutes', type=float, default=30.0)
    parser.add_argument('--out', type=Path, default=Path('out/soak.json'))
    parser.add_argument(
        '--full', action='store_true', help='the task as it is: robot and graph then need 4 cores'
    )
    parser.add_argument(
        '--allow-overload', action='store_true', help='stops of a busy machine are no failure'
    )
    arguments = parser.parse_args()
    if reason := franka_processes.missing():
        sys.exit(f'error: {reason}')
    with tempfile.TemporaryDirectory() as made_folder:
        folder = Path(made_folder)
        witness = Witness(multiprocessing.get_context('forkserver'))
        graph = Graph(folder, TASK if arguments.full else lighter(folder))
        try:
            graph.start_moving(300.0)  # on a busy machine it takes a while until all is warm
            time.sleep(_SAMPLE_S)
            graph.operator.stamps.clear()
            graph.operator.states.clear()
            watched = watch(graph, arguments.minutes)
            made = summary(graph, arguments.minutes, watched, witness.stalls())
        finally:
            made_codes = graph.close()
            witness.close()
        made['exit_codes'] = made_codes
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(made, indent=2)
    arguments.out.write_text(text + '\n')
    print(text)
    allowed = faults.OVERLOAD if arguments.allow_overload else ()
    if made['reflexes'] or any(fault not in allowed for _, fault, *_ in made['stops']):
        sys.exit('the robot, or the bridge, stopped though nothing was wrong')


if __name__ == '__main__':
    main()
