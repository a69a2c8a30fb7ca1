"""Plain words about what makes a belief doubtful, for operators."""

from collections.abc import Mapping, Sequence
from typing import Any

from emppi_ros.belief.change_detection import DetectedChange


def misfit(quantities: Sequence[str]) -> str:
    """Return a sentence about quantities that no parameter explains; '' without any."""
    if not quantities:
        return ''
    return f'misfit: no parameter explains the errors of {_listed(quantities)}'


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
    found = []
    if summary.get('misfit'):
        found.append(
            f'{misfit(summary["misfit"])}: the model lacks an effect, or `likelihood` '
            'understates the noise; the estimates may be wrong'
        )
    if summary.get('reinjected'):
        found.append(
            f'no particle explained {summary["reinjected"]} of the measurements: half of the '
            'particles were drawn from the prior again'
        )
    parameters = summary.get('parameters', {})
    unknown, outside = (
        [name for name, values in parameters.items() if values.get(flag)]
        for flag in ('unidentifiable', 'out_of_prior')
    )
    if summary.get('collapsed'):
        found.append(collapsed(summary['collapsed']))
    if unknown:
        found.append(f'the measurements say almost nothing about {_listed(unknown)}')
    if outside:
        found.append(f'the prior of {_listed(outside)} contradicts the measurements')
    return found


def readable(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return a summary to be read by people, with changes in words and without warnings."""
    changes = [f'{one["parameter"]} at {one["time_s"]:g} s' for one in summary['changes']]
    narrow = summary['collapsed']
    text = {k: v for k, v in summary.items() if k not in ('misfit', 'collapsed', 'reinjected')}
    text['parameters'] = {
        name: values | ({'sd': f'{values["sd"]:.4g} (collapsed)'} if name in narrow else {})
        for name, values in summary['parameters'].items()
    }
    text.pop('changes')
    return text | ({'changes': ', '.join(changes)} if changes else {})


def _listed(names: Sequence[str]) -> str:
    """Return names as a list in a sentence."""
    words = [name.replace('_', ' ') for name in names]
    return ' and '.join(filter(None, [', '.join(words[:-1]), words[-1]]))
