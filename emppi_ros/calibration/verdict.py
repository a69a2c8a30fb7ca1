"""What the numbers of a calibration mean, in plain words that claim no more than they show."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from emppi_ros.calibration import recommendation, settings, summary
from emppi_ros.calibration.recommendation import HIGH, LARGEST_RMS_Z, LOW, Recommendation
from emppi_ros.calibration.runs import RunResult
from emppi_ros.calibration.settings import OWN
from emppi_ros.calibration.statistics import Median
from emppi_ros.calibration.summary import ParameterSummary, SettingSummary

_REQUIRED = f'{100 * LOW:.0f} to {100 * HIGH:.0f} %'
_UNLIKELY = 0.01  # probability of ranks this uneven, over the number of parameters
_WIDE = 0.25  # interval of a share


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
        *_of_parameters(summary.parameters(results, OWN), recommendation.is_calibrated(own)),
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
    if recommendation.is_calibrated(result):
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
        yield f'Recommended: {name} (belief: {settings.as_keys(chosen.setting)}), {why}.'
    holds = recommendation.is_calibrated(checked)
    others = f'{checked.runs} other run{"s" * (checked.runs > 1)}'
    yield (
        f'Checked on {others}: {_coverage(checked)}: {judgement(checked)}.'
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
