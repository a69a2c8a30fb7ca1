"""
Depth videos: an NPZ file, or a folder of 16-bit PNG files with a `camera.yaml`.

An NPZ file has `depth` (T, h, w) [m] (0 or NaN: none), `time_s` (T,), `intrinsics` (fx, fy, cx,
cy) [px], `camera_position` (3,) [m] and `camera_quaternion` (4,) wxyz of the optical frame in the
world, and optionally `mask` (T, h, w), true where parts may be.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
import zipfile

import numpy as np
import numpy.typing as npt
from PIL import Image

from emppi_ros.core import config, paths
from emppi_ros.core.arrays import Array, Bools
from emppi_ros.core.errors import ConfigError
from emppi_ros.core.pose import Pose
from emppi_ros.tracking import camera
from emppi_ros.tracking.camera import Camera

CAMERA_FILE, MASKS = 'camera.yaml', 'mask'
_KEYS = ('depth', 'time_s', 'intrinsics', 'camera_position', 'camera_quaternion')
_LENGTH_TOLERANCE = 1e-3  # of quaternions


@dataclass(frozen=True)
class DepthVideo:
    """
    A depth video.

    Attributes
    ----------
    camera : Camera
        Intrinsics and pose.
    time : (T,) array
        Times of the images [s].
    image : function
        Returns an image (h, w) [m] by its number, with NaN or 0 where there is no depth.
    mask : function or None
        Returns where parts may be (h, w), by the number of the image.

    """

    camera: Camera
    time: Array
    image: Callable[[int], Array]
    mask: Callable[[int], Bools] | None = None


@dataclass(frozen=True)
class DepthFolderConfig:
    """Keys of `camera.yaml`."""

    fx: float = config.positive(doc='focal length along x [px]')
    fy: float = config.positive(doc='focal length along y [px]')
    cx: float = config.key(doc='column of the optical axis [px]')
    cy: float = config.key(doc='row of the optical axis [px]')
    position: tuple[float, ...] = config.key(
        (0.0, 0.0, 0.0), doc='position of the camera in the world [m]'
    )
    quaternion: tuple[float, ...] = config.key(
        (1.0, 0.0, 0.0, 0.0),
        doc='orientation (w, x, y, z) of its optical frame: x right, y down, z ahead',
    )
    depth_scale_m: float = config.positive(0.001, doc='depth of a pixel whose value is 1')
    rate_hz: float | None = config.positive(
        None, doc='images per second; without it, names of files are times in seconds'
    )


def read(path: Path) -> DepthVideo:
    """Return the video in a file or folder; ConfigError names the file and key."""
    if path.is_dir():
        return _read_folder(path)
    if path.suffix.lower() != '.npz':
        raise ConfigError(f'{path}: expected an .npz file, or a folder with {CAMERA_FILE}')
    try:
        with np.load(path, allow_pickle=False) as archive:
            content = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ConfigError(f'{path}: cannot be read: {error}') from None
    for name in _KEYS:
        if name not in content:
            found = ', '.join(content) or 'nothing'
            raise ConfigError(f'{path}: no array {name!r}; found {found}')
    depth, time, mask = content['depth'], content['time_s'], content.get('mask')
    _check(path, 'depth', depth, (len(time), None, None))
    if depth.dtype.kind != 'f':
        raise ConfigError(f'{path}: depth: found {depth.dtype}, expected a float type, in metres')
    if mask is not None:
        _check(path, 'mask', mask, depth.shape)
    _check(path, 'intrinsics', content['intrinsics'], (4,))
    camera = _camera(
        path, depth.shape[1:], content['intrinsics'], content['camera_position'],
        content['camera_quaternion'],
    )  # fmt: skip
    return DepthVideo(
        camera,
        _check_times(path, time.astype(np.float64)),
        lambda i: depth[i].astype(np.float64),
        None if mask is None else lambda i: mask[i].astype(bool),
    )


def write(path: Path, video: DepthVideo) -> None:
    """Write a video as an NPZ file, with depths in 32 bits; ConfigError if that fails."""
    camera, count = video.camera, len(video.time)
    arrays: dict[str, Any] = {
        'depth': np.array([video.image(i) for i in range(count)], np.float32),
        'time_s': video.time,
        'intrinsics': np.array([camera.fx, camera.fy, camera.cx, camera.cy]),
        'camera_position': np.array(camera.position),
        'camera_quaternion': camera.quaternion,
    }
    if video.mask is not None:
        arrays['mask'] = np.array([video.mask(i) for i in range(count)])
    with paths.replacing(path) as temporary:
        np.savez_compressed(temporary, **arrays)


def _read_folder(folder: Path) -> DepthVideo:
    where = folder / CAMERA_FILE
    settings = config.build(DepthFolderConfig, config.load(where), str(where))
    files = sorted(folder.glob('*.png'))
    if not files:
        raise ConfigError(f'{folder}: no .png file')
    if settings.rate_hz is None:
        files = sorted(files, key=lambda file: _seconds(file, where))
        time = np.array([_seconds(file, where) for file in files])
    else:
        time = np.arange(len(files)) / settings.rate_hz
    shape = _read_png(files[0]).shape
    camera = _camera(
        where, shape, (settings.fx, settings.fy, settings.cx, settings.cy), settings.position,
        settings.quaternion,
    )  # fmt: skip

    def image(i: int) -> Array:
        values = _read_png(files[i])
        _check(files[i], 'image', values, shape)
        return settings.depth_scale_m * values.astype(np.float64)

    def mask(i: int) -> Bools:
        values = _read_png(folder / MASKS / files[i].name)
        _check(folder / MASKS / files[i].name, 'mask', values, shape)
        return values > 0

    masked = (folder / MASKS).is_dir()
    return DepthVideo(camera, _check_times(folder, time), image, mask if masked else None)


def _seconds(file: Path, where: Path) -> float:
    try:
        return float(file.stem)
    except ValueError:
        raise ConfigError(
            f'{where}: no key rate_hz, and {file.name} is no time in seconds: give one of them'
        ) from None


def _read_png(file: Path) -> npt.NDArray[Any]:
    try:
        with Image.open(file) as picture:
            values = np.asarray(picture)
    except (OSError, ValueError) as error:
        raise ConfigError(f'{file}: cannot be read: {error}') from None
    if values.ndim != 2:
        raise ConfigError(f'{file}: found {values.shape[-1]} channels, expected one')
    return values


def _camera(path: Path, shape: Any, intrinsics: Any, position: Any, quaternion: Any) -> Camera:
    turn = _check(path, 'quaternion', np.asarray(quaternion, float), (4,))
    length = float(np.linalg.norm(turn))
    if abs(length - 1.0) > _LENGTH_TOLERANCE:
        raise ConfigError(f'{path}: quaternion: found one of length {length:.4g}, expected 1')
    try:
        return camera.posed(shape[1], shape[0], intrinsics, Pose(np.asarray(position), turn))
    except ConfigError as error:
        raise ConfigError(f'{path}: {error}') from None


def _check(path: Path, name: str, values: npt.NDArray[Any], shape: Any) -> npt.NDArray[Any]:
    """Return an array; ConfigError if its shape is another one (None: any)."""
    same = values.ndim == len(shape) and all(
        size in (None, own) for size, own in zip(shape, values.shape, strict=True)
    )
    if not same:
        expected = ', '.join('any' if size is None else str(size) for size in shape)
        raise ConfigError(f'{path}: {name}: found the shape {values.shape}, expected ({expected})')
    return values


def _check_times(path: Path, time: Array) -> Array:
    if not len(time) or not np.isfinite(time).all() or np.any(np.diff(time) <= 0.0):
        raise ConfigError(f'{path}: times of images: expected finite numbers that increase')
    return time
