"""`emppi bench track`: poses in depth videos, beside iterative closest points."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from dataclasses import dataclass
import time
from typing import ClassVar

import numpy as np

from benchmarks import means
from benchmarks.digests import code_digest
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
    described,
    grouped,
)
from benchmarks.track import estimators, videos
from benchmarks.track.estimators import (
    JOINTED,
    OURS,
    OWN,
    SMOOTHED,
    TRACKERS,
    EstimatedPoses,
    PartErrors,
    SmoothedTracker,
)
from benchmarks.track.videos import CAMERA, IMAGES, VIDEOS, make
from emppi_ros.calibration.report import table
from emppi_ros.tracking import surfaces

QUICK_IMAGES = 12
LIMIT_MM, LIMIT_DEG, BETTER = 5.0, 1.5, 10.0
_SMOOTHER = 'kalman_smoother.py', 'smoothing.py'
_OWN_TEXT = {OURS: '', SMOOTHED: ', smoothed', JOINTED: ', second pass'}  # of this package
_HEADER = (
    'tracker', 'part', 'videos', 'centre p95', 'worst', 'axis p95', 'worst', 'absolute', 'tracked',
    'squares', '90 %',
)  # fmt: skip
_TABLE_HEADER = (
    'video', 'tracker', 'seed', 'part', 'centre_p50_mm', 'centre_p95_mm', 'axis_p50_deg',
    'axis_p95_deg', 'mean_absolute', 'tracked', 'squares', 'inside', 'ms_p50', 'ms_p95', 'made_by',
)  # fmt: skip


@dataclass(frozen=True)
class TrackRun(Run):
    """An estimator on a video with a seed."""

    video: str
    tracker: str
    seed: int


@dataclass(frozen=True)
class TrackCell(TrackRun):
    """A run to compute."""

    images: int

    @property
    def digest(self) -> str:
        """Identifies the video, and the code that makes it and tracks."""
        folders = ('tracking', 'articulation') if self.tracker == JOINTED else ('tracking',)
        code = code_digest(
            *(f'emppi_ros/{folder}/*.py' for folder in folders),
            'benchmarks/track/videos.py',
            'benchmarks/track/estimators.py',
            *(f'benchmarks/assets/{video.file}' for video in VIDEOS.values()),
            without=() if self.tracker == SMOOTHED else _SMOOTHER,
        )
        return f'{code}-{self.images}'


@dataclass(frozen=True)
class TrackRow(TrackRun, Computed):
    """The result of a cell."""

    parts: Mapping[str, PartErrors]
    ms_p50: float  # processor time of an image
    ms_p95: float


class TrackStudy(Study):
    """Trackers of moving parts in simulated depth videos."""

    name = 'track'
    help = 'poses of parts in depth videos, beside ICP'
    description = """
