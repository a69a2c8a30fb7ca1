"""`emppi bench articulate`: how often inferred kinematic trees are right."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from dataclasses import dataclass
import hashlib
from pathlib import Path
import time
from typing import Any, ClassVar

import numpy as np

from benchmarks.articulation import mechanisms, recordings
from benchmarks.articulation.mechanisms import MECHANISMS
from benchmarks.pages import constants
from benchmarks.study import (
    Axis,
    Cells,
    Computed,
    Page,
    Results,
    Run,
    Selection,
    Study,
    computed,
    grouped,
)
from emppi_ros.articulation import topology
from emppi_ros.articulation.tracks import Noise, Tracks
from emppi_ros.calibration import report, statistics
from emppi_ros.calibration.report import table

NOISE = Noise()
OUTLIERS = (0.0, 0.1)
REAL = 'real'  # in place of the name of a mechanism


@dataclass(frozen=True)
class ArticulationRun(Run):
    """A mechanism with a share of wrong poses and a seed, or a recording by its name."""

    mechanism: str
    outliers: float
    seed: int
    recording: str  # '' for simulated mechanisms


@dataclass(frozen=True)
class ArticulationCell(ArticulationRun):
    """A run to compute."""

    kind: str = ''  # type of joint of a recording; '' if not known
    rotation_deg: float = -1.0  # range of rotation of a recording; -1 if not measured
    tracks: Tracks | None = None  # those of a recording
    digest: str = ''  # of the recording


@dataclass(frozen=True)
class ArticulationRow(ArticulationRun, Computed):
    """What was inferred in a run."""

    topology: bool  # whether the parts are joined correctly
    right: bool  # whether all types are right, too
    undecided: bool  # whether a type is undecided, and no other is wrong
    kind: str  # of a recording: the inferred type, with the candidates if undecided
    expected: str  # of a recording: its type, '' if not known
    rotation_deg: float  # of a recording: range of rotation; -1 if not measured
    axis_deg: tuple[float, ...]  # errors of the axes and pivots, where the type is right
    pivot_mm: tuple[float, ...]


class ArticulationStudy(Study):
    """Kinematic trees of simulated mechanisms, and joints of real ones."""

    name = 'articulate'
    help = 'infer kinematic trees from noisy and from published tracks'
    description = """
