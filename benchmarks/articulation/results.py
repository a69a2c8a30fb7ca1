"""The report `results.md`: rates of right trees, errors of axes, and real tracks."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.articulation import recordings
from benchmarks.articulation.compute import REAL, ArticulationRow
from benchmarks.articulation.mechanisms import FRAMES, MECHANISMS, RATE_HZ
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.report import Provenance, table

NAME = 'results.md'
METHOD = (
    f'`emppi articulate` with its defaults, on simulated mechanisms and on published tracks. Each '
    f'mechanism has a random geometry, random frames of its parts and a random smooth motion for '
    f'each seed, {FRAMES} frames at {RATE_HZ:g} Hz. MuJoCo computes the poses; noise is 2 mm and '
    '1 degree per axis. An outlier is up to 0.3 m away along each axis, with a random rotation.'
)
COLUMNS = (
    '- right: the same parts are joined, by joints of the same types. Parts that are welded '
    'together count as one. With 95 % Wilson intervals.\n'
    '- undecided: a type is undecided, and nothing is wrong.\n'
    '- axis, pivot: median errors over all joints of right types (95 % interval), in the frame '
    'of the parent; that of a pivot is the distance of the axes at the child.'
)
LABELS = (
    f'Recordings of real drawers and doors ({recordings.SOURCE}), one tracked part each. Folders '
    f'other than `{recordings.KITCHEN}` have positions only, and are named after what was opened. '
    f'`{recordings.KITCHEN}` has no labels: a rotation by more than {recordings.HINGE_DEG:g} '
    f'degrees is taken for a hinge, by less than {recordings.SLIDE_DEG:g} for a slide. No '
    'threshold was chosen on these recordings. The limit of five times the given noise was added '
    'after a first run, because of simulated chains that float: the types here stayed the same.'
)


def write(
    folder: Path, rows: Sequence[ArticulationRow], provenance: Provenance, wanted: int
) -> list[Path]:
    """Write the report, and return its path."""
    parts = [*report.header('Articulation', rows, wanted, provenance)]
    simulated = [row for row in rows if row.mechanism != REAL]
    if simulated:
        parts += [METHOD, COLUMNS, '## Simulated mechanisms', _simulated(simulated)]
        parts += _wrong(simulated)
    real = [row for row in rows if row.mechanism == REAL]
    if real:
        parts += ['## Real tracks', LABELS, *_real(real)]
    return [report.write(folder / NAME, parts)]


def groups(
    rows: Sequence[ArticulationRow],
) -> Iterable[tuple[str, float, list[ArticulationRow]]]:
    """Yield mechanism, share of outliers and rows of simulated mechanisms."""
    for name in MECHANISMS:
        for outliers in sorted({row.outliers for row in rows}):
            own = [row for row in rows if row.mechanism == name and row.outliers == outliers]
            if own:
                yield name, outliers, own


def _simulated(rows: Sequence[ArticulationRow]) -> str:
    header = 'mechanism', 'outliers', 'right', 'undecided', 'axis [deg]', 'pivot [mm]'
    return table(
        header,
        (
            (
                name.replace('-', ' '), f'{100.0 * outliers:.0f} %',
                statistics.share([row.right for row in own]),
                sum(row.undecided for row in own),
                _median([value for row in own for value in row.axis_deg]),
                _median([value for row in own for value in row.pivot_mm]),
            )
            for name, outliers, own in groups(rows)
        ),
    )  # fmt: skip


def _wrong(rows: Sequence[ArticulationRow]) -> Iterable[str]:
    """Yield a list of the runs whose tree is wrong."""
    lines = [
        f'{row.mechanism}, {100.0 * row.outliers:.0f} % outliers, seed {row.seed}: '
        + ('types' if row.topology else 'topology')
        for row in rows
        if not row.right and not row.undecided
    ]
    if lines:
        yield 'Wrong:'
        yield report.bullets(lines)


def _median(values: Sequence[float]) -> str:
    return str(statistics.median(values)) if values else '-'


def _real(rows: Sequence[ArticulationRow]) -> Iterable[str]:
    labelled = [row for row in rows if row.expected]
    folders = dict.fromkeys(row.recording.partition('/')[0] for row in labelled)
    lines = []
    for folder in folders:
        own = [row for row in labelled if row.recording.startswith(f'{folder}/')]
        lines.append(_line(folder, own))
    positions = [row for row in labelled if row.rotation_deg < 0.0]
    if positions:
        lines.append(_line('all with positions only', positions))
    lines.append(_line('all', labelled))
    yield table(('folder', 'right', 'undecided', 'wrong'), lines)
    failed = [row for row in labelled if not row.right]
    if failed:
        yield 'Not right:'
        yield report.bullets(f'{row.recording}: {row.kind}, not {row.expected}' for row in failed)
    between = [row for row in rows if not row.expected]
    if between:
        yield (
            f'Between {recordings.SLIDE_DEG:g} and {recordings.HINGE_DEG:g} degrees, and so '
            'without a label:'
        )
        yield report.bullets(
            f'{row.recording}: {row.rotation_deg:.0f} degrees; inferred: {row.kind}'
            for row in between
        )


def _line(name: str, rows: Sequence[ArticulationRow]) -> tuple[object, ...]:
    undecided = sum(row.undecided for row in rows)
    wrong = sum(not row.right and not row.undecided for row in rows)
    return name, statistics.share([row.right for row in rows]), undecided, wrong


def lines(rows: Sequence[ArticulationRow]) -> Iterable[str]:
    """Yield the most important numbers, one line for each group."""
    for name, outliers, own in groups(rows):
        share = statistics.share([row.right for row in own])
        axis = [value for row in own for value in row.axis_deg]
        median = f'{np.median(axis):.2f} deg' if axis else '-'
        yield f'{name:18} outliers {outliers:4.0%}  right {share}  axis {median}'
    real = [row for row in rows if row.mechanism == REAL and row.expected]
    if real:
        yield f'{"real tracks":18} right {statistics.share([row.right for row in real])}'