Track moving parts in simulated depth videos, and compare with iterative closest points (ICP).
small_gicp is a reference that is used if it is named and installed.
"""
    row = TrackRow
    axes: ClassVar[Mapping[str, Axis]] = {
        'videos': Axis('video', VIDEOS, help=described(VIDEOS)),
        'trackers': Axis('tracker', TRACKERS, OWN),
    }
    seeds = range(100, 120)  # settings were chosen with others
    quick = f'one seed, {QUICK_IMAGES} images a video'
    outdated_by = 'code or scenes'
    parallel = False

    def cells(self, selection: Selection) -> Cells:
        """Return all cells, ordered by seed."""
        images = QUICK_IMAGES if selection.quick else IMAGES
        return Cells(
            [
                TrackCell(video, name, seed, images)
                for seed in selection.seeds
                for video in selection.names['videos']
                for name in selection.names['trackers']
            ]
        )

    @staticmethod
    def compute(cell: TrackCell) -> TrackRow:
        """Return the row of a cell; BenchError if a package is missing."""
        began = time.perf_counter()
        video = make(cell.video, cell.seed, cell.images)
        tracker = TRACKERS[cell.tracker](video)
        estimates, seconds = list[EstimatedPoses](), list[float]()
        for i in range(cell.images):
            start = time.process_time()
            estimates.append(tracker.track(i))
            seconds.append(time.process_time() - start)
        if isinstance(tracker, SmoothedTracker):
            start = time.process_time()
            estimates = tracker.smooth()
            share = (time.process_time() - start) / cell.images
            seconds = [image_s + share for image_s in seconds]
        shapes = [surface.shape for surface in surfaces.sample_surfaces(video.model, video.bodies)]
        parts = {
            name: estimators.errors_of(video, estimates, part, shapes[part], axes)
            for part, (name, axes) in enumerate(VIDEOS[cell.video].parts.items())
        }
        low, high = 1e3 * np.quantile(seconds[1:], [0.5, 0.95])
        return TrackRow(
            **computed(cell, began),
            parts=parts,
            ms_p50=float(low),
            ms_p95=float(high),
        )

    def page(self, results: Results) -> Page:
        """Return requirements, and a table of errors and one of times for each video."""
        rows: Sequence[TrackRow] = results.rows
        judged = list(requirements(rows))
        seeds = sorted({row.seed for row in rows})
        values = {
            'met': sum(line.endswith(' met.') for line in judged),
            'missed': sum(line.endswith('**not met**.') for line in judged),
            'requirements': '\n'.join(judged),
            'seeds': f'{seeds[0]} to {seeds[-1]}',
            'videos': [text for name in VIDEOS for text in _video(name, rows)],
            **constants(videos),
            'noise': f'{1e3 * CAMERA.noise_sd_per_m * 1.6**2:.1f}',
        }
        lines = list(_each_part(rows))
        data = {'groups': [dataclasses.asdict(row) for row in rows]}
        return Page(values, {'table.csv': (_TABLE_HEADER, lines)}, (), _lines(rows), data)


def _video(name: str, rows: Sequence[TrackRow]) -> Iterable[str]:
    """Yield the paragraphs about a video; nothing without rows."""
    by_tracker = grouped([row for row in rows if row.video == name], 'tracker')
    used = {tracker: by_tracker[tracker] for tracker in TRACKERS if tracker in by_tracker}
    if used:
        description = VIDEOS[name].description
        yield f'## {name}'
        yield f'{description[0].upper()}{description[1:]}.'
        yield table(_HEADER, [line for of in used.values() for line in _errors(of)])
        yield table(
            ['tracker', 'time p50', 'time p95'],
            [
                [f'`{tracker}`', *(_mean([getattr(row, q) for row in of]) for q in _TIMES)]
                for tracker, of in used.items()
            ],
        )


_TIMES = ('ms_p50', 'ms_p95')


def _errors(rows: Sequence[TrackRow]) -> Iterable[list[object]]:
    """Yield a line for each part, of the videos of a tracker."""
    for part in rows[0].parts:
        of_part = [row.parts[part] for row in rows]
        centre = [errors.centre_p95_mm for errors in of_part]
        axis = [errors.axis_p95_deg for errors in of_part]
        squares = [errors.squares for errors in of_part if errors.squares is not None]
        inside = [errors.inside for errors in of_part if errors.inside is not None]
        yield [
            f'`{rows[0].tracker}`', part, len(rows),
            _mean(centre), f'{max(centre):.3g}', _mean(axis), f'{max(axis):.3g}',
            _mean([errors.mean_absolute for errors in of_part]),
            f'{100 * np.mean([errors.tracked for errors in of_part]):.1f} %',
            _mean(squares) if squares else '-',
            f'{100 * np.mean(inside):.0f} %' if inside else '-',
        ]  # fmt: skip


def requirements(rows: Sequence[TrackRow]) -> Iterable[str]:
    """Yield whether each requirement is met, one line each."""
    groups = grouped(rows, 'video', 'tracker')
    for video, (tracker, what) in ((v, item) for v in VIDEOS for item in _OWN_TEXT.items()):
        own = groups.get((video, tracker))
        if own is None:
            continue
        where = video + what
        for part in own[0].parts:
            of_part = [row.parts[part] for row in own]
            centre, axis = [e.centre_p95_mm for e in of_part], [e.axis_p95_deg for e in of_part]
            yield _line(f'{where}, {part}: centre p95', centre, LIMIT_MM, 'mm')
            yield _line(f'{where}, {part}: axis p95', axis, LIMIT_DEG, 'degrees')
        yield _line(f'{where}: time', [row.ms_p50 for row in own], VIDEOS[video].limit_ms, 'ms')
        for other in TRACKERS:
            if other not in _OWN_TEXT and (video, other) in groups:
                yield _ratio(where, own, other, groups[video, other])


def _ratio(where: str, own: Sequence[TrackRow], other: str, theirs: Sequence[TrackRow]) -> str:
    """Return how much less the error is than that of another tracker on the same videos."""
    same = {row.seed for row in theirs}
    ratio = _absolute(theirs) / _absolute([row for row in own if row.seed in same])
    required = ''
    if other != 'small-gicp':
        required = f' (required: {BETTER:g}): {_verdict(ratio >= BETTER)}'
    return f'- {where}: mean absolute error {ratio:.1f} times below `{other}`{required}'


def _absolute(rows: Sequence[TrackRow]) -> float:
    return float(np.mean([errors.mean_absolute for row in rows for errors in row.parts.values()]))


def _line(what: str, values: Sequence[float], limit: float, unit: str) -> str:
    met = sum(value <= limit for value in values)
    return (
        f'- {what}: {_mean(values)} {unit}, at most {limit:g} in {met} of {len(values)} videos: '
        f'{_verdict(float(np.mean(values)) <= limit)}'
    )


def _verdict(met: bool) -> str:
    return 'met.' if met else '**not met**.'


def _mean(values: Sequence[float]) -> str:
    """Return a mean with its interval, with three digits."""
    return f'{means.mean(values):.3g}'


def _each_part(rows: Sequence[TrackRow]) -> Iterable[list[object]]:
    for row in rows:
        for part, of_part in row.parts.items():
            yield [
                row.video, row.tracker, row.seed, part, *vars(of_part).values(), row.ms_p50,
                row.ms_p95, row.made_by,
            ]  # fmt: skip


def _lines(rows: Sequence[TrackRow]) -> Iterable[str]:
    """Yield the most important numbers, one line per part."""
    for (video, tracker), own in grouped(rows, 'video', 'tracker').items():
        for part in own[0].parts:
            centre, axis = (
                np.mean([getattr(row.parts[part], name) for row in own])
                for name in ('centre_p95_mm', 'axis_p95_deg')
            )
            yield (
                f'{video:9} {tracker:15} {part:7} centre p95 {centre:7.2f} mm  axis p95 '
                f'{axis:6.2f} degrees  {np.mean([row.ms_p50 for row in own]):6.1f} ms'
            )


STUDY = TrackStudy()
