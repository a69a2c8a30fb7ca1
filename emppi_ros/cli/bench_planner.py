"""
`emppi bench planner`: what a planning cycle costs above the physics that it needs.

Cycles happen along a closed-loop run, with its states and its belief. Each is timed whole
(prediction to the plan's start, noise, interpolation, rollouts with recording, costs,
weights, the plan) and paired with its floor: the very same stepping of its rollouts (the
same simulations, states, controls, physics steps and threads), recording nothing. The
prediction to the plan's start steps physics too, and still counts as overhead.
"""

import argparse
from collections.abc import Callable, Mapping
import copy
import time
from typing import Any

import numpy as np

from emppi_ros.cli import bench_identify, bench_observers, bench_paper, output
from emppi_ros.control.mppi import PlanInfo
from emppi_ros.control.plan import Plan
from emppi_ros.model.ensemble import State
from emppi_ros.session.closed_loop import ClosedLoop
from emppi_ros.session.planner import Commands, Planner
from emppi_ros.state.tracking import Track
from emppi_ros.tasks.task import Task, load_task


def add_commands(commands: Any) -> None:
    """Add the command, with its two kinds, to the parser."""
    parser = commands.add_parser(
        'bench',
        help='measure the planner against bare physics, or methods against their papers',
        description='Measure the planner against bare physics, or methods against their papers.',
    )
    kinds = parser.add_subparsers(title='kinds', metavar='KIND', required=True)
    _add_planner(kinds)
    bench_paper.add_command(kinds)
    bench_identify.add_command(kinds)
    bench_observers.add_command(kinds)


def _add_planner(kinds: Any) -> None:
    parser = kinds.add_parser(
        'planner',
        help='what a planning cycle costs above the physics that it needs',
        description=__doc__.replace('`', '').strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--task', default='panda_push', help='a task (panda_push)')
    parser.add_argument('--pairs', type=output.whole, default=150, help='cycles to time (150)')
    parser.add_argument('--seed', type=output.whole, default=0, help='of all randomness (0)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.set_defaults(execute=bench)


def bench(options: argparse.Namespace) -> None:
    """Measure and print."""
    task = load_task(options.task)
    pairs = max(options.pairs, 2)
    with output.progress('planner against floor', pairs, 'pairs') as advance:
        summary = measure(task, pairs, options.seed, advance)
    output.show(summary, options.json)


def measure(
    task: Task, pairs: int, seed: int = 0, progress: Callable[[float], None] = lambda _: None
) -> dict[str, float | int]:
    """Return sim_steps, threads, median plan_ms and floor_ms, and the median of their ratios."""
    loop = ClosedLoop(task, seed)
    timed = TimedPlanner(task, np.random.default_rng(seed), progress)
    timed.believe(loop.filter.belief)
    loop.planner = timed
    # the first cycles wait for measurements, or warm up: both are left out
    loop.run((pairs + 10) / task.planner.rate_hz, stop_at_success=False)
    times = np.array(timed.pairs[-pairs:])  # (pairs, 2)
    config = timed.settings
    return {
        # the step beyond H * substeps evaluates the final state
        'sim_steps': config.models * config.rollouts * (config.horizon * config.substeps + 1),
        'threads': timed.ensemble.batch.nthread,
        'plan_ms': 1e3 * float(np.median(times[:, 0])),
        'floor_ms': 1e3 * float(np.median(times[:, 1])),
        'ratio': float(np.median(times[:, 0] / times[:, 1])),
    }


class TimedPlanner(Planner):
    """A planner that times each of its cycles against the floor."""

    def __init__(
        self, task: Task, rng: np.random.Generator, progress: Callable[[float], None]
    ) -> None:
        """Plan for a task; `pairs` collects (plan, floor) in seconds."""
        super().__init__(task, rng)
        self.pairs: list[tuple[float, float]] = []
        self._random, self._progress = rng, progress

    def cycle(
        self,
        state: State,
        stamp: float,
        start: float,
        commands: Commands,
        seen: Mapping[str, Track] | None = None,
    ) -> tuple[Plan, PlanInfo]:
        """Plan once to learn the rollouts, then time the same cycle and the floor, in turns."""
        noise = self._random.bit_generator.state
        rolled: list[tuple[State, np.ndarray]] = []
        roll = self.ensemble.rollout

        def spy(begin: State, controls: np.ndarray, record: tuple[str, ...]) -> Any:
            rolled.append((begin, controls))
            return roll(begin, controls, record)

        self.ensemble.rollout = spy  # type: ignore[method-assign]
        Planner.cycle(copy.copy(self), state, stamp, start, commands, seen)
        self.ensemble.rollout = roll  # type: ignore[method-assign]
        self._random.bit_generator.state = noise
        begin, controls = rolled[0]
        floor_first = len(self.pairs) % 2 == 0
        floor = self._floor(begin, controls) if floor_first else 0.0
        began = time.perf_counter()
        result = super().cycle(state, stamp, start, commands, seen)
        plan = time.perf_counter() - began
        floor = floor if floor_first else self._floor(begin, controls)
        self.pairs.append((plan, floor))
        self._progress(len(self.pairs))
        return result

    def _floor(self, begin: State, controls: np.ndarray) -> float:
        """Return the seconds that the bare stepping of the same rollouts takes."""
        flat = controls.reshape(-1, *controls.shape[2:])
        self.ensemble.set_state(begin)
        began = time.perf_counter()
        self.ensemble.batch.rollout(flat.shape[1], flat, record=[])
        return time.perf_counter() - began
