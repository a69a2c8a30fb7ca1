"""Write a page from the outcomes of tests: each row of the matrix with its state."""

import datetime
import os
from pathlib import Path
import platform
import sys

from faultlab.campaign import COUNT
from faultlab.rows import CAMPAIGN, ROWS, SAFE_STOP, Row

_FIGURES = ('onset_ms', 'rest_ms')
_PEAKS = (
    ('trajectory', 'with actual arrival times', 'peaks'),
    ('forward', 'at its nominal rate', 'peaks'),
    ('forward', 'with actual sending times, which jitter', 'peaks_sent'),
)


class Collector:
    """A pytest plugin that runs the tests of all rows, and stores outcome and figures of each."""

    def __init__(self):
        self.tests = {}

    def pytest_collection_modifyitems(self, config, items):
        """Deselect the tests that belong to no row."""
        beginnings = (CAMPAIGN, *(name for row in ROWS for name in row.tests))
        selected = [item for item in items if item.nodeid.startswith(beginnings)]
        config.hook.pytest_deselected(items=[item for item in items if item not in selected])
        items[:] = selected

    def pytest_runtest_logreport(self, report):
        """Add one phase of a test; a failure in any phase counts."""
        known = self.tests.setdefault(report.nodeid, {'outcome': 'passed', 'reason': ''})
        if report.outcome == 'failed':
            known['outcome'] = 'failed'
        elif report.outcome == 'skipped':
            known.update(outcome='skipped', reason=str(report.longrepr[-1]))
        known.update(dict(report.user_properties))


def belonging(row: Row, tests: dict) -> dict:
    """Return the tests of a row."""
    return {name: t for name, t in tests.items() if name.startswith(row.tests)}


def state(row: Row, tests: dict) -> str:
    """Return the state of a row as one word or sentence."""
    found = belonging(row, tests)
    outcomes = [test['outcome'] for test in found.values()]
    if 'failed' in outcomes:
        failed = sorted(name.split('::')[-1] for name, t in found.items() if is_failed(t))
        return f'**failed**: {", ".join(failed[:4])}'
    if 'passed' in outcomes:
        return 'passed' + (f' {len(outcomes)}' if 'skipped' not in outcomes else _partly(found))
    if 'skipped' in outcomes:
        return f'skipped: {next(iter(found.values()))["reason"].removeprefix("Skipped: ")}'
    return f'not run: {row.not_run or "its tests are not here"}'


def is_failed(test: dict) -> bool:
    """Return whether a test failed."""
    return test['outcome'] == 'failed'


def _partly(found):
    passed = sum(test['outcome'] == 'passed' for test in found.values())
    return f' {passed}, skipped {len(found) - passed}'


def render(tests: dict, command: str) -> str:
    """Return the document."""
    lines = [
        '# The fault matrix',
        '',
        f'Written by `{command}` on {datetime.date.today().isoformat()}: do not edit.',
        f'Machine: {machine()}.',
        '',
        f'**S**, a safe stop: {SAFE_STOP}.',
        '',
        'Times count from the start of the last valid plan, or from the last valid joint state. '
        'For backend `trajectory`, the motion that a joint_trajectory_controller executes is '
        'sampled at 1 kHz and differentiated; commands of `forward` are differentiated at their '
        'own rate of 250 Hz. Sampled at 1 kHz, held velocities would be steps, whose jerk '
        'exceeds every limit. This is why that backend refuses hardware.',
        '',
        *_figures(tests),
        '| row | fault | required | tests | faults | onset, rest at most (ms) | state |',
        '|---|---|---|---|---|---|---|',
    ]
    lines += [_line(row, tests) for row in ROWS]
    lines += ['', '## Not run here', '']
    lines += [f'- {row.number}: {row.not_run}.' for row in ROWS if row.not_run]
    return '\n'.join(lines) + '\n'


def _line(row, tests):
    found = belonging(row, tests)
    count = sum(test.get('count', 0) for test in found.values())
    figures = []
    for name in _FIGURES:
        values = [test[name] for test in found.values() if name in test]
        figures.append(f'{max(values):.1f}' if values else '')
    ids = sorted({name.split('[')[0].split('/')[-1] for name in found})
    cells = [
        row.number,
        row.fault,
        row.required,
        '<br>'.join(ids) or 'none',
        str(count or ''),
        ', '.join(filter(None, figures)),
        state(row, tests),
    ]
    return '| ' + ' | '.join(cell.replace('|', '\\|').replace('\n', ' ') for cell in cells) + ' |'


def _figures(tests):
    """Return the figures of all injected faults together."""
    campaign = [test for test in tests.values() if 'peaks' in test]
    if not campaign:
        return []
    lines = []
    for backend, title, kind in _PEAKS:
        found = [test[kind] for test in campaign if test['backend'] == backend]
        shares = ', '.join(f'{max(column):.3f}' for column in zip(*found, strict=True))
        lines += [
            f'Backend `{backend}`, {title}: largest velocity, acceleration and jerk, as shares of '
            f'the limits: {shares}.',
            '',
        ]
    total = sum(test['count'] for test in campaign)
    violations = sum(test['violations'] for test in campaign)
    stopped, late, disturbed, needless, left_out = (
        sum(test.get(key, 0) for test in tests.values())
        for key in ('unprovoked', 'late', 'disturbed', 'needless', 'not_judged')
    )
    head = (
        f'Faults judged: {total}. Violations: {violations}. Braking later than required: {late}. '
        f'Stops before a fault: {stopped}; '
        f'unnecessary stops: {needless}. '
        f'Timing not judged because the machine was disturbed: {disturbed}; not judged at '
        f'all because it stalled: {left_out}.'
    )
    return [head, '', *lines]


def machine() -> str:
    """Return hardware and software of this machine, without names or paths."""
    from rclpy.utilities import get_rmw_implementation_identifier

    return (
        f'{os.cpu_count()} hardware threads, {platform.system()} {platform.release()}, Python '
        f'{platform.python_version()}, {get_rmw_implementation_identifier()}'
    )


def main(page: Path) -> int:
    """Run all tests of the matrix and write the page."""
    import pytest

    root = Path(__file__).resolve().parents[4]
    files = {test.split('::')[0] for row in ROWS for test in row.tests}
    present = sorted(str(root / name) for name in files if (root / name).exists())
    collector = Collector()
    code = pytest.main([f'--rootdir={root}', '-q', *present], plugins=[collector])
    page.parent.mkdir(parents=True, exist_ok=True)
    text = render(collector.tests, f'make faults FAULTS={COUNT}')
    page.write_text(text, encoding='utf-8')
    return int(code)


if __name__ == '__main__':
    sys.exit(main(Path(sys.argv[1])))
