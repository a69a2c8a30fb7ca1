"""Which setting to use, chosen on one half of the runs, and what the numbers mean, in words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from emppi_ros.calibration import statistics, summary
from emppi_ros.calibration.runs import OWN, BeliefSetting, RunResult, as_keys
from emppi_ros.calibration.statistics import Median
from emppi_ros.calibration.summary import ParameterSummary, SettingSummary

LOW, HIGH = 0.80, 0.97  # required share of 90 % intervals that hold the truth
LARGEST_RMS_Z = 1.5
_LEVEL = 0.05  # probability of leaving calibrated settings by chance, for any other
LEAST_RUNS = 4  # each half then has a truth from the prior
_REQUIRED = f'{100 * LOW:.0f} to {100 * HIGH:.0f} %'
_UNLIKELY = 0.01  # probability of ranks this uneven, over the number of parameters
_WIDE = 0.25  # interval of a share


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
            better = [n for n in names if n != OWN and is_better(gains(n), compared)]
            names = better or [OWN]
    best = max(names or summaries, key=lambda name: summaries[name].log_score.median)
    return best, calibrated


def recommend(results: Sequence[RunResult], compared: Sequence[BeliefSetting]) -> Recommendation:
    """Return the recommendation of runs, LEAST_RUNS or more, in the order in which they began."""
    of_prior = summary.from_prior(results)
    chosen_on, checked_on = of_prior[::2], of_prior[1::2]
    summaries = {s.name: summary.summarize(chosen_on, s.name) for s in compared}
    name, calibrated = choose(summaries, lambda other: summary.gains(chosen_on, other, OWN))
    return Recommendation(
        next(setting for setting in compared if setting.name == name),
        calibrated,
        tuple(other for other, result in summaries.items() if is_calibrated(result)),
        summary.summarize(checked_on, name),
        summary.summarize(checked_on, OWN),
        statistics.median(summary.gains(checked_on, name, OWN)),
    )


def sentences(results: Sequence[RunResult], chosen: Recommendation) -> list[str]:
    """Return sentences on the task's settings, the recommended one, and each parameter."""
    of_prior = summary.from_prior(results)
    own = summary.summarize(of_prior, OWN)
    runs = f'{own.runs} runs with truths from the prior'
    _, low, high, _ = own.inside_90
    uncertain = (
        f'{own.runs} runs leave the coverage uncertain by {100 * (high - low):.0f} % points: '
        'more --runs tell more.'
    )
    return [
        f'As it is, in {runs}: {_coverage(own)}: {judgement(own)}.',
        *_recommended(chosen),
        *_of_parameters(summary.parameters(results, OWN), is_calibrated(own)),
        *_of_errors(of_prior),
        *([uncertain] if high - low > _WIDE else []),
    ]


def _coverage(result: SettingSummary) -> str:
    """Return how often intervals hold the truth, and the size of errors."""
    return (
        f'90 % intervals hold the truth {result.inside_90} of the time, and errors are '
        f'{result.rms_z:.2g} times as large as believed (rms z)'
    )


def judgement(result: SettingSummary) -> str:
    """Return whether a setting is calibrated, or what is wrong with it."""
    _, low, high, _ = result.inside_90
    if is_calibrated(result):
        return f'compatible with the required {_REQUIRED}'
    if low > HIGH:
        return f'the belief is too cautious ({_REQUIRED} are required)'
    needs = _REQUIRED if high < LOW else f'rms z of at most {LARGEST_RMS_Z:g}'
    return f'the belief is too certain, or biased ({needs} required)'


def _recommended(chosen: Recommendation) -> Iterator[str]:
    name, checked = chosen.setting.name, chosen.checked
    if not chosen.calibrated:
        yield (
            'No setting of those compared is calibrated in the runs on which it is chosen: do '
            'not rely on the intervals of this belief.'
        )
    if not chosen.changes:
        why = 'calibrated, and none that is as cheap has a better log score beyond chance'
        yield f'Recommended: keep the settings ({why if chosen.calibrated else "best log score"}).'
    else:
        why = 'calibrated, and the best log score of those as cheap'
        why = why if chosen.calibrated else 'the best log score'
        yield f'Recommended: {name} (belief: {as_keys(chosen.setting)}), {why}.'
    holds = is_calibrated(checked)
    runs = f'{checked.runs} other run{"s" * (checked.runs > 1)}'
    yield (
        f'Checked on {runs}: {_coverage(checked)}: {judgement(checked)}.'
        + ('' if holds or not chosen.calibrated else ' The recommendation fails this check.')
    )
    if chosen.changes and not (holds and chosen.calibrated):
        yield 'From the recommended setting, `emppi calibrate` may get further.'
    if chosen.changes:
        yield f'Gain in log score over the settings as they are: {_gain(chosen.gain)}.'


def _gain(gain: Median) -> str:
    if gain.low is None or gain.high is None:
        return f'{gain.median:+.2f} nats; too few runs for an interval'
    text = f'{gain.median:+.2f} nats ({gain.low:+.2f} to {gain.high:+.2f})'
    return text if gain.low > 0.0 or gain.high < 0.0 else f'{text}, which may be chance'


def _of_parameters(parameters: Mapping[str, ParameterSummary], calibrated: bool) -> Iterator[str]:
    for name, result in parameters.items():
        if result.shows == 'hardly shows':
            yield (
                f'{name}: the measurements hardly show it (contraction '
                f'{result.contraction.median:.2f}); no setting can change that, another motion '
                'may.'
            )
        if result.ranks.probability < _UNLIKELY / len(parameters):
            yield (
                f'{name}: the ranks of the truth are not uniform '
                f'(p = {result.ranks.probability:.1g}): {shape(result.ranks.counts)}.'
            )
        few = result.beyond is not None and result.beyond.total > 1 and result.beyond.high < LOW
        if few and calibrated:  # else the prior is not to blame
            yield (
                f'{name}: where the truth lies beyond the prior, intervals hold it in '
                f'{result.beyond}: widen the prior if such values occur.'
            )


def shape(counts: Sequence[int]) -> str:
    """Return what a rank histogram means: its location or spread, whichever is less uniform."""
    places = np.arange(len(counts)) - 0.5 * (len(counts) - 1)
    shares = np.array(counts) / sum(counts)
    shift = float(shares @ places) / places.std()
    squares = places**2
    spread = float(shares @ squares - squares.mean()) / max(float(squares.std()), 1e-9)
    if abs(shift) > abs(spread):
        if shift < 0.0:
            return 'too many at the lower end: the belief overestimates it'
        return 'too many at the upper end: the belief underestimates it'
    if spread > 0.0:
        return 'too many at both ends, as of a belief that is too narrow'
    return 'too many in the middle, as of a belief that is too wide'


def _of_errors(results: Sequence[RunResult]) -> Iterator[str]:
    total, settings_of = len(results), [result.settings[OWN] for result in results]
    for quantity in sorted({name for result in settings_of for name in result.misfit}):
        count = sum(quantity in result.misfit for result in settings_of)
        if 2 * count > total:
            yield (
                f'{quantity.replace("_", " ")}: no parameter explains its errors in {count} of '
                f'{total} runs: `likelihood` understates the noise, or the model lacks an effect.'
            )
    outside = sum(result.reinjected > 0 for result in settings_of)
    if 2 * outside > total:
        yield (
            f'In {outside} of {total} runs no particle explained some measurement, and half of '
            'the particles were drawn from the prior again.'
        )
