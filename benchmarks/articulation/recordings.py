"""Published tracks of real drawers and doors (Sturm et al., 2011), and their types of joint."""

from collections.abc import Iterator
import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from emppi_ros.articulation import tracks
from emppi_ros.articulation.tracks import PartTrack, Tracks
from emppi_ros.core.errors import BenchError

FOLDER = 'sturm_tracks'
SOURCE = 'J. Sturm, tum-vision/articulation, BSD'
PART = 'part'
KITCHEN = 'kitchen'  # with rotations, without labels
FOLDERS = {
    'cabinet_one': 'revolute',
    'dishwasher': 'revolute',
    'drawer': 'prismatic',
    'drawer_one': 'prismatic',
    KITCHEN: '',
    'left_door': 'revolute',
}
HINGE_DEG, SLIDE_DEG = 40.0, 12.0  # ranges of rotation above and below which the type is clear
_PERIOD_S = 1.0 / 30.0  # files have no times: only their order matters here


class RealTrack(NamedTuple):
    """One recording, its content, and the type of joint; '' if that is not known."""

    name: str
    content: bytes
    tracks: Tracks
    kind: str
    rotation_deg: float  # range; NaN if rotations were not measured


def read(folder: Path) -> Iterator[RealTrack]:
    """Yield the recordings of a folder with `sturm_tracks`; BenchError if there are none."""
    root = folder / FOLDER
    files = [path for name in FOLDERS for path in sorted((root / name).glob('*.log.gz'))]
    if not files:
        raise BenchError(f'--data: no files FOLDER/*.log.gz in {root} ({SOURCE})')
    for path in files:
        content = gzip.decompress(path.read_bytes())
        try:
            rows = np.array([line.split() for line in content.split(b'\n') if line.strip()], float)
            position = rows[:, :3]
            quaternion = rows[:, [6, 3, 4, 5]] if rows.shape[1] > 3 else None
        except (ValueError, IndexError) as error:
            raise BenchError(f'{path}: expected rows of 3 or 7 numbers: {error}') from None
        part = tracks.from_arrays(PART, position, quaternion)
        turned = float('nan') if quaternion is None else rotation_range(part)
        kind = FOLDERS[path.parent.name] or by_rotation(turned)
        given = Tracks(_PERIOD_S * np.arange(len(rows), dtype=np.float64), (part,))
        yield RealTrack(f'{path.parent.name}/{path.name}', content, given, kind, turned)


def rotation_range(part: PartTrack) -> float:
    """Return the largest rotation between frames [degrees], without the outer 2 % of pairs."""
    rotation = Rotation.from_matrix(part.poses.rotation[part.seen][::3])
    largest = [np.quantile((frame.inv() * rotation).magnitude(), 0.98) for frame in rotation]
    return float(np.degrees(np.quantile(largest, 0.98)))


def by_rotation(degrees: float) -> str:
    """Return the type of joint that a range of rotation shows, or ''."""
    if degrees > HINGE_DEG:
        return 'revolute'
    return 'prismatic' if degrees < SLIDE_DEG else ''
