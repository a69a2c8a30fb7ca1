"""Runs: truths from the prior and from beyond it, and settings scored on the same measurements."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
import math
import time
from typing import Any, NamedTuple

import numpy as np

from emppi_ros.app.closed_loop import ClosedLoop
from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.calibration import belief_scores
from emppi_ros.calibration.belief_scores import SETTLING_S
from emppi_ros.core import yaml_edit
from emppi_ros.core.errors import BenchError, EmppiError
from emppi_ros.journal import journal
from emppi_ros.journal.journal import Journal
from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.calibration_record import scored_parameters
from emppi_ros.tasks.schema import BeliefConfig
from emppi_ros.tasks.task import Task, load_task

MAX_TIMES = 50  # at which a belief is scored
_TRUTH_STREAM, _STREAM = 11, 12  # of random numbers, beside the seed
CENTRAL = 0.9  # probability of the prior's interval, beyond which truths are drawn
BEYOND_EVERY = 4  # one run out of this many
OWN = 'as it is'
_SDS = 'joint_position_sd', 'joint_velocity_sd', 'object_position_sd_m', 'object_rotation_sd_rad'
_MORE, _NOISE = (2, 4), (0.5, 2.0, 4.0)  # factors of particles and of standard deviations
_TEMPERING = 0.3
_MOST = 100_000  # particles
_Call = tuple[str, tuple[Any, ...]]  # of a belief session: the event's name and the arguments


class DrawnTruth(NamedTuple):
    """True values of a run, by the name of the parameter."""

    values: dict[str, float]
    beyond: str = ''  # the parameter whose value lies outside of the prior's central interval


def draw_truths(task: Task, runs: int, seed: int) -> list[DrawnTruth]:
    """
    Return the true parameters of some runs; BenchError if the task has none that can be judged.

    All are drawn from the task's prior. In one run out of BEYOND_EVERY one parameter, in turn, is
    replaced by a value below or above the prior's central interval, uniformly up to its bound.
    """
    judged, names = scored_parameters(task), [parameter.name for parameter in task.parameters]
    if not judged:
        raise BenchError(
            f'{task.where}: no uncertain parameter whose interval can be judged: found '
            f'{", ".join(names) or "none"} (axes and pivots of uncertain joints have no intervals)'
        )
    rng = np.random.default_rng([seed, _TRUTH_STREAM])
    # a prior from particles is drawn in their order
    theta = rng.permutation(task.prior.sample(runs, rng))
    columns = [(i, sides) for i in judged if (sides := _sides(task, i))]
    truths = []
    for run, values in enumerate(theta):
        beyond = ''
        if columns and run % BEYOND_EVERY == BEYOND_EVERY - 1:
            column, sides = columns[run // BEYOND_EVERY % len(columns)]
            low, high = sides[int(rng.integers(len(sides)))]
            values[column], beyond = rng.uniform(low, high), names[column]
        truths.append(DrawnTruth(dict(zip(names, values.tolist(), strict=True)), beyond))
    return truths


def central_interval(task: Task, column: int) -> tuple[float, float]:
    """Return the ends of the prior's interval of probability CENTRAL."""
    tail = 0.5 * (1.0 - CENTRAL)
    low, high = np.quantile(task.prior.draws[:, column], [tail, 1.0 - tail]).tolist()
    return low, high


def _sides(task: Task, column: int) -> Sequence[tuple[float, float]]:
    """Return the intervals beyond the prior in which a parameter may lie: up to two."""
    parameter = task.parameters[column]
    if parameter.choices:
        return []
    low, high = central_interval(task, column)
    width = high - low
    lower = parameter.lower if math.isfinite(parameter.lower) else low - width
    upper = parameter.upper if math.isfinite(parameter.upper) else high + width
    least = 1e-6 * width  # a side of rounding errors is none
    return [(a, b) for a, b in ((lower, low), (high, upper)) if b - a > least]


