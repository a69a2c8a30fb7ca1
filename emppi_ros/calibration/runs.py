"""One run: simulate the closed loop, then score each setting on its measurements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import time

import numpy as np

from emppi_ros.calibration import ranks, recording, scores
from emppi_ros.calibration.belief_scores import score
from emppi_ros.calibration.recording import Rerun
from emppi_ros.calibration.settings import OWN, BeliefSetting
from emppi_ros.calibration.truths import DrawnTruth
from emppi_ros.core import yaml_edit
from emppi_ros.core.errors import BenchError, EmppiError
from emppi_ros.tasks.task import Task, load_task

MAX_TIMES = 50  # at which a belief is scored
_STREAM = 12  # of random numbers, beside the seed


@dataclass(frozen=True)
class CalibrationRun:
    """Everything that a run depends on."""

    task: str  # name or YAML file
    prior: str  # name or YAML file; '' is the task's own
    seed: int
    truth: DrawnTruth
    duration_s: float
    settings: Sequence[BeliefSetting]
    threads: int | None = None  # in place of the task's


@dataclass(frozen=True)
class JudgedParameter:
    """
    Scores of the belief about one parameter in one run.

    Shares and means are over the times from 1 s on.
    """

    rank: int  # of the truth in the last belief
    inside_50: float  # share of central intervals that hold the truth
    inside_90: float
    inside_end: bool  # whether the last 90 % interval holds it
    mean_square_z: float  # z = (truth - mean) / sd
    log_score: float  # in sd of the prior [nats]
    contraction: float  # 1 - variance / variance of the prior, of the last belief
    true: float
    mean: float
    low: float  # 5 % quantile
    high: float  # 95 %


@dataclass(frozen=True)
class SettingResult:
    """What one setting of the belief made of one run."""

    parameters: Mapping[str, JudgedParameter]
    ess: float  # mean effective sample size, as a fraction of the particles
    reinjected: int  # updates that no particle explained
    misfit: tuple[str, ...]  # quantities that no parameter explains, at the end
    collapsed: tuple[str, ...]  # parameters
    unidentifiable: tuple[str, ...]  # parameters
    particles: int
    update_ms: float  # processor time of an update


@dataclass(frozen=True)
class RunResult:
    """The result of a run by name of the setting."""

    seed: int
    beyond: str  # the parameter with a truth beyond its prior; '' without
    success: bool
    settings: Mapping[str, SettingResult]
    compute_s: float


def compute(run: CalibrationRun, threads: int | None = None) -> RunResult:
    """Return the result of a run; `threads` replaces the threads of planner and belief."""
    started, task = time.perf_counter(), load_task(run.task).with_prior(run.prior)
    if threads is not None:
        task = task.tuned(yaml_edit.merged(task.data, {'planner': {'threads': threads}}))
    try:
        loop, calls = recording.record(task, run.seed, run.truth.values, run.duration_s)
        results = {
            setting.name: _judge(
                other := with_setting(task, setting), run, recording.rerun(other, run.seed, calls)
            )
            for setting in run.settings
        }
    except EmppiError as error:
        values = ', '.join(f'{name}={value:.4g}' for name, value in run.truth.values.items())
        raise type(error)(f'{task.where}: seed {run.seed}, {values}: {error}') from None
    spent = time.perf_counter() - started
    return RunResult(run.seed, run.truth.beyond, loop.trace.success, results, spent)


def with_setting(task: Task, setting: BeliefSetting) -> Task:
    """Return a task with other settings of the belief; ConfigError if they are invalid."""
    return task.tuned(yaml_edit.merged(task.data, {'belief': setting.changes}))


def _judge(task: Task, run: CalibrationRun, result: Rerun) -> SettingResult:
    """Return the scores of a belief over time and at its end."""
    after = [i for i, (stamp, _) in enumerate(result.beliefs) if stamp >= scores.SETTLING_S]
    if not after:
        raise BenchError(
            f'found no update of the belief from {scores.SETTLING_S:g} s on '
            f'({result.session.error or "no measurements"}), expected some: is --duration too '
            'short, or the tracker silent?'
        )
    chosen = np.unique(np.linspace(0, len(after) - 1, min(MAX_TIMES, len(after))).round())
    beliefs = [result.beliefs[after[int(i)]] for i in chosen]
    last, monitor = beliefs[-1][1], result.session.filter.monitor
    names = [parameter.name for parameter in task.parameters]
    truth = np.array([run.truth.values[name] for name in names])
    rng = np.random.default_rng([run.seed, _STREAM])
    relative_sd = task.prior.relative_sd(last)
    judged = {}
    for name, over_time in score(task, [(0.0, truth)], beliefs, {}).items():
        i = names.index(name)
        at_end = last.theta[:, i]
        judged[name] = JudgedParameter(
            rank=ranks.rank(last.log_weights, at_end, truth[i], rng),
            inside_50=_mean(over_time.inside_50),
            inside_90=_mean(over_time.inside_90),
            inside_end=over_time.inside_end,
            mean_square_z=_mean(over_time.mean_square_z),
            log_score=_mean(over_time.log_score),
            contraction=1.0 - float(relative_sd[i] ** 2),
            true=over_time.true,
            mean=over_time.mean,
            low=over_time.low,
            high=over_time.high,
        )
    count = len(last.theta)
    return SettingResult(
        judged,
        ess=float(np.mean(result.ess)) / count,
        reinjected=result.session.counts['reinjected'],
        misfit=tuple(monitor.misfit),
        collapsed=tuple(monitor.collapsed(result.session.filter.belief)),
        unidentifiable=tuple(monitor.unidentifiable),
        particles=count,
        update_ms=1e3 * result.update_s,
    )


def _mean(value: float | None) -> float:
    """Return a mean of `score`, which has one: all beliefs are later than the settling time."""
    assert value is not None
    return value


def own(result: RunResult) -> SettingResult:
    """Return the result of the task's own settings."""
    return result.settings[OWN]
