"""
Compute the row of a cell: a closed loop in simulated time, in which plans take no time.

Each planner gets the exact state, plans, and controls the simulation until its next plan. Every
few plans, the time of a plan is followed by that of stepping its rollouts only (same states,
controls, physics steps and threads, without recording), by the same physics batch for all. Times
are processor times of all threads, which other load on the machine does not change much.
"""

import copy
import time
from typing import Any, NamedTuple

import mujoco
import numpy as np

from benchmarks.paper.compute import estimates
from benchmarks.peers import judo
from benchmarks.peers.planners import (
    PEERS,
    ComparedPlanner,
    EnsemblePlanner,
    PlannerSettings,
    SteppingPlanner,
)
from benchmarks.peers.runs import WORLDS, PeerCell, PeerRow
from benchmarks.study import computed
from emppi_ros.calibration.planner_overhead import stepping_s
from emppi_ros.core.arrays import Array
from emppi_ros.core.errors import EmppiError
from emppi_ros.model.ensemble import Ensemble, State
from emppi_ros.sim import true_model
from emppi_ros.tasks.hold_timer import HoldTimer
from emppi_ros.tasks.task import Task, parse_task

PARTS, FINAL_PARTS = 25, 5  # of a run
PAIR_EVERY, WARM_UP = 3, 9  # plans


class PeerMotion(NamedTuple):
    """The states after each physics step (n, nq + nv), its controls (n, nu), and success."""

    states: Array
    controls: Array
    success_s: float | None


class Timing(NamedTuple):
    """Pairs of times of a plan and of its stepping (n, 2), and times of observing (m,) [s]."""

    pairs: Array
    observe_s: Array
    own: Array  # (n,) of stepping in a physics engine of the planner's own; empty without

    def summary(self) -> dict[str, Any]:
        """Return medians, as in a row: times [ms], and the ratio of each pair."""
        plan, stepping = self.pairs.T
        return {
            'plan_ms': 1e3 * float(np.median(plan)),
            'stepping_ms': 1e3 * float(np.median(stepping)),
            'ratio': float(np.median(plan / stepping)),
            'observe_ms': 1e3 * float(np.median(self.observe_s)),
            'own_ratio': float(np.median(plan / self.own)) if len(self.own) else None,
        }


def compute(cell: PeerCell) -> PeerRow:
    """Return the row of a cell; BenchError if a package is missing."""
    began = time.perf_counter()
    task = parse_task(cell.text, cell.task)
    truth = WORLDS[cell.world].truth(task, cell.seed)
    reference = judo.JudoTask(cell.task, cell.seed)
    try:
        settings = PlannerSettings(cell.rollouts, cell.threads, cell.seed)
        planner = PEERS[cell.planner].make(task, cell.task, settings)
        motion, timing = run(task, planner, truth, reference.start, settings)
    except EmppiError as error:
        raise type(error)(f'{cell}: {error}') from None
    rewards = reference.rewards(motion.states, motion.controls)
    parts = [float(np.mean(part)) for part in np.array_split(rewards, PARTS) if len(part)]
    limit = task.file.duration_s
    belief = planner.belief if isinstance(planner, EnsemblePlanner) else None
    made = computed(cell, began)
    made['made_by'] += f', {judo.version()}'
    return PeerRow(
        **made,
        reward=float(np.mean(rewards)),
        final_reward=float(np.mean(parts[-FINAL_PARTS:])),
        rewards=tuple(parts),
        success=motion.success_s is not None,
        time_s=limit if motion.success_s is None else motion.success_s,
        limit_s=limit,
        **timing.summary(),
        parameters=estimates(task, truth, belief.filter.belief) if belief else {},
    )


def run(
    task: Task, planner: ComparedPlanner, truth: Array, start: State, settings: PlannerSettings
) -> tuple[PeerMotion, Timing]:
    """Control a simulation with true parameters (P,) for the task's duration."""
    nominal = true_model.nominal_model(task)
    model = copy.copy(nominal)
    true_model.set_truth(model, nominal, task, truth)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start
    stepper = _stepper(task, planner, settings)
    dt, held = task.simulation.timestep_s, HoldTimer()
    every = max(1, round(1.0 / task.planner.rate_hz / dt))
    states, controls, pairs, observe_s, own, success_s = [], [], [], [], [], None
    for i in range(round(task.file.duration_s / dt)):
        now, state = i * dt, State(data.qpos.copy(), data.qvel.copy())
        if i % every == 0:
            times = [time.process_time()]
            planner.observe(now, state)
            times.append(time.process_time())
            planner.plan(now, state)
            times.append(time.process_time())
            observed, planned = np.diff(times)
            observe_s.append(observed)
            if (i // every) % PAIR_EVERY == 0:
                stepping = stepping_s(stepper, *planner.rollouts, time.process_time)
                pairs.append((planned, stepping))
                if isinstance(planner, SteppingPlanner):
                    own.append(planner.stepping_s(time.process_time))
        data.ctrl[:] = planner.control(now)
        mujoco.mj_step(model, data)
        states.append(np.concatenate([data.qpos, data.qvel]))
        controls.append(data.ctrl.copy())
        reached = task.error(model, data) < task.file.success.below
        if held.update(reached, now + dt, task.file.success.hold_s) and success_s is None:
            success_s = now + dt
    skipped = WARM_UP // PAIR_EVERY if len(pairs) > WARM_UP // PAIR_EVERY else 0
    return (
        PeerMotion(np.array(states), np.array(controls), success_s),
        Timing(np.array(pairs[skipped:]), np.array(observe_s), np.array(own[skipped:])),
    )


def _stepper(task: Task, planner: ComparedPlanner, settings: PlannerSettings) -> Ensemble:
    """Return the ensemble that steps the planner's rollouts: its own, or one of the scene."""
    if isinstance(planner, EnsemblePlanner):
        return planner.planner.ensemble
    return Ensemble(task.model, (), 1, settings.rollouts, settings.threads)