@dataclass(frozen=True)
class BeliefSetting:
    """A name, and the keys of `belief` that differ from the task's."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)


def alternatives(config: BeliefConfig) -> list[BeliefSetting]:
    """Return the task's own settings, then others; `changes` stays, as the truth is constant."""

    def noise(factor: float) -> dict[str, Any]:
        """Return the standard deviations that are given, times a factor, to six digits."""
        given = {name: getattr(config.likelihood, name) for name in _SDS}
        sds = {name: float(f'{factor * sd:.6g}') for name, sd in given.items() if sd is not None}
        return {'likelihood': sds}

    def particles(factor: int) -> dict[str, Any]:
        return {'particles': min(factor * config.particles, _MOST)}

    scale = 'fixed' if config.likelihood.scale == 'learned' else 'learned'
    tempering = _TEMPERING if config.resampling.tempering is None else None
    text = 'null' if tempering is None else f'{tempering:g}'
    return [
        BeliefSetting(OWN),
        *(BeliefSetting(f'noise x{factor:g}', noise(factor)) for factor in _NOISE),
        BeliefSetting(f'scale: {scale}', {'likelihood': {'scale': scale}}),
        BeliefSetting(f'tempering: {text}', {'resampling': {'tempering': tempering}}),
        *(BeliefSetting(f'particles x{factor}', particles(factor)) for factor in _MORE),
        BeliefSetting('particles x2, noise x2', particles(2) | noise(2.0)),
    ]


def as_keys(setting: BeliefSetting) -> str:
    """Return the changed keys of `belief` as YAML in one line."""
    return yaml_edit.flow(dict(setting.changes)).removeprefix('{').removesuffix('}')


class CallRecorder(Journal):
    """Keeps the calls of a session in memory, as a journal keeps them for a recorder."""

    def __init__(self, session: BeliefSession) -> None:
        """Attach to a session; `calls` are all of its calls so far."""
        super().__init__(session)
        self.calls: list[_Call] = []

    @property
    def records(self) -> bool:
        """Whether calls are recorded now: always, but not calls within calls."""
        return not self._nested

    @contextmanager
    def recording(self, event: str, values: tuple[Any, ...]) -> Iterator[None]:
        """Keep a call with copies of its arrays."""
        kept = (value.copy() if isinstance(value, np.ndarray) else value for value in values)
        self.calls.append((event, tuple(kept)))
        self._nested = True
        try:
            yield
        finally:
            self._nested = False


def record(
    task: Task, seed: int, truth: Mapping[str, float], duration_s: float
) -> tuple[ClosedLoop, list[_Call]]:
    """Run the closed loop for a time, also after success; return it and its belief's calls."""
    loop = ClosedLoop(task, seed, truth=dict(truth))
    recorder = CallRecorder(loop.belief)
    loop.run(duration_s, stop_at_success=False)
    loop.belief.journal = None
    return loop, recorder.calls


class Rerun(NamedTuple):
    """A belief session after all calls."""

    session: BeliefSession
    beliefs: list[tuple[float, Belief]]  # time [s] and belief of each update
    ess: list[float]  # effective sample size of each update
    update_s: float  # processor time of an update, mean


def rerun(task: Task, seed: int, calls: list[_Call]) -> Rerun:
    """Return the belief of a task's settings after recorded calls, from its prior."""
    session, methods = BeliefSession(task, seed), journal.events(BeliefSession)
    beliefs: list[tuple[float, Belief]] = []
    ess, spent = [], 0.0
    for event, arguments in calls:
        method = getattr(session, methods[event])
        if event != 'learn':
            method(*arguments)
            continue
        started = time.process_time()
        updates = method()
        spent += time.process_time() - started
        beliefs += [(update.stamp, update.belief) for update in updates]
        ess += [update.ess for update in updates]
    return Rerun(session, beliefs, ess, spent / max(1, len(beliefs)))


@dataclass(frozen=True)
class CalibrationRun:
    """Everything that a run depends on."""

    task: str  # name or YAML file
    prior: str  # name or YAML file; '' is the task's own
    seed: int
    truth: DrawnTruth
    duration_s: float
    settings: Sequence[BeliefSetting]


