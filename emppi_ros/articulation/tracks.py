"""Poses of the parts of a mechanism over time, with covariances, from tables and bags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation, Slerp

from emppi_ros.articulation import rigid_motion
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.config import LENGTH_TOLERANCE
from emppi_ros.core.errors import IdentificationError
from emppi_ros.core.pose import Poses, to_rotation
from emppi_ros.recordings import bags, tables
from emppi_ros.recordings.signals import covariance_matrices
from emppi_ros.tracking.tracker import TRACKED, PartEstimate

WORLD = 'world'
UNKNOWN_SD = 100.0  # rad or m, for what was not measured
MIN_FRAMES = 10
_POSE = ('x', 'y', 'z', 'qw', 'qx', 'qy', 'qz')
ERRORS = ('x', 'y', 'z', 'rx', 'ry', 'rz')  # order of covariances
_BRIDGED = 2.5  # usual periods: gaps over which poses are interpolated to a common clock


@dataclass(frozen=True)
class Noise:
    """Standard deviations, per axis, of poses without a covariance."""

    position_sd_m: float = 0.002
    rotation_sd_rad: float = float(np.radians(1.0))

    def covariance(self, rotations: bool = True) -> Array:
        """Return the covariance (6, 6); without `rotations`, these are unknown."""
        turned = self.rotation_sd_rad if rotations else UNKNOWN_SD
        return np.diag([self.position_sd_m**2] * 3 + [turned**2] * 3)


@dataclass(frozen=True)
class PartTrack:
    """Poses of one part in the world frame."""

    name: str
    poses: Poses  # (T); identity where the part was not seen
    covariance: Array  # (T, 6, 6), of the position [m] and of rotations about the world's axes
    seen: Bools  # (T,), in which frames the part was seen

    @property
    def oriented(self) -> bool:
        """Whether any rotation about any axis was measured."""
        rotation = self.covariance[self.seen][:, 3:, 3:]
        return bool(np.any(np.linalg.eigvalsh(rotation)[:, 0] < 1.0))


@dataclass(frozen=True)
class Tracks:
    """Parts on one clock, time (T,) in s, and notes about how they were read."""

    time: Array
    parts: tuple[PartTrack, ...]
    notes: tuple[str, ...] = ()


def world(frames: int) -> PartTrack:
    """Return the world as a part that never moves, and whose pose is known."""
    rotation = np.broadcast_to(np.eye(3), (frames, 3, 3))
    poses = Poses(np.zeros((frames, 3)), rotation)
    return PartTrack(WORLD, poses, np.zeros((frames, 6, 6)), np.ones(frames, bool))


def from_arrays(
    name: str,
    position: Array,
    quaternion: Array | None = None,
    covariance: Array | None = None,
    noise: Noise = Noise(),
) -> PartTrack:
    """
    Return a track from positions (T, 3) and quaternions wxyz (T, 4), None if not measured.

    A frame with a NaN, or with a quaternion of zeros, is one in which the part was not seen.
    IdentificationError for other quaternions whose length is not 1.
    """
    frames = len(position)
    seen = np.isfinite(position.sum(axis=1))
    rotation = np.broadcast_to(np.eye(3), (frames, 3, 3)).copy()
    if quaternion is not None:
        length = np.linalg.norm(quaternion, axis=1)
        seen &= np.isfinite(length) & (length > 0.0)
        wrong = np.flatnonzero(seen & (np.abs(length - 1.0) > LENGTH_TOLERANCE))
        if len(wrong):
            raise IdentificationError(
                f'pose/{name}: quaternion of length {length[wrong[0]]:.4g} in frame {wrong[0]}, '
                'expected 1 (or four zeros where the part was not seen)'
            )
        rotation[seen] = to_rotation(quaternion[seen]).as_matrix()
    if covariance is None:
        covariance = np.tile(noise.covariance(quaternion is not None), (frames, 1, 1))
    place = np.where(seen[:, None], position, 0.0)
    return PartTrack(name, Poses(place, rotation), covariance, seen)


def from_estimates(
    names: Sequence[str], time: Array, estimates: Sequence[Sequence[PartEstimate]]
) -> Tracks:
    """Return the tracks of all parts from estimates of B parts in T images (T, B)."""
    parts = []
    for name, images in zip(names, zip(*estimates, strict=True), strict=True):
        position, rotation, covariance, status, _ = map(np.array, zip(*images, strict=True))
        parts.append(PartTrack(name, Poses(position, rotation), covariance, status == TRACKED))
    return Tracks(time, tuple(parts))


def read(files: Sequence[Path], noise: Noise = Noise()) -> Tracks:
    """Return the tracks of a table, or of bags on one clock; IdentificationError says where."""
    if any(bags.is_bag(path) for path in files):
        return _from_bags(files, noise)
    if len(files) > 1:
        raise IdentificationError(
            f'{files[1]}: a second table: give one table with all parts, or several bags'
        )
    return _from_table(files[0], noise)


def check(tracks: Tracks, where: str) -> None:
    """Raise IdentificationError unless names are unique, and each part was seen often enough."""
    if not tracks.parts:
        raise IdentificationError(f'{where}: no tracked part')
    names = [WORLD, *(part.name for part in tracks.parts)]
    for part in tracks.parts:
        place = f'{where}: pose/{part.name}'
        if names.count(part.name) > 1:
            raise IdentificationError(f'{place}: this name is taken: rename the part')
        if (count := int(np.sum(part.seen))) < MIN_FRAMES:
            raise IdentificationError(
                f'{place}: seen in {count} of {len(part.seen)} frames, expected at least '
                f'{MIN_FRAMES}'
            )


def _from_table(path: Path, noise: Noise) -> Tracks:
    _, time, table, changes = tables.load(path, any_rate=True)
    if np.any(np.diff(time) <= 0.0):
        row = int(np.argmax(np.diff(time) <= 0.0))
        raise IdentificationError(
            f'{path}: time_s: row {row + 1} is not after the one before, at {time[row]:.6g} s: '
            'sort the rows, and remove repeated ones'
        )
    columns: dict[str, dict[str, dict[str, Array]]] = {'pose': {}, 'covariance': {}}
    ignored = []
    for column, values in table.items():
        if column.startswith(('pose/', 'covariance/')):
            kind, name, part, _ = tables.parse_column(path, column)
            columns[kind].setdefault(name, {})[part] = values
        else:
            ignored.append(column)
    poses, covariances = columns.values()
    if not poses:
        raise IdentificationError(
            f"{path}: no poses: expected columns such as 'pose/door.x [m]', 'pose/door.qw [1]'; "
            f'found {", ".join(table)}'
        )
    if lonely := sorted(set(covariances) - set(poses)):
        raise IdentificationError(f'{path}: covariance/{lonely[0]}: no pose/{lonely[0]}')
    parts = tuple(
        _part(path, name, pose, covariances.get(name), noise) for name, pose in poses.items()
    )
    notes = [*changes, f'ignored columns: {", ".join(ignored)}'] if ignored else changes
    return Tracks(time, parts, tuple(notes))


def _part(
    path: Path,
    name: str,
    columns: Mapping[str, Array],
    covariances: Mapping[str, Array] | None,
    noise: Noise,
) -> PartTrack:
    """Return the track of a part from its columns."""
    missing = [word for word in _POSE if word not in columns]
    if missing and missing != list(_POSE[3:]):
        raise IdentificationError(
            f'{path}: pose/{name}: no column for {", ".join(missing)}: expected '
            f'{", ".join(_POSE)}, or x, y, z alone'
        )
    position = np.column_stack([columns[word] for word in _POSE[:3]])
    quaternion = None if missing else np.column_stack([columns[word] for word in _POSE[3:]])
    try:
        part = from_arrays(name, position, quaternion, noise=noise)
    except IdentificationError as error:
        raise IdentificationError(f'{path}: {error}') from None
    if covariances is None:
        return part
    where = f'{path}: covariance/{name}'
    covariance = _covariance(where, covariances, len(position), bool(missing))
    seen = part.seen & np.isfinite(covariance).all(axis=(1, 2))
    valid = np.where(seen[:, None, None], covariance, np.eye(6))
    _require_definite(where, valid)
    return PartTrack(name, part.poses, valid, seen)


def _require_definite(where: str, covariance: Array) -> None:
    """Raise IdentificationError unless covariances (n, 6, 6) are positive definite."""
    lowest = np.linalg.eigvalsh(covariance)[:, 0]
    if np.any(lowest <= 0.0):
        row = int(np.argmin(lowest))
        which = f'row {row + 1}' if len(lowest) > 1 else 'the covariance'
        raise IdentificationError(
            f'{where}: {which} is not positive definite: smallest eigenvalue {lowest[row]:.3g}'
        )


def _covariance(
    where: str, columns: Mapping[str, Array], frames: int, positions_only: bool
) -> Array:
    """Return covariances (T, 6, 6); entries off the diagonal that have no column are 0."""
    result = np.zeros((frames, 6, 6))
    needed = ERRORS[:3] if positions_only else ERRORS
    if missing := [word for word in needed if f'{word}.{word}' not in columns]:
        raise IdentificationError(
            f'{where}: no column for the variance of {", ".join(missing)}, such as '
            f'.{missing[0]}.{missing[0]}'
        )
    if positions_only:
        result[:, 3:, 3:] = UNKNOWN_SD**2 * np.eye(3)
    for pair, values in columns.items():
        row, column = map(ERRORS.index, pair.split('.'))
        result[:, row, column] = result[:, column, row] = values
    return result


def _from_bags(files: Sequence[Path], noise: Noise) -> Tracks:
    """Return the tracks of bags; poses are interpolated to the clock of the fastest part."""
    signals, _, notes = bags.read(files, 'pose')
    poses = [one for one in signals if one.kind == 'pose']
    known = {one.of: one for one in signals if one.kind == 'covariance'}
    clock = max(poses, key=lambda one: len(one.time)).time
    clock = clock[np.concatenate([[True], np.diff(clock) > 0.0])]
    parts = []
    for one in poses:
        time, unique = np.unique(one.time, return_index=True)
        part = _at_times(one.of, time, one.values[unique], clock, noise)
        if one.of in known:
            signal = known[one.of]
            own = from_triangles(signal.where, signal.values)
            part = replace(part, covariance=covariances_at_times(signal.time, own, clock))
        parts.append(part)
    return Tracks(clock, tuple(parts), tuple(notes))


def from_triangles(where: str, triangles: Array) -> Array:
    """
    Return the covariances (n, 6, 6) of upper triangles (n, 21).

    IdentificationError unless they are finite and positive definite; `where` begins its message.
    """
    if not np.isfinite(triangles).all():
        raise IdentificationError(f'{where}: covariance with values that are not finite')
    covariance = covariance_matrices(triangles)
    _require_definite(where, covariance)
    return covariance


def covariances_at_times(time: Array, covariance: Array, clock: Array) -> Array:
    """Return those of covariances (n, 6, 6) at times (n,) that are nearest to a clock (T,)."""
    middles = 0.5 * (time[1:] + time[:-1])
    return covariance[np.searchsorted(middles, clock)]


def _at_times(name: str, time: Array, values: Array, clock: Array, noise: Noise) -> PartTrack:
    """Return poses xyz wxyz (n, 7) at the times of a clock; not seen where there is a gap."""
    own = from_arrays(name, values[:, :3], values[:, 3:], noise=noise)
    time, poses = time[own.seen], own.poses.at(own.seen)
    frames = len(clock)
    if len(time) < 2:
        nothing = np.full((frames, 3), np.nan)
        return from_arrays(name, nothing, noise=noise)
    after = np.clip(np.searchsorted(time, clock), 1, len(time) - 1)
    apart = time[after] - time[after - 1]
    inside = (clock >= time[0]) & (clock <= time[-1])
    exact = np.isin(clock, time)
    seen = inside & ((apart <= _BRIDGED * np.median(np.diff(time))) | exact)
    held = np.clip(clock, time[0], time[-1])
    position = np.column_stack([np.interp(held, time, axis) for axis in poses.position.T])
    rotation = Slerp(time, Rotation.from_matrix(poses.rotation))(held).as_matrix()
    covariance = np.tile(noise.covariance(), (frames, 1, 1))
    return PartTrack(name, Poses(position, rotation), covariance, seen)


def pair(parent: PartTrack, child: PartTrack) -> tuple[Poses, Array, Bools]:
    """Return relative poses, their covariances and the frames (T) in which both were seen."""
    both = parent.seen & child.seen
    ours, theirs = parent.poses.at(both), child.poses.at(both)
    covariance = rigid_motion.relative_covariance(
        ours, parent.covariance[both], theirs, child.covariance[both]
    )
    return ours.inverse() @ theirs, covariance, both
