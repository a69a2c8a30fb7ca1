"""Which setting to use: chosen on one half of the runs, and checked on the other."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from scipy import stats

from emppi_ros.calibration import statistics, summary
from emppi_ros.calibration.runs import RunResult
from emppi_ros.calibration.settings import OWN, BeliefSetting
from emppi_ros.calibration.statistics import Median
from emppi_ros.calibration.summary import SettingSummary

LOW, HIGH = 0.80, 0.97  # required share of 90 % intervals that hold the truth
LARGEST_RMS_Z = 1.5
_LEVEL = 0.05  # probability of leaving calibrated settings by chance, for any other
LEAST_RUNS = 4  # each half then has a truth from the prior


class Recommendation(NamedTuple):
    """The recommended setting."""

    setting: BeliefSetting
    calibrated: bool  # in the runs on which it was chosen
    compatible: tuple[str, ...]  # all settings that were
    checked: SettingSummary  # the setting in the other runs
    own: SettingSummary  # the task's own setting in the other runs
    gain: Median  # in log score over the task's own setting, in the other runs [nats]

    @property
    def changes(self) -> bool:
        """Whether another setting than the task's own is recommended."""
        return self.setting.name != OWN


def is_calibrated(result: SettingSummary) -> bool:
    """Return whether runs agree with a calibrated belief: intervals overlap the required share."""
    _, low, high, _ = result.inside_90
    return low <= HIGH and high >= LOW and result.rms_z <= LARGEST_RMS_Z


def is_better(gains: Sequence[float], comparisons: int) -> bool:
    """Return whether gains are above 0 beyond chance: a sign test, corrected for comparisons."""
    test = stats.binomtest(sum(gain > 0.0 for gain in gains), len(gains), alternative='greater')
    return bool(test.pvalue <= _LEVEL / comparisons)


def choose(
    summaries: Mapping[str, SettingSummary], gains: Callable[[str], Sequence[float]]
) -> tuple[str, bool]:
    """
    Return the name of the setting to use, and whether it is calibrated.

    It is the cheapest calibrated one: that with the fewest particles, which determine the
    processor time but for the noise of timings. Of those that are as cheap it is the task's own,
    unless another has a better log score beyond chance; without the task's own, the one with the
    best log score. If none is calibrated it is the one with the best log score of all. `gains`
    returns the gain in log score over the task's own in each run, given a name.
    """
    names = [name for name, result in summaries.items() if is_calibrated(result)]
    calibrated = bool(names)
    if calibrated:
        fewest = min(summaries[name].particles for name in names)
        names = [name for name in names if summaries[name].particles == fewest]
        if OWN in names:
            compared = len(summaries) - 1
            others = [n for n in names if n != OWN and is_better(gains(n), compared)]
            names = others or [OWN]
    best = max(names or summaries, key=lambda name: summaries[name].log_score.median)
    return best, calibrated


def recommend(results: Sequence[RunResult], settings: Sequence[BeliefSetting]) -> Recommendation:
    """Return the recommendation of runs, LEAST_RUNS or more, in the order in which they began."""
    of_prior = summary.from_prior(results)
    chosen_on, checked_on = of_prior[::2], of_prior[1::2]
    summaries = {s.name: summary.summarize(chosen_on, s.name) for s in settings}
    name, calibrated = choose(summaries, lambda other: summary.gains(chosen_on, other, OWN))
    return Recommendation(
        next(setting for setting in settings if setting.name == name),
        calibrated,
        tuple(other for other, result in summaries.items() if is_calibrated(result)),
        summary.summarize(checked_on, name),
        summary.summarize(checked_on, OWN),
        statistics.median(summary.gains(checked_on, name, OWN)),
    )
