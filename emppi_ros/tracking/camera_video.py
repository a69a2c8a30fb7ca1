"""Videos of depths, colours or labels in NPZ files or folders, as docs/tracking.md has them."""

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
from emppi_ros.core.errors import ConfigError, prefix_errors
from emppi_ros.core.pose import Pose
from emppi_ros.tracking import camera
from emppi_ros.tracking.camera import Camera

CAMERA_FILE, MASKS = 'camera.yaml', 'mask'
_KEYS = ('time_s', 'intrinsics', 'camera_position', 'camera_quaternion')
_KINDS = ('depth', 'color', 'label')  # arrays of images
_LENGTH_TOLERANCE = 1e-3  # of quaternions


@dataclass(frozen=True)
class CameraVideo:
    """Images of a camera by their numbers, at times (T,) [s]."""

    camera: Camera
    time: Array
    # depths (h, w) [m], NaN or 0 where is none; or integers: colours (h, w, 3) or labels (h, w)
    image: Callable[[int], Any]
    mask: Callable[[int], Bools] | None = None  # (h, w), where parts may be


@dataclass(frozen=True)
class VideoFolderConfig:
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


def read(path: Path, is_depth: bool = True) -> CameraVideo:
    """Return the video in a file, or in a folder of depths, or else of colours or labels."""
    if path.is_dir():
        return _read_folder(path, is_depth)
    if path.suffix.lower() != '.npz':
        raise ConfigError(f'{path}: expected an .npz file, or a folder with {CAMERA_FILE}')
    try:
        with np.load(path, allow_pickle=False) as archive:
            content = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ConfigError(f'{path}: cannot be read: {error}') from None
    kind = next((name for name in _KINDS if name in content), 'depth')
    for name in (kind, *_KEYS):
        if name not in content:
            names = ', '.join(content) or 'nothing'
            raise ConfigError(f'{path}: no array {name!r}; found {names}')
    images, time, mask = content[kind], content['time_s'], content.get('mask')
    _check(path, kind, images, (len(time), None, None, 3)[: 4 if kind == 'color' else 3])
    codes, expected = ('f', 'a float type, in metres') if kind == 'depth' else ('iu', 'integers')
    if images.dtype.kind not in codes:
        raise ConfigError(f'{path}: {kind}: found {images.dtype}, expected {expected}')
    if mask is not None:
        _check(path, 'mask', mask, images.shape[:3])
    _check(path, 'intrinsics', content['intrinsics'], (4,))
    return CameraVideo(
        _camera(path, images.shape[1:], *(content[name] for name in _KEYS[1:])),
        _check_times(path, time.astype(np.float64)),
        lambda i: images[i].astype(np.float64) if kind == 'depth' else images[i],
        None if mask is None else lambda i: mask[i].astype(bool),
    )


def write(path: Path, video: CameraVideo) -> None:
    """Write a video as an NPZ file, with depths in 32 bits; ConfigError if that fails."""
    camera, count = video.camera, len(video.time)
    first = video.image(0)
    kind = 'color' if first.ndim > 2 else 'label' if first.dtype.kind in 'iu' else 'depth'
    dtype = np.float32 if kind == 'depth' else first.dtype
    arrays: dict[str, Any] = {
        kind: np.array([video.image(i) for i in range(count)], dtype),
        'time_s': video.time,
        'intrinsics': np.array([camera.fx, camera.fy, camera.cx, camera.cy]),
        'camera_position': np.array(camera.position),
        'camera_quaternion': camera.quaternion,
    }
    if video.mask is not None:
        arrays['mask'] = np.array([video.mask(i) for i in range(count)])
    with paths.replacing(path) as temporary:
        np.savez_compressed(temporary, **arrays)


def _read_folder(folder: Path, is_depth: bool) -> CameraVideo:
    where = folder / CAMERA_FILE
    settings = config.build(VideoFolderConfig, config.load(where), str(where))
    files = sorted(folder.glob('*.png'))
    if not files:
        raise ConfigError(f'{folder}: no .png file')
    if settings.rate_hz is None:
        files = sorted(files, key=lambda file: _seconds(file, where))
        time = np.array([_seconds(file, where) for file in files])
    else:
        time = np.arange(len(files)) / settings.rate_hz
    shape = _read_png(files[0], has_colors=not is_depth).shape
    intrinsics = settings.fx, settings.fy, settings.cx, settings.cy
    masks = folder / MASKS
    mask = (lambda i: _read_png(masks / files[i].name, shape[:2]) > 0) if masks.is_dir() else None

    def image(i: int) -> Any:
        values = _read_png(files[i], shape, not is_depth)
        return settings.depth_scale_m * values.astype(np.float64) if is_depth else values

    return CameraVideo(
        _camera(where, shape, intrinsics, settings.position, settings.quaternion),
        _check_times(folder, time),
        image,
        mask,
    )


def _seconds(file: Path, where: Path) -> float:
    try:
        return float(file.stem)
    except ValueError:
        raise ConfigError(
            f'{where}: no key rate_hz, and {file.name} is no time in seconds: give one of them'
        ) from None


def _read_png(
    file: Path, shape: tuple[int, ...] | None = None, has_colors: bool = False
) -> npt.NDArray[Any]:
    """Return values (h, w), or colours (h, w, 3); ConfigError if there is something else."""
    try:
        with Image.open(file) as picture:
            values = np.asarray(picture)
    except (OSError, ValueError) as error:
        raise ConfigError(f'{file}: cannot be read: {error}') from None
    if has_colors and values.ndim == 3 and values.shape[-1] in (3, 4):
        values = values[..., :3]
    elif values.ndim != 2:
        remedy = 'colours need `plane` in --parts'
        raise ConfigError(f'{file}: found {values.shape[-1]} channels, expected one: {remedy}')
    return values if shape is None else _check(file, 'image', values, shape)


def _camera(path: Path, shape: Any, intrinsics: Any, position: Any, quaternion: Any) -> Camera:
    turn = _check(path, 'quaternion', np.asarray(quaternion, float), (4,))
    length = float(np.linalg.norm(turn))
    if abs(length - 1.0) > _LENGTH_TOLERANCE:
        raise ConfigError(f'{path}: quaternion: found one of length {length:.4g}, expected 1')
    pose = Pose(np.asarray(position), turn)
    return prefix_errors(str(path), camera.posed, shape[1], shape[0], intrinsics, pose)


def _check(path: Path, name: str, values: npt.NDArray[Any], shape: Any) -> npt.NDArray[Any]:
    """Return an array; ConfigError if its shape is another one (None: any)."""
    sizes = [own if size is None else size for size, own in zip(shape, values.shape, strict=False)]
    if values.ndim != len(shape) or values.shape != tuple(sizes):
        expected = ', '.join('any' if size is None else str(size) for size in shape)
        raise ConfigError(f'{path}: {name}: found the shape {values.shape}, expected ({expected})')
    return values


def _check_times(path: Path, time: Array) -> Array:
    if not len(time) or not np.isfinite(time).all() or np.any(np.diff(time) <= 0.0):
        raise ConfigError(f'{path}: times of images: expected finite numbers that increase')
    return time
