"""Summaries of runs: of each setting, and of each parameter under one setting."""

from collections.abc import Callable, Mapping, Sequence
import math
from typing import NamedTuple

import numpy as np

from emppi_ros.calibration import ranks, statistics
from emppi_ros.calibration.ranks import RankHistogram
from emppi_ros.calibration.runs import JudgedParameter, RunResult, SettingResult
from emppi_ros.calibration.statistics import Mean, Median, Share

SHOWS = 0.19  # contraction: 0.9 of the prior's sd is left, as for `unidentifiable`


class SettingSummary(NamedTuple):
    """
    Scores of one setting over runs with truths from the prior.

    Intervals are over runs; in each run, parameters and times are averaged.
    """

    runs: int
    inside_50: Mean
    inside_90: Mean
    inside_end: Mean  # last 90 % intervals that hold the truth
    rms_z: float
    log_score: Median
    ess: float  # mean, as a fraction of the particles
    reinjected: Share  # runs in which no particle explained some measurement
    misfit: Share  # runs with errors that no parameter explains
    particles: int
    update_ms: float  # median


class ParameterSummary(NamedTuple):
    """
    Scores of one parameter under one setting.

    All but `beyond` are of the runs with truths from the prior.
    """

    ranks: RankHistogram
    inside_end: Share
    rms_z: float
    contraction: Median
    unidentifiable: Share
    beyond: Share | None  # last intervals that hold a truth beyond the prior

    @property
    def shows(self) -> str:
        """Whether measurements show the parameter, in words."""
        low, high = self.contraction.low, self.contraction.high
        if low is not None and low > SHOWS:
            return 'shows'
        if high is not None and high < SHOWS:
            return 'hardly shows'
        return 'unclear'


def from_prior(results: Sequence[RunResult]) -> list[RunResult]:
    """Return the runs with truths from the prior."""
    return [one for one in results if not one.beyond]


def summarize(results: Sequence[RunResult], setting: str) -> SettingSummary:
    """Return the summary of a setting over all of the given runs, one or more."""
    of = [one.settings[setting] for one in results]

    def means(get: Callable[[JudgedParameter], float]) -> list[float]:
        """Return the mean over parameters of each run."""
        return [float(np.mean([get(p) for p in one.parameters.values()])) for one in of]

    return SettingSummary(
        runs=len(of),
        inside_50=statistics.mean_share(means(lambda p: p.inside_50)),
        inside_90=statistics.mean_share(means(lambda p: p.inside_90)),
        inside_end=statistics.mean_share(means(lambda p: p.inside_end)),
        rms_z=math.sqrt(np.mean(means(lambda p: p.mean_square_z))),
        log_score=statistics.median(log_scores(of)),
        ess=float(np.mean([one.ess for one in of])),
        reinjected=statistics.share([one.reinjected > 0 for one in of]),
        misfit=statistics.share([bool(one.misfit) for one in of]),
        particles=of[0].particles,
        update_ms=float(np.median([one.update_ms for one in of])),
    )


def log_scores(results: Sequence[SettingResult]) -> list[float]:
    """Return the log score of each run, mean over parameters [nats]."""
    return [float(np.mean([p.log_score for p in one.parameters.values()])) for one in results]


def gains(results: Sequence[RunResult], setting: str, reference: str) -> list[float]:
    """Return the gain in log score of a setting over another in each run [nats]."""
    one, other = (
        log_scores([result.settings[name] for result in results]) for name in (setting, reference)
    )
    return [a - b for a, b in zip(one, other, strict=True)]


def parameters(results: Sequence[RunResult], setting: str) -> Mapping[str, ParameterSummary]:
    """Return the summary of each parameter under a setting, over all runs."""
    names = results[0].settings[setting].parameters
    return {name: _parameter(results, setting, name) for name in names}


def _parameter(results: Sequence[RunResult], setting: str, name: str) -> ParameterSummary:
    of_prior = [one.settings[setting] for one in from_prior(results)]
    judged = [one.parameters[name] for one in of_prior]
    beyond = [one.settings[setting].parameters[name] for one in results if one.beyond == name]
    return ParameterSummary(
        ranks=ranks.histogram([one.rank for one in judged]),
        inside_end=statistics.share([one.inside_end for one in judged]),
        rms_z=math.sqrt(np.mean([one.mean_square_z for one in judged])),
        contraction=statistics.median([one.contraction for one in judged]),
        unidentifiable=statistics.share([name in one.unidentifiable for one in of_prior]),
        beyond=statistics.share([one.inside_end for one in beyond]) if beyond else None,
    )
