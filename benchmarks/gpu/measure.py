"""Measure one part on a device: `python -m benchmarks.gpu.measure PART`, which appends rows."""

import argparse
from collections.abc import Callable, Iterator, Sequence
import copy
import importlib
import importlib.metadata
import itertools
import json
from pathlib import Path
import time
from typing import Any

import mujoco
import numpy as np
import yaml

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.calibration.planner_overhead import RecordedPlanner, stepping_s
from emppi_ros.core import cores
from emppi_ros.core.errors import EmppiError
from emppi_ros.model.ensemble import State
from emppi_ros.priors import particles
from emppi_ros.state.time_series import TimeSeries
from emppi_ros.tasks.task import Task, load_task, parse_task

MODELS = 10  # of a plan, as in panda_push
MOTION_S = 1.0  # simulated time before plans are timed: the arm pushes then
Row = dict[str, Any]


def main() -> None:
    """Append a row for each size; a size that fails is a row, too."""
    parser = argparse.ArgumentParser()
    parser.add_argument('part', choices=PARTS)
    for name in ('task', 'device', 'sizes', 'rows'):
        parser.add_argument(f'--{name}', required=True)
    parser.add_argument('--quick', action='store_true')
    options = parser.parse_args()
    repeats = 2 if options.quick else 20
    row: Row
    for size in map(int, options.sizes.split(',')):
        common = {'part': options.part, 'task': options.task, 'n': size}
        try:
            for row in PARTS[options.part](options.task, options.device, size, repeats):
                _append(options.rows, common | row)
        except (EmppiError, RuntimeError, MemoryError) as error:
            text = f'{type(error).__name__}: {error}'[:200]
            part = f'{options.part} {options.task} {size}'
            _append(options.rows, {'part': part, 'failed': text})


def _append(path: str, row: Row) -> None:
    with Path(path).open('a', encoding='utf-8') as file:
        file.write(json.dumps(row) + '\n')


