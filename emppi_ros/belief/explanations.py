"""Plain words about what makes a belief doubtful, for operators."""

from collections.abc import Mapping, Sequence
from typing import Any

from emppi_ros.belief.belief_monitor import SMALLEST
from emppi_ros.belief.changes import DetectedChange

_FEW = 2.0  # effective particles, below which a single one decides
_MANY = 0.1  # share of late measurements


def late_share(counts: Mapping[str, Any]) -> float:
    """Return the share of late measurements, from counts of the belief or its diagnostics."""
    skipped, updates = (float(counts.get(key, 0.0)) for key in ('late', 'updates'))
    return skipped / max(1.0, skipped + updates)


def late(share: float) -> str:
    """Return a sentence about a share of measurements that came too late to be used, or ''."""
    if share <= _MANY:
        return ''
    return (
        f'this machine is too slow for the belief: it skipped {share:.0%} of the measurements, '
        'to use new ones in time; use fewer particles'
    )


def misfit(names: Sequence[str]) -> str:
    """Return a sentence about quantities and parameters that are a misfit; '' without any."""
    return f'misfit: the model does not explain the errors in {_listed(names)}' if names else ''


def out_of_prior(parameters: Sequence[str]) -> str:
    """Return a sentence about parameters that contradict their prior; '' without any."""
    return f'contradicts its prior: {", ".join(parameters)}' if parameters else ''


def collapsed(parameters: Sequence[str]) -> str:
    """Return a sentence about parameters with a too narrow belief; '' without any."""
    if not parameters:
        return ''
    return (
        f'the belief about {_listed(parameters)} has collapsed: its standard deviation is much '
        'smaller than the measurements justify'
    )


def change(detected: DetectedChange) -> str:
    """Return a sentence about a change of a parameter."""
    return f'{detected.parameter} changed from {detected.before:.3g} to {detected.after:.3g}'


def warnings(summary: Mapping[str, Any]) -> list[str]:
    """Return sentences about what makes the belief in a run's summary doubtful."""
    misfits, collapse = (summary.get(key) or [] for key in ('misfit', 'collapsed'))
    narrow = [name for name in summary.get('unresolved', []) if name not in collapse]
    unknown, outside = (
        [name for name, values in summary.get('parameters', {}).items() if values.get(flag)]
        for flag in ('unidentifiable', 'out_of_prior')
    )
    slow = late(summary.get('late_measurements', 0.0))
    few = 0.0 < summary.get('ess_min', _FEW) < _FEW  # 0: no particle explained a measurement
    sentences = (
        (misfits, f'{misfit(misfits)}: it lacks an effect, or `likelihood` understates the noise; '
         'the estimates may be wrong'),
        (summary.get('reinjected'), f'no particle explained {summary.get("reinjected")} of the '
         'measurements: half of the particles were drawn from the prior again'),
        (slow, slow),
        (collapse, collapsed(collapse)),
        (narrow, f'the belief about {_listed(narrow)} is narrower than {SMALLEST:g} of its prior: '
         'no model is as precise as that'),
        (few, 'in some update a single particle had nearly all the weight: more particles or a '
         'larger `likelihood` noise are needed; `emppi calibrate` compares them'),
        (unknown, f'the measurements say almost nothing about {_listed(unknown)}'),
        (outside, f'the prior of {_listed(outside)} contradicts the measurements'),
    )  # fmt: skip
    return [sentence for holds, sentence in sentences if holds]


def readable(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary to be read by people, with changes in words and without warnings."""
    changes = [f'{one["parameter"]} at {one["time_s"]:g} s' for one in summary['changes']]
    doubts = 'misfit', 'collapsed', 'unresolved', 'reinjected'
    text = {key: value for key, value in summary.items() if key not in doubts}
    notes = dict.fromkeys(summary.get('unresolved', []), 'too narrow to be true')
    notes |= dict.fromkeys(summary['collapsed'], 'collapsed')
    text['parameters'] = {
        name: values | ({'sd': f'{values["sd"]:.4g} ({notes[name]})'} if name in notes else {})
        for name, values in summary['parameters'].items()
    }
    text.pop('changes')
    return text | ({'changes': ', '.join(changes)} if changes else {})


def _listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence."""
    words = [name.replace('_', ' ') for name in names]
    return ' and '.join(filter(None, [', '.join(words[:-1]), *words[-1:]]))
