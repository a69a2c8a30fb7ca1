"""`emppi replay --what-if`: rerun the belief of a bag with the settings of another task."""

import dataclasses
import functools
from typing import Any

import numpy as np

from emppi_ros.belief.belief_monitor import parameter_summary
from emppi_ros.belief.belief_session import BeliefSession, StampedBelief
from emppi_ros.core.errors import ReplayError
from emppi_ros.journal import journal
from emppi_ros.journal.journal import BELIEF
from emppi_ros.recordings.bag_reader import Bag
from emppi_ros.replay import bag_report, replay
from emppi_ros.replay.replay import ReplayInput, SessionReplay
from emppi_ros.tasks.task import Task
from emppi_ros.viz.report.recording import RunRecord, belief_series


def run(
    bag: Bag, recorded: ReplayInput, task: Task, seed: int | None
) -> tuple[dict[str, Any], RunRecord]:
    """
    Rerun the belief of a bag, up to a task switch, with settings and prior of another task.

    Returns a summary of both beliefs, and the record of the run with the new belief.
    """
    where, metadata = recorded.where, replay.first_metadata(recorded, BELIEF)
    before = journal.make_task(metadata, where)
    _check(task, before, where)
    seed = int(metadata['seed']) if seed is None else seed

    texts = replay.first_task(recorded, BELIEF)
    make = functools.partial(BeliefSession, task, seed)
    new = _updates(SessionReplay(BELIEF, where, make), texts)
    old = _updates(SessionReplay(BELIEF, where), texts)
    if not new:
        raise ReplayError(f'{where}: the belief of {task.where} is never updated')
    _, observer, notes = bag_report.observe(bag)
    beliefs = [(update.stamp - (observer.started or 0.0), update.belief) for update in new]
    later = [i for i, (time, _) in enumerate(beliefs) if time >= 0.0] or range(len(beliefs))
    series: dict[str, Any] = {
        **observer.truths(task),
        **belief_series([beliefs[i] for i in later], len(task.parameters)),
        'ess': np.array([new[i].ess for i in later]),
    }
    record = dataclasses.replace(observer.summarize()[1], **series)
    parameters = parameter_summary(task, new[-1].belief, record.truth)
    if old:
        unknown = np.full(len(before.parameters), np.nan)
        for name, values in parameter_summary(before, old[-1].belief, unknown).items():
            both = {'recorded_mean': values['mean'], 'recorded_sd': values['sd']}
            parameters[name] = parameters.get(name, {}) | both
    summary = {
        'bag': where,
        'what_if': task.where,
        'seed': seed,
        'beliefs': len(new),
        'ess_min': min(update.ess for update in new),
        'recorded_ess_min': min((update.ess for update in old), default=np.nan),
        'parameters': parameters,
        'notes': notes,
    }
    return summary, record


def _updates(rerun: SessionReplay, texts: list[str]) -> list[StampedBelief]:
    """Return the outputs after an update of the belief, without repetitions."""
    updates: list[StampedBelief] = []
    for output in rerun.outputs(texts):
        if isinstance(output, StampedBelief) and not (
            updates and output.belief is updates[-1].belief
        ):
            updates.append(output)
    return updates


def _check(task: Task, before: Task, where: str) -> None:
    """Raise ReplayError if the bag lacks measurements that a task needs."""
    if task.robot.joints != before.robot.joints or task.robot.commanded != before.robot.commanded:
        raise ReplayError(
            f'{task.where}: robot {task.robot.name!r} has other joints than '
            f'{before.robot.name!r}, with which {where} was recorded'
        )
    if missing := sorted(set(task.tracked) - set(before.tracked)):
        raise ReplayError(
            f'{task.where}: objects: {", ".join(missing)}: not tracked in {where}, which has: '
            f'{", ".join(sorted(before.tracked)) or "none"}'
        )