def measure_plan(name: str, device: str, size: int, repeats: int) -> Iterator[Row]:
    """
    Time plans with `size` rollouts, and stepping of the same rollouts without what we do around.

    `bare_ms` is `WarpBatch.rollout` without records; the part `stepping` is MuJoCo Warp alone.
    """
    state = _pushing(name)
    task = _with(
        name, {'models': MODELS, 'rollouts': max(1, size // MODELS), 'device': device}, {}
    )
    planner = RecordedPlanner(task, 0)
    planner.set_belief(particles.uniform(task.prior.sample(MODELS, np.random.default_rng(0))))
    commands = TimeSeries('commands', reach_s=np.inf)
    commands.append(-1.0, np.zeros(len(task.robot.commanded)))
    cycles = itertools.count()

    def plan() -> None:
        now = next(cycles) / task.planner.rate_hz
        planner.plan_from(state, now, now + 1.0 / task.planner.rate_hz, commands)

    first = _seconds(plan)
    plan_s, (begin, controls) = _median(plan, repeats), planner.ensemble.last
    rolled, record = planner.ensemble, planner.stage.cost.record
    rollout_s = _median(lambda: rolled.rollout(begin, controls, record), repeats)
    stepping_s(rolled, begin, controls)
    stepping_s(rolled, begin, controls)  # the second time is captured
    bare_s = float(np.median([stepping_s(rolled, begin, controls) for _ in range(repeats)]))
    yield _row(plan_s, size, controls.shape[2]) | {
        'bare_ms': 1e3 * bare_s,
        'ratio': plan_s / bare_s,
        'note': f'rollout {1e3 * rollout_s:.3g} ms, first plan {first:.0f} s, {_where(device)}',
    }


def measure_belief(name: str, device: str, size: int, repeats: int) -> Iterator[Row]:
    """Time updates of a belief with `size` particles, while a small planner moves the robot."""
    task = _with(name, {}, {'device': device, 'particles': size})
    loop = ClosedLoop(task, seed=1)
    loop.run(0.1, stop_at_success=False)  # kernels are compiled
    before = len(loop.trace.update_s)
    loop.run(0.05 * repeats, stop_at_success=False)
    times = loop.trace.update_s[before:]
    if not times:
        raise RuntimeError('the belief got no update in this time')
    median = float(np.median(times))
    late = f'p99 {1e3 * float(np.quantile(times, 0.99)):.3g} ms of {len(times)} updates'
    yield {'ms': 1e3 * median, 'rate_hz': 1.0 / median, 'note': f'{late}, {_where(device)}'}


def measure_stepping(name: str, device: str, size: int, repeats: int) -> Iterator[Row]:
    """Time steps of MuJoCo Warp without this package, as it is and with what this package sets."""
    wp, mjw = map(importlib.import_module, ('warp', 'mujoco_warp'))
    warp_batch = importlib.import_module('emppi_ros.model.warp_batch')
    task, state = load_task(name), _pushing(name)
    ours = warp_batch.WarpBatch(task.model, (), (1, size), 1, device)
    bare = copy.copy(task.model)
    bare.opt.disableflags &= ~mujoco.mjtDisableBit.mjDSBL_AUTORESET.value
    bare.opt.enableflags &= ~mujoco.mjtEnableBit.mjENBL_DIAGEXACT.value
    with wp.ScopedDevice(warp_batch.find_device(device)):
        for note, model in (
            ('MuJoCo Warp', mjw.put_model(bare)),
            ('with our options', ours._warp),
        ):
            data = mjw.make_data(bare, nworld=size)
            for field, values in zip(State._fields, state, strict=True):
                getattr(data, field).assign(np.tile(values, (size, 1)))
            step, steps = _captured(wp, mjw, model, data), 10 if repeats < 5 else 50
            times = []
            for _ in range(repeats):
                wp.synchronize()
                began = time.perf_counter()
                for _ in range(steps):
                    step()
                wp.synchronize()
                times.append(time.perf_counter() - began)
            yield _row(float(np.median(times)), size, steps) | {
                'note': f'{note}, {_where(device)}'
            }


def _captured(wp: Any, mjw: Any, model: Any, data: Any) -> Callable[[], object]:
    mjw.step(model, data)  # compiles
    if not wp.get_device().is_cuda:
        return lambda: mjw.step(model, data)
    with wp.ScopedCapture() as capture:
        mjw.step(model, data)
    return lambda: wp.capture_launch(capture.graph)


def _pushing(name: str) -> State:
    """Return the state of a robot and its objects while it pushes, or moves."""
    loop = ClosedLoop(load_task(name), seed=1)
    loop.run(MOTION_S, stop_at_success=False)
    return State(loop.robot.data.qpos.copy(), loop.robot.data.qvel.copy())


def _with(name: str, planner: Row, belief: Row) -> Task:
    data = dict(load_task(name).data)
    data['planner'], data['belief'] = data['planner'] | planner, data['belief'] | belief
    return parse_task(yaml.safe_dump(data), name)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _median(work: Callable[[], object], repeats: int) -> float:
    work()  # the second time of its size, which is captured
    return float(np.median([_seconds(work) for _ in range(repeats)]))


def _row(seconds: float, size: int, steps: int) -> Row:
    return {
        'steps': steps, 'ms': 1e3 * seconds, 'rate_hz': 1.0 / seconds,
        'steps_per_s': size * steps / seconds,
    }  # fmt: skip


def _where(device: str) -> str:
    if device == 'cpu':
        return f'MuJoCo {mujoco.__version__} on {cores.count()} cores'
    warp_batch = importlib.import_module('emppi_ros.model.warp_batch')
    versions: Sequence[str] = [
        f'{name} {importlib.metadata.version(name)}' for name in ('mujoco-warp', 'warp-lang')
    ]
    return f'{warp_batch.find_device(device).name}, {", ".join(versions)}'


PARTS: dict[str, Callable[[str, str, int, int], Iterator[Row]]] = {
    'plan': measure_plan,
    'belief': measure_belief,
    'stepping': measure_stepping,
}

if __name__ == '__main__':
    main()
