"""`emppi replay --what-if`: the belief that other settings would have come to."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from emppi_ros.errors import ReplayError
from emppi_ros.loop.learning import Learning, Said
from emppi_ros.replay import replaying
from emppi_ros.replay.bag import Bag
from emppi_ros.replay.journal import BELIEF
from emppi_ros.replay.replaying import Tape
from emppi_ros.replay.rerun import Rerun
from emppi_ros.report.observer import belief_series, figures
from emppi_ros.report.recording import Recording
from emppi_ros.tasks.task import Task


def run(bag: Bag, tape: Tape, task: Task, seed: int | None) -> tuple[dict[str, Any], Recording]:
    """
    Run the belief of a bag again under the settings of another task, and from its prior.

    It begins with the first recorded moment; what the bag's belief knew by then it does not.
    Returns the figures of both, and the recording of the new one, without motion.
    """
    where = str(bag.path)
    about = replaying.first_about(tape, BELIEF, where)
    before = replaying.task_of(tape, where)
    _check(task, before, where)
    seed = int(about['seed']) if seed is None else seed

    def make(_about: Mapping[str, Any]) -> Learning:
        return Learning(task, seed)

    said = _learned(Rerun(BELIEF, where, make), tape)
    again = _learned(Rerun(BELIEF, where), tape)
    if not said:
        raise ReplayError(f'{where}: nothing was learned in it under {task.where}')
    unknown, unknown_before = (np.full(len(t.parameters), np.nan) for t in (task, before))
    start = said[0].stamp
    beliefs = [(one.stamp - start, one.belief) for one in said]
    record = Recording(
        times=np.empty(0),
        qpos=np.empty((0, task.model.nq)),
        error=np.empty(0),
        plan_ms=np.empty(0),
        bridge_period_ms=np.empty(0),
        truth=unknown,
        ess=np.array([one.ess for one in said]),
        **belief_series(beliefs, len(unknown)),
    )
    summary = {
        'bag': where,
        'cut': tape.cut,
        'what_if': task.where,
        'seed': seed,
        'updates': len(said),
        'ess_min': float(record.ess.min()),
        'parameters': figures(task, said[-1].belief, unknown),
        'recorded': {
            'updates': len(again),
            'ess_min': min((one.ess for one in again), default=np.nan),
            **(figures(before, again[-1].belief, unknown_before) if again else {}),
        },
    }
    return summary, record


def _learned(rerun: Rerun, tape: Tape) -> list[Said]:
    """Return what was said after learning something, not what was only said again."""
    said: list[Said] = []
    for one in rerun.outputs(tape.journals[BELIEF]):
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
