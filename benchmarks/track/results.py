"""The report `results.md`: errors, times and coverage."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.track.compute import TrackRow
from benchmarks.track.estimators import JOINTED, OURS, SMOOTHED, TRACKERS
from benchmarks.track.videos import CAMERA, IMAGES, RATE_HZ, VIDEOS
from emppi_ros.calibration import report, row_store, statistics
from emppi_ros.calibration.report import Provenance, table

NAME, TABLE = 'results.md', 'table.csv'
LIMIT_MM, LIMIT_DEG, BETTER = 5.0, 1.5, 10.0
METHOD = (
    f'Simulated depth videos of {IMAGES} images at {RATE_HZ:g} Hz, {CAMERA.width} x '
    f'{CAMERA.height} pixels. Depths have a noise of {1e3 * CAMERA.noise_sd_per_m * 1.6**2:.1f} '
    'mm at 1.6 m, which grows with its square; disparities are rounded, pixels at edges and in '
    'holes are lost. Motion and noise are those of a seed; settings were chosen with seeds below '
    '100, and from 200 on. Each tracker starts at the true poses of the first image, with unknown '
    'velocities. ICP also has the true segmentation of each image; `rendering` has not, but knows '
    'the scene without the parts.'
)
TRACKER_TEXT = {
    OURS: 'this package',
    SMOOTHED: 'this package, with `--smooth`: a smoother over all images of a video, which share '
    'its time',
    JOINTED: 'this package, in a second pass: on the joints that `emppi articulate` infers from '
    'the first. Times are those of the second pass',
    'icp': 'point-to-point ICP, from points of the image to the model (SciPy)',
    'icp-from-model': 'the same from points of the model to the image, as in the paper (SciPy)',
    'open3d-icp': 'point-to-point ICP of Open3D',
    'small-gicp-icp': 'point-to-point ICP of small_gicp',
    'small-gicp': 'generalized ICP of small_gicp',
}
_OWN_TEXT = {OURS: '', SMOOTHED: ', smoothed', JOINTED: ', second pass'}  # of this package
COLUMNS = (
    '- centre, axis: error of the centre [mm], and of the worst axis that images show [degrees] '
    '(not the roll of the pole): 95 % quantile over the images of a video; mean over videos with '
    'its 95 % interval (BCa bootstrap), and the worst video.\n'
    '- absolute: mean absolute error of the six coordinates of poses [m and rad], as in the '
    'paper; the roll of the pole, which no image shows, is in it: `rendering` leaves it, ICP lets '
    'it drift.\n'
    '- tracked: share of images in which the part is neither lost nor hidden; errors in the '
    'others count.\n'
    '- squares: mean squared error in units of its covariance per direction that is seen: 1 if '
    'covariances are right. 90 %: share of images in which the error is in the 90 % region.\n'
    '- time: processor time of an image [ms], median and 95 % quantile, of one core.'
)
_HEADER = (
    'tracker', 'part', 'videos', 'centre p95', 'worst', 'axis p95', 'worst', 'absolute', 'tracked',
    'squares', '90 %',
)  # fmt: skip


def write(
    folder: Path, rows: Sequence[TrackRow], wanted: int, provenance: Provenance
) -> list[Path]:
    """Write the report and a table of all runs; return their paths."""
    videos = [name for name in VIDEOS if any(row.video == name for row in rows)]
    used = [name for name in TRACKERS if any(row.tracker == name for row in rows)]
    seeds = sorted({row.seed for row in rows})
    parts = [
        *report.header('Tracking in depth videos', rows, wanted, provenance),
        METHOD,
        f'Seeds {seeds[0]} to {seeds[-1]}.',
        report.bullets(f'`{name}`: {TRACKER_TEXT[name]}.' for name in used),
        COLUMNS,
        f'The numbers of each run are in `{TABLE}`.',
        '## Requirements',
        '\n'.join(_requirements(rows, videos)),
    ]
    for name in videos:
        own = [row for row in rows if row.video == name]
        parts += [
            f'## {name}',
            f'{VIDEOS[name].description[0].upper()}{VIDEOS[name].description[1:]}.',
            table(_HEADER, _lines(own, used)),
            table(
                ['tracker', 'time p50', 'time p95'],
                [[f'`{one}`', *_times(own, one)] for one in used if _of(own, one)],
            ),
        ]
    path = report.write(folder / NAME, parts)
    return [path, *row_store.write_tables(folder, {TABLE: (_TABLE_HEADER, _table(rows))})]


def _of(rows: Sequence[TrackRow], name: str) -> list[TrackRow]:
    return [row for row in rows if row.tracker == name]


def _lines(rows: Sequence[TrackRow], used: Sequence[str]) -> Iterable[list[object]]:
    for name in used:
        own = _of(rows, name)
        for part in own[0].parts if own else ():
            errors = [row.parts[part] for row in own]
            centre = [one.centre_p95_mm for one in errors]
            axis = [one.axis_p95_deg for one in errors]
            squares = [one.squares for one in errors if one.squares is not None]
            inside = [one.inside for one in errors if one.inside is not None]
            yield [
                f'`{name}`', part, len(own),
                _mean(centre), f'{max(centre):.3g}', _mean(axis), f'{max(axis):.3g}',
                _mean([one.mean_absolute for one in errors]),
                f'{100 * np.mean([one.tracked for one in errors]):.1f} %',
                _mean(squares) if squares else '-',
                f'{100 * np.mean(inside):.0f} %' if inside else '-',
            ]  # fmt: skip


def _times(rows: Sequence[TrackRow], name: str) -> list[str]:
    own = _of(rows, name)
    return [_mean([row.ms_p50 for row in own]), _mean([row.ms_p95 for row in own])]


def _requirements(rows: Sequence[TrackRow], videos: Sequence[str]) -> Iterable[str]:
    """Yield whether each requirement is met, one line each."""
    for name in videos:
        rows_here = [row for row in rows if row.video == name]
        for ours, what in _OWN_TEXT.items():
            own = _of(rows_here, ours)
            if not own:
                continue
            where = name + what
            for part in own[0].parts:
                errors = [row.parts[part] for row in own]
                millimetres = [one.centre_p95_mm for one in errors]
                degrees = [one.axis_p95_deg for one in errors]
                yield _line(f'{where}, {part}: centre p95', millimetres, LIMIT_MM, 'mm')
                yield _line(f'{where}, {part}: axis p95', degrees, LIMIT_DEG, 'degrees')
            yield _line(f'{where}: time', [row.ms_p50 for row in own], VIDEOS[name].limit_ms, 'ms')
            for other in TRACKERS:
                theirs = _of(rows_here, other)
                if other not in _OWN_TEXT and theirs:
                    yield _ratio(where, own, other, theirs)


def _ratio(where: str, own: Sequence[TrackRow], other: str, theirs: Sequence[TrackRow]) -> str:
    """Return how much less the error is than that of another tracker on the same videos."""
    same = {row.seed for row in theirs}
    ratio = _absolute(theirs) / _absolute([row for row in own if row.seed in same])
    required = ''
    if other != 'small-gicp':
        required = f' (required: {BETTER:g}): {_verdict(ratio >= BETTER)}'
    return f'- {where}: mean absolute error {ratio:.1f} times below `{other}`{required}'


def _absolute(rows: Sequence[TrackRow]) -> float:
    return float(np.mean([one.mean_absolute for row in rows for one in row.parts.values()]))


def _line(what: str, values: Sequence[float], limit: float, unit: str) -> str:
    met = sum(value <= limit for value in values)
    centre = float(np.mean(values))
    return (
        f'- {what}: {_mean(values)} {unit}, at most {limit:g} in {met} of {len(values)} videos: '
        f'{_verdict(centre <= limit)}'
    )


def _verdict(met: bool) -> str:
    return 'met.' if met else '**not met**.'


def _mean(values: Sequence[float]) -> str:
    """Return a mean with its interval, with three digits."""
    return f'{statistics.mean(values):.3g}'


_TABLE_HEADER = (
    'video', 'tracker', 'seed', 'part', 'centre_p50_mm', 'centre_p95_mm', 'axis_p50_deg',
    'axis_p95_deg', 'mean_absolute', 'tracked', 'squares', 'inside', 'ms_p50', 'ms_p95', 'made_by',
)  # fmt: skip


def _table(rows: Sequence[TrackRow]) -> Iterable[list[object]]:
    for row in rows:
        for part, errors in row.parts.items():
            yield [
                row.video, row.tracker, row.seed, part, *vars(errors).values(), row.ms_p50,
                row.ms_p95, row.made_by,
            ]  # fmt: skip


def lines(rows: Sequence[TrackRow]) -> Iterable[str]:
    """Yield the most important numbers, one line per part."""
    for name in VIDEOS:
        own = [row for row in rows if row.video == name]
        for tracker in TRACKERS:
            for part in _of(own, tracker)[0].parts if _of(own, tracker) else ():
                errors = [row.parts[part] for row in _of(own, tracker)]
                centre = np.mean([one.centre_p95_mm for one in errors])
                axis = np.mean([one.axis_p95_deg for one in errors])
                ms = np.mean([row.ms_p50 for row in _of(own, tracker)])
                yield (
                    f'{name:9} {tracker:15} {part:7} centre p95 {centre:7.2f} mm  axis p95 '
                    f'{axis:6.2f} degrees  {ms:6.1f} ms'
                )
