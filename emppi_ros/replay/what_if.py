"""`emppi replay --what-if`: the belief that other settings would have come to."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from emppi_ros.core.errors import ReplayError
from emppi_ros.replay import bag_report, replay
from emppi_ros.replay.bag_reader import Bag
from emppi_ros.replay.replay import Tape
from emppi_ros.replay.session_replay import Rerun
from emppi_ros.session.belief_session import Learning, Said
from emppi_ros.session.journal import BELIEF
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report.recording import RunRecord, belief_series, parameter_summary

Array = npt.NDArray[np.float64]


def run(bag: Bag, tape: Tape, task: Task, seed: int | None) -> tuple[dict[str, Any], RunRecord]:
    """
    Run the belief of a bag again under the settings of another task, and from its prior.

    It begins with the first recorded moment; what the bag's belief knew by then it does not. It
    ends where the bag goes over to another task.
    Returns the figures of both, and the recording with the new belief in place of the old one.
    """
    where = str(bag.path)
    about = replay.first_about(tape, BELIEF, where)
    before = replay.task_of(tape, where)
    _check(task, before, where)
    seed = int(about['seed']) if seed is None else seed

    def make(_about: Mapping[str, Any]) -> Learning:
        return Learning(task, seed)

    texts = replay.first_task(tape, BELIEF)
    said = _learned(Rerun(BELIEF, where, make), texts)
    again = _learned(Rerun(BELIEF, where), texts)
    if not said:
        raise ReplayError(f'{where}: nothing was learned in it under {task.where}')
    observed = bag_report.observe(bag)
    truth = bag_report.true_values(task, observed.truth)
    beliefs = [(one.stamp - (observed.observer.started or 0.0), one.belief) for one in said]
    later = [i for i, (time, _) in enumerate(beliefs) if time >= 0.0] or range(len(beliefs))
    record = dataclasses.replace(
        observed.observer.summarize(truth)[1],
        ess=np.array([said[i].ess for i in later]),
        **belief_series([beliefs[i] for i in later], len(truth)),
    )
    now = parameter_summary(task, said[-1].belief, truth)
    if again:
        then = parameter_summary(before, again[-1].belief, np.full(len(before.parameters), np.nan))
        for name, values in then.items():
            told = {'recorded_mean': values['mean'], 'recorded_sd': values['sd']}
            now[name] = now.get(name, {}) | told
    summary = {
        'bag': where,
        'what_if': task.where,
        'seed': seed,
        'beliefs': len(said),
        'ess_min': min(one.ess for one in said),
        'recorded_ess_min': min((one.ess for one in again), default=np.nan),
        'parameters': now,
        'notes': observed.notes,
    }
    return summary, record


def _learned(rerun: Rerun, texts: list[str]) -> list[Said]:
    """Return what was said after learning something, not what was only said again."""
    said: list[Said] = []
    for one in rerun.outputs(texts):
        if isinstance(one, Said) and not (said and one.belief is said[-1].belief):
            said.append(one)
    return said


def _check(task: Task, before: Task, where: str) -> None:
    """Raise ReplayError if a task's measurements are not those of the bag."""
    if task.robot.joints != before.robot.joints or task.robot.commanded != before.robot.commanded:
        raise ReplayError(
            f'{task.where}: robot {task.robot.name!r} has other joints than '
            f'{before.robot.name!r}, which {where} was recorded with'
        )
    if missing := sorted(set(task.tracked) - set(before.tracked)):
        raise ReplayError(
            f'{task.where}: objects: {", ".join(missing)}: not tracked in {where}, which has: '
            f'{", ".join(sorted(before.tracked)) or "none"}'
        )