Infer kinematic trees from noisy tracks of simulated mechanisms, and from published tracks. The
recordings are not part of this package: --data is a folder that contains sturm_tracks.
"""
    row = ArticulationRow
    axes: ClassVar[Mapping[str, Axis]] = {'mechanisms': Axis('mechanism', MECHANISMS)}
    seeds = range(100, 120)  # development used others
    quick = 'one seed of each mechanism'
    outdated_by = 'recordings'

    def add_options(self, parser: Any) -> None:
        """Add the folder of the recordings."""
        parser.add_argument(
            '--data', metavar='FOLDER', type=Path, help='folder with sturm_tracks (simulated only)'
        )

    def cells(self, selection: Selection) -> Cells:
        """Return the cells of mechanisms, and of recordings; BenchError if there are none."""
        cells = [
            ArticulationCell(name, outliers, seed, '')
            for name in selection.names['mechanisms']
            for outliers in OUTLIERS
            for seed in selection.seeds
        ]
        data = getattr(selection.options, 'data', None)
        for recording in recordings.read(data) if data is not None else ():
            rotation = -1.0 if np.isnan(recording.rotation_deg) else recording.rotation_deg
            digest = hashlib.sha256(recording.content).hexdigest()
            recorded = recording.name, recording.kind, rotation, recording.tracks, digest
            cells.append(ArticulationCell(REAL, 0.0, 0, *recorded))
        return Cells(cells)

    @staticmethod
    def compute(cell: ArticulationCell) -> ArticulationRow:
        """Return the row of a cell."""
        began, rng = time.perf_counter(), np.random.default_rng(cell.seed)
        inferred: dict[str, Any] = {'kind': '', 'axis_deg': (), 'pivot_mm': ()}
        if cell.tracks is None:
            mechanism = MECHANISMS[cell.mechanism](rng)
            tracks = mechanisms.track(mechanism, NOISE, cell.outliers, rng)
            compared = mechanisms.compare(topology.infer(tracks, cell.seed), mechanism)
            inferred |= {
                'topology': compared.topology,
                'right': compared.kinds,
                'undecided': compared.undecided,
                'axis_deg': tuple(np.degrees(compared.axis_rad).tolist()),
                'pivot_mm': tuple((1000.0 * np.array(compared.pivot_m)).tolist()),
            }
        else:
            joint = topology.infer(cell.tracks).joint(recordings.PART)
            undecided = joint.kind == 'undecided'
            kind = f'undecided: {" or ".join(joint.candidates)}' if undecided else joint.kind
            right = joint.kind == cell.kind
            inferred |= dict(topology=True, right=right, undecided=undecided, kind=kind)
        return ArticulationRow(
            **computed(cell, began),
            **inferred,
            expected=cell.kind,
            rotation_deg=cell.rotation_deg,
        )

    def page(self, results: Results) -> Page:
        """Return rates of right trees and errors of axes, and the types of real joints."""
        simulated = [row for row in results.rows if row.mechanism != REAL]
        real = [row for row in results.rows if row.mechanism == REAL]
        labelled = [row for row in real if row.expected]
        values = {
            'right': sum(row.right for row in simulated),
            'total': len(simulated),
            'undecided': sum(row.undecided for row in simulated),
            'real_undecided': sum(row.undecided for row in labelled),
            'real_right': sum(row.right for row in labelled),
            'real_total': len(labelled),
            'simulated': _simulated(simulated),
            'wrong': _wrong(simulated),
            'real': _real(real, labelled),
            **constants(mechanisms, recordings),
        }
        data = {'rows': [dataclasses.asdict(row) for row in results.rows]}
        return Page(values, {}, (), _lines(simulated, labelled), data)


def _simulated(rows: Sequence[ArticulationRow]) -> str:
    header = 'mechanism', 'outliers', 'right', 'undecided', 'axis [deg]', 'pivot [mm]'
    lines = (
        (
            name.replace('-', ' '), f'{100.0 * outliers:.0f} %',
            statistics.share([row.right for row in own]),
            sum(row.undecided for row in own),
            _median([value for row in own for value in row.axis_deg]),
            _median([value for row in own for value in row.pivot_mm]),
        )
        for (name, outliers), own in grouped(rows, 'mechanism', 'outliers').items()
    )  # fmt: skip
    return table(header, lines) if rows else ''


def _wrong(rows: Sequence[ArticulationRow]) -> list[str]:
    """Return a list of the runs whose tree is wrong."""
    lines = [
        f'{row.mechanism}, {100.0 * row.outliers:.0f} % outliers, seed {row.seed}: '
        + ('types' if row.topology else 'topology')
        for row in rows
        if not row.right and not row.undecided
    ]
    return ['Wrong:', report.bullets(lines)] if lines else []


def _median(values: Sequence[float]) -> str:
    return str(statistics.median(values)) if values else '-'


def _real(rows: Sequence[ArticulationRow], labelled: Sequence[ArticulationRow]) -> list[str]:
    """Return the paragraphs about recordings, by folder."""
    if not rows:
        return []
    folders: dict[str, list[ArticulationRow]] = {}
    for row in labelled:
        folders.setdefault(row.recording.partition('/')[0], []).append(row)
    positions = [row for row in labelled if row.rotation_deg < 0.0]
    groups = {**folders, 'all with positions only': positions, 'all': list(labelled)}
    lines = [_line(name, own) for name, own in groups.items() if own]
    parts = [table(('folder', 'right', 'undecided', 'wrong'), lines)]
    failed = [row for row in labelled if not row.right]
    if failed:
        kinds = (f'{row.recording}: {row.kind}, not {row.expected}' for row in failed)
        parts += ['Not right:', report.bullets(kinds)]
    between = [row for row in rows if not row.expected]
    if between:
        kinds = (
            f'{row.recording}: {row.rotation_deg:.0f} degrees; inferred: {row.kind}'
            for row in between
        )
        limits = f'{recordings.SLIDE_DEG:g} and {recordings.HINGE_DEG:g} degrees'
        parts += [f'Between {limits}, and so without a label:', report.bullets(kinds)]
    return parts


def _line(name: str, rows: Sequence[ArticulationRow]) -> tuple[object, ...]:
    undecided = sum(row.undecided for row in rows)
    wrong = sum(not row.right and not row.undecided for row in rows)
    return name, statistics.share([row.right for row in rows]), undecided, wrong


def _lines(
    simulated: Sequence[ArticulationRow], labelled: Sequence[ArticulationRow]
) -> Iterable[str]:
    """Yield the most important numbers, one line for each group."""
    for (name, outliers), own in grouped(simulated, 'mechanism', 'outliers').items():
        share = statistics.share([row.right for row in own])
        axis = [value for row in own for value in row.axis_deg]
        median = f'{np.median(axis):.2f} deg' if axis else '-'
        yield f'{name:18} outliers {outliers:4.0%}  right {share}  axis {median}'
    if labelled:
        yield f'{"real tracks":18} right {statistics.share([row.right for row in labelled])}'


STUDY = ArticulationStudy()
