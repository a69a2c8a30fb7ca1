"""Runs with several seeds: how each ended, in which time, and z of each parameter."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from emppi_ros.belief import explanations
from emppi_ros.bridge.faults import OVERLOAD, RESIDUAL
from emppi_ros.cli import output
from emppi_ros.core.errors import EmppiError

Columns = Mapping[str, Callable[[Mapping[str, Any]], str]]  # more ones, by name
SUCCESS = 'success'
_MOST = 0.5  # of the plans
_NOTE = 'z: (mean - true) / sd at the end. all: successes, their median time, rms of z'


def describe_end(summary: Mapping[str, Any]) -> str:
    """Return how a run ended: success, a fault of the bridge, or the time limit."""
    if summary['success']:
        return SUCCESS
    faults = [text for _, text in summary.get('faults', [])]
    fault = summary.get('bridge_fault') or (faults[-1] if faults else '')
    text = f'fault: {fault}' if fault else 'time limit'
    share = summary.get('deadline_misses', 0.0)
    if share > _MOST and (not fault or is_overloaded(summary)):
        text += f'; this machine plans too slowly: {share:.0%} of the plans missed their deadline'
    elif is_overloaded(summary):
        text += f'; {explanations.late(summary["late_measurements"])}'
    diverged = summary.get('diverged', 0)
    return f'{text}; {diverged} rollouts diverged' if diverged else text


def is_overloaded(summary: Mapping[str, Any]) -> bool:
    """Return whether a run over ROS failed because most plans or measurements were late."""
    if summary['success']:
        return False
    code = summary.get('bridge_fault_code')
    if code in OVERLOAD:
        return bool(summary['deadline_misses'] > _MOST)
    return code in (RESIDUAL, '') and summary.get('late_measurements', 0.0) > _MOST


def warnings(summary: Mapping[str, Any]) -> list[str]:
    """Return whether a real arm would have stopped where the simulated one went on."""
    share = summary['deadline_misses']
    if share <= _MOST or is_overloaded(summary):
        return []
    return [
        f'this machine plans too slowly for a real arm: {share:.0%} of the plans missed their '
        'deadline'
    ]


def compute_row(seed: int, run: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summary of a run, with z of each parameter; an error becomes its end."""
    try:
        summary = dict(run())
    except EmppiError as error:
        return {
            'seed': seed, 'success': False, 'time_s': np.nan, 'ended': f'error: {error}',
            'parameters': {},
        }  # fmt: skip
    for values in summary['parameters'].values():
        values['z'] = z_score(values)
    return {**summary, 'seed': seed, 'ended': describe_end(summary)}


def z_score(values: Mapping[str, float]) -> float:
    """Return the error of the mean in standard deviations; NaN if both are 0."""
    error, sd = values['mean'] - values['true'], values['sd']
    return error / sd if sd > 0.0 else np.nan if error == 0.0 else np.copysign(np.inf, error)


def total(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the number of successes, the median time to success, and the rms of z."""
    times = [row['time_s'] for row in rows if row['success']]
    names = dict.fromkeys(name for row in rows for name in row['parameters'])
    return {
        'successes': len(times),
        'of': len(rows),
        'median_time_s': float(np.median(times)) if times else None,
        'rms_z': {
            name: float(np.sqrt(np.mean([
                row['parameters'][name]['z'] ** 2 for row in rows if row['parameters']
            ])))
            for name in names
        },
    }  # fmt: skip


def show(
    rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str], columns: Columns, as_json: bool
) -> None:
    """Print a table of runs, or with labels one JSON object."""
    totals = total(rows)
    if as_json:
        print(output.to_json({**labels, **totals, 'runs': rows}), flush=True)
    else:
        print('\n'.join(table(rows, totals, columns)), flush=True)


def table(
    rows: Sequence[Mapping[str, Any]], totals: Mapping[str, Any], columns: Columns
) -> list[str]:
    """Return the lines of a table: one for each run, with more `columns`, then the totals."""
    names = list(totals['rms_z'])
    lines = [['seed', 'success', 'time_s', *(f'z {name}' for name in names), *columns, 'ended']]
    for row in rows:
        z = [row['parameters'].get(name, {}).get('z', np.nan) for name in names]
        lines.append([
            str(row['seed']), 'yes' if row['success'] else 'no', _text(row['time_s'], '.2f'),
            *(_text(value, '+.2f') for value in z), *(text(row) for text in columns.values()),
            row['ended'],
        ])  # fmt: skip
    median = totals['median_time_s']
    lines.append([
        'all', f'{totals["successes"]}/{totals["of"]}', '-' if median is None else f'{median:.2f}',
        *(f'{rms:.2f}' for rms in totals['rms_z'].values()), *('' for _ in columns), '',
    ])  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)][:-1]
    texts = []
    for *cells, last in lines:
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        texts.append('  '.join([*aligned, last]).rstrip())
    return [*texts, _NOTE]


def _text(value: float, form: str) -> str:
    return '-' if np.isnan(value) else format(value, form)