@dataclass(frozen=True)
class JudgedParameter:
    """Scores of the belief about one parameter in one run, over the times from 1 s on."""

    inside_50: float  # share of 50 % intervals that hold the truth
    inside_90: float
    mean_square_z: float  # z = (truth - mean) / sd
    log_score: float  # mean, of unbounded coordinates in sd of the prior [nats]
    _: KW_ONLY
    true: float
    mean: float  # of the last belief
    low: float  # 5 % quantile
    high: float  # 95 %
    rank: int  # of the truth in the last belief
    contraction: float  # 1 - variance / variance of the prior, of the last belief

    @property
    def inside_end(self) -> bool:
        """Whether the last 90 % interval holds the truth."""
        return bool(self.low <= self.true <= self.high)


@dataclass(frozen=True)
class SettingResult:
    """What one setting of the belief made of one run."""

    parameters: Mapping[str, JudgedParameter]
    ess: float  # mean effective sample size, as a fraction of the particles
    reinjected: int  # updates that no particle explained
    misfit: tuple[str, ...]  # quantities that no parameter explains, at the end
    unidentifiable: tuple[str, ...]  # parameters
    particles: int
    update_ms: float  # processor time of an update


@dataclass(frozen=True)
class RunResult:
    """The result of a run by name of the setting."""

    seed: int
    beyond: str  # the parameter with a truth beyond its prior; '' without
    settings: Mapping[str, SettingResult]
    compute_s: float


def compute(run: CalibrationRun, threads: int | None = None) -> RunResult:
    """Return the result of a run; `threads` replaces the threads of planner and belief."""
    started, task = time.perf_counter(), load_task(run.task).with_prior(run.prior)
    if threads is not None:
        task = task.tuned(yaml_edit.merged(task.data, {'planner': {'threads': threads}}))
    try:
        _, calls = record(task, run.seed, run.truth.values, run.duration_s)
        results = {
            setting.name: _judge(
                other := with_setting(task, setting), run, rerun(other, run.seed, calls)
            )
            for setting in run.settings
        }
    except EmppiError as error:
        values = ', '.join(f'{name}={value:.4g}' for name, value in run.truth.values.items())
        raise type(error)(f'{task.where}: seed {run.seed}, {values}: {error}') from None
    return RunResult(run.seed, run.truth.beyond, results, time.perf_counter() - started)


def with_setting(task: Task, setting: BeliefSetting) -> Task:
    """Return a task with other settings of the belief; ConfigError if they are invalid."""
    return task.tuned(yaml_edit.merged(task.data, {'belief': setting.changes}))


def _judge(task: Task, run: CalibrationRun, result: Rerun) -> SettingResult:
    """Return the scores of a belief over time and at its end."""
    after = [belief for stamp, belief in result.beliefs if stamp >= SETTLING_S]
    if not after:
        raise BenchError(
            f'found no update of the belief from {SETTLING_S:g} s on '
            f'({result.session.error or "no measurements"}), expected some: is --duration too '
            'short, or the tracker silent?'
        )
    chosen = np.unique(np.linspace(0, len(after) - 1, min(MAX_TIMES, len(after))).round())
    beliefs = [after[int(i)] for i in chosen]
    last, final = beliefs[-1], result.session.filter
    truth = np.array([run.truth.values[parameter.name] for parameter in task.parameters])
    rng = np.random.default_rng([run.seed, _STREAM])
    contraction = 1.0 - task.prior.relative_sd(last) ** 2
    judged = {}
    for i in scored_parameters(task):
        scores = [belief_scores.score(task, i, belief, truth) for belief in beliefs]
        inside_50, inside_90, mean_square_z, log_score = np.mean(scores, axis=0).tolist()
        mean, _, low, high = belief_scores.summarize(last, i)
        judged[task.parameters[i].name] = JudgedParameter(
            inside_50=inside_50,
            inside_90=inside_90,
            mean_square_z=mean_square_z,
            log_score=log_score,
            true=float(truth[i]),
            mean=mean,
            low=low,
            high=high,
            rank=belief_scores.rank(last.log_weights, last.theta[:, i], truth[i], rng),
            contraction=float(contraction[i]),
        )
    count = len(last.theta)
    return SettingResult(
        judged,
        ess=float(np.mean(result.ess)) / count,
        reinjected=result.session.counts['reinjected'],
        misfit=tuple(final.monitor.misfit),
        unidentifiable=tuple(final.judgement.unidentifiable),
        particles=count,
        update_ms=1e3 * result.update_s,
    )
