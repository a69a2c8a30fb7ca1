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
    """
    The recommended setting.

    Attributes
    ----------
    setting : BeliefSetting
        The setting.
    calibrated : bool
        Whether it was calibrated in the runs on which it was chosen.
    compatible : tuple of str
        All settings that were.
    checked : SettingSummary
        The setting in the other runs.
    own : SettingSummary
        The task's own setting in the other runs.
    gain : Median
        Gain in log score over the task's own setting, in the other runs [nats].

    """

    setting: BeliefSetting
    calibrated: bool
    compatible: tuple[str, ...]
    checked: SettingSummary
    own: SettingSummary
    gain: Median

    @property
    def changes(self) -> bool:
        """Whether another setting than the task's own is recommended."""
        return self.setting.name != OWN


def is_calibrated(one: SettingSummary) -> bool:
    """
    Return whether runs agree with a calibrated belief.

    The interval of the share of 90 % intervals that hold the truth overlaps the required one, and
    errors are about as large as believed.
    """
    low, high = one.inside_90.low, one.inside_90.high
    assert low is not None and high is not None
    return low <= HIGH and high >= LOW and one.rms_z <= LARGEST_RMS_Z


def is_better(gains: Sequence[float], comparisons: int) -> bool:
    """
    Return whether gains of runs are above 0 beyond chance, by a sign test.

    Several comparisons share the probability of an error (Bonferroni).
    """
    test = stats.binomtest(sum(one > 0.0 for one in gains), len(gains), alternative='greater')
    return bool(test.pvalue <= _LEVEL / comparisons)


def choose(
    summaries: Mapping[str, SettingSummary], gains: Callable[[str], Sequence[float]]
) -> tuple[str, bool]:
    """
    Return the name of the setting to use, and whether it is calibrated.

    It is the cheapest calibrated one: that with the fewest particles, which determine the
    processor time but for the noise of timings. Of those that are as cheap it is the task's own,
    unless another has a better log score beyond chance; without the task's own, the one with the
    best log score. If none is calibrated it is the one with the best log score of all.

    Parameters
    ----------
    summaries : mapping
        Summary of each setting.
    gains : callable
        Returns the gain in log score over the task's own in each run, given a name.

    """
    names = [name for name, one in summaries.items() if is_calibrated(one)]
    if not names:
        return max(summaries, key=lambda name: summaries[name].log_score.median), False
    fewest = min(summaries[name].particles for name in names)
    names = [name for name in names if summaries[name].particles == fewest]
    if OWN in names:
        compared = len(summaries) - 1
        others = [n for n in names if n != OWN and is_better(gains(n), compared)]
        names = others or [OWN]
    return max(names, key=lambda name: summaries[name].log_score.median), True


def recommend(results: Sequence[RunResult], settings: Sequence[BeliefSetting]) -> Recommendation:
    """Return the recommendation of runs, LEAST_RUNS or more, in the order in which they began."""
    of_prior = summary.from_prior(results)
    chosen_on, checked_on = of_prior[::2], of_prior[1::2]
    summaries = {one.name: summary.summarize(chosen_on, one.name) for one in settings}
    name, calibrated = choose(summaries, lambda other: summary.gains(chosen_on, other, OWN))
    (setting,) = (one for one in settings if one.name == name)
    return Recommendation(
        setting,
        calibrated,
        tuple(other for other, one in summaries.items() if is_calibrated(one)),
        summary.summarize(checked_on, name),
        summary.summarize(checked_on, OWN),
        statistics.median(summary.gains(checked_on, name, OWN)),
    )
