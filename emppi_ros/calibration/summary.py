"""Summaries of runs: of each setting, and of each parameter under one setting."""

from collections.abc import Mapping, Sequence
import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from emppi_ros.calibration import statistics
from emppi_ros.calibration.belief_scores import DRAWS
from emppi_ros.calibration.runs import RunResult
from emppi_ros.calibration.statistics import CONFIDENCE, MeanShare, Median, Share

_BINS = (20, 10, 5, 4, 2)  # of histograms; they divide the number of ranks
_LEAST = 5  # ranks expected in a bin, for the chi-square test
SHOWS = 0.19  # contraction: 0.9 of the prior's sd is left, as for `unidentifiable`


class RankHistogram(NamedTuple):
    """Counts of ranks in bins of equal probability, from the lowest."""

    counts: tuple[int, ...]
    low: int  # ends of the interval that holds the count of a bin with a probability of at least
    high: int  # 95 % if ranks are uniform
    probability: float  # of counts at least as uneven if ranks are uniform (chi-square test)


def histogram(ranks: Sequence[int]) -> RankHistogram:
    """Return the histogram of ranks; its bins hold five or more in the mean, if two can."""
    total = len(ranks)
    bins = next((n for n in _BINS if total >= _LEAST * n), _BINS[-1])
    counts, _ = np.histogram(ranks, bins=bins, range=(-0.5, DRAWS + 0.5))
    low, high = stats.binom.interval(CONFIDENCE, total, 1.0 / bins)
    probability = float(stats.chisquare(counts).pvalue)
    return RankHistogram(tuple(counts.tolist()), int(low), int(high), probability)


class SettingSummary(NamedTuple):
    """Scores of one setting over runs with truths from the prior; intervals are over runs."""

    runs: int
    inside_50: MeanShare
    inside_90: MeanShare
    inside_end: MeanShare  # last 90 % intervals that hold the truth
    rms_z: float
    log_score: Median
    ess: float  # mean, as a fraction of the particles
    reinjected: Share  # runs in which no particle explained some measurement
    misfit: Share  # runs with errors that no parameter explains
    particles: int
    update_ms: float  # median


class ParameterSummary(NamedTuple):
    """Scores of one parameter: all but `beyond` of the runs with truths from the prior."""

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
    return [result for result in results if not result.beyond]


def summarize(results: Sequence[RunResult], setting: str) -> SettingSummary:
    """Return the summary of a setting over all of the given runs, one or more."""
    of = [result.settings[setting] for result in results]

    def shares(name: str) -> MeanShare:
        return statistics.mean_share(_means(results, setting, name))

    return SettingSummary(
        runs=len(of),
        inside_50=shares('inside_50'),
        inside_90=shares('inside_90'),
        inside_end=shares('inside_end'),
        rms_z=math.sqrt(np.mean(_means(results, setting, 'mean_square_z'))),
        log_score=statistics.median(_means(results, setting, 'log_score')),
        ess=float(np.mean([result.ess for result in of])),
        reinjected=statistics.share([result.reinjected > 0 for result in of]),
        misfit=statistics.share([bool(result.misfit) for result in of]),
        particles=of[0].particles,
        update_ms=float(np.median([result.update_ms for result in of])),
    )


def _means(results: Sequence[RunResult], setting: str, name: str) -> list[float]:
    """Return the mean over parameters of a score in each run."""
    rows = [result.settings[setting].parameters.values() for result in results]
    return [float(np.mean([getattr(judged, name) for judged in row])) for row in rows]


def gains(results: Sequence[RunResult], setting: str, reference: str) -> list[float]:
    """Return the gain in log score of a setting over another in each run [nats]."""
    ours, theirs = (_means(results, name, 'log_score') for name in (setting, reference))
    return [a - b for a, b in zip(ours, theirs, strict=True)]


def parameters(results: Sequence[RunResult], setting: str) -> Mapping[str, ParameterSummary]:
    """Return the summary of each parameter under a setting, over all runs."""
    names = results[0].settings[setting].parameters
    return {name: _parameter(results, setting, name) for name in names}


def _parameter(results: Sequence[RunResult], setting: str, name: str) -> ParameterSummary:
    of_prior = [result.settings[setting] for result in from_prior(results)]
    judged = [result.parameters[name] for result in of_prior]
    beyond = [r.settings[setting].parameters[name] for r in results if r.beyond == name]
    return ParameterSummary(
        ranks=histogram([row.rank for row in judged]),
        inside_end=statistics.share([row.inside_end for row in judged]),
        rms_z=math.sqrt(np.mean([row.mean_square_z for row in judged])),
        contraction=statistics.median([row.contraction for row in judged]),
        unidentifiable=statistics.share([name in row.unidentifiable for row in of_prior]),
        beyond=statistics.share([row.inside_end for row in beyond]) if beyond else None,
    )
