"""MarkerArrays as a picture, for whoever has no rviz: what it shows is what the messages say."""

from collections.abc import Iterable
from pathlib import Path

import imageio.v3 as imageio
from matplotlib import font_manager
import numpy as np
import numpy.typing as npt
from PIL import ImageDraw, ImageFont
import PIL.Image
from scipy.spatial.transform import Rotation
from visualization_msgs.msg import Marker, MarkerArray

from emppi_ros.core.errors import EmppiError
from emppi_ros.viz.report import raster
from emppi_ros.viz.report.raster import Patches
from emppi_ros.viz.shapes.camera import View

Array = npt.NDArray[np.float64]
Image = npt.NDArray[np.uint8]
_NEAREST_M, _THINNEST_PX = 0.01, 1.2
_CIRCLE = np.linspace(0.0, 2.0 * np.pi, 17)
_CORNERS = {Marker.LINE_LIST: 2, Marker.TRIANGLE_LIST: 3, Marker.SPHERE_LIST: 1}
_CAPITAL = 0.72  # of a font's size, in DejaVu Sans


class MarkerError(EmppiError):
    """A marker that cannot be drawn; the message says which, and what can be."""


def draw(view: View, messages: Iterable[MarkerArray], behind: Image | None = None) -> Image:
    """Return the picture (height, width, 3) of markers, on white or over a picture as large."""
    markers = collect(messages)
    if behind is None:
        behind = np.full((view.height, view.width, 3), 255, np.uint8)
    for marker in markers:
        if marker.type not in (*_CORNERS, Marker.TEXT_VIEW_FACING):
            raise MarkerError(
                f'marker {marker.ns!r} of type {marker.type}; drawn are LINE_LIST, '
                'TRIANGLE_LIST, SPHERE_LIST and TEXT_VIEW_FACING'
            )
    found = [_patches(view, marker) for marker in markers if marker.type in _CORNERS]
    if found:
        parts = (np.concatenate(part) for part in zip(*found, strict=True))
        behind = raster.paint(Patches(*parts), behind)
    return _write(view, [m for m in markers if m.type not in _CORNERS], behind)


def save(path: Path, image: Image) -> None:
    """Write a picture; EmppiError if it cannot be."""
    try:
        imageio.imwrite(path, image)
    except OSError as error:
        raise EmppiError(f'{path}: cannot be written: {error}') from None


def collect(messages: Iterable[MarkerArray]) -> list[Marker]:
    """Return the markers that are there after all messages: later ones replace and delete."""
    found: dict[tuple[str, int], Marker] = {}
    for message in messages:
        for marker in message.markers:
            if marker.action == Marker.DELETEALL:
                found.clear()
            elif marker.action == Marker.DELETE:
                found.pop((marker.ns, marker.id), None)
            else:
                found[marker.ns, marker.id] = marker
    return list(found.values())


def points(marker: Marker) -> Array:
    """Return the corners of a marker (n, 3) in its frame."""
    p, q = marker.pose.position, marker.pose.orientation
    turn = Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix()
    inside = np.array([[c.x, c.y, c.z] for c in marker.points]).reshape(-1, 3)
    return inside @ turn.T + [p.x, p.y, p.z]


def colors(marker: Marker) -> Array:
    """Return the colour of each corner of a marker (n, 4)."""
    rows = marker.colors or [marker.color] * len(marker.points)
    if len(rows) != len(marker.points):
        raise MarkerError(
            f'marker {marker.ns!r} with {len(rows)} colours for {len(marker.points)} points'
        )
    return np.array([[c.r, c.g, c.b, c.a] for c in rows]).reshape(-1, 4)


def _patches(view: View, marker: Marker) -> Patches:
    """Return the triangles of a marker, but for what is behind who looks."""
    count = _CORNERS[marker.type]
    if len(marker.points) % count:
        raise MarkerError(
            f'marker {marker.ns!r} with {len(marker.points)} points, {count} to a part of it'
        )
    pixels, depths = view.project(points(marker).reshape(-1, count, 3))
    shades = colors(marker).reshape(-1, count, 4).mean(axis=1)
    ahead = (depths > _NEAREST_M).all(axis=1)
    pixels, depths, shades = pixels[ahead], depths[ahead], shades[ahead]
    if marker.type == Marker.TRIANGLE_LIST:
        return Patches(pixels, depths, shades)
    wide = np.maximum(view.focal * marker.scale.x / depths, _THINNEST_PX)  # px
    spread = _ribbons if marker.type == Marker.LINE_LIST else _discs
    corners, deep = spread(pixels, depths, wide)
    return Patches(corners, deep, shades.repeat(len(corners) // max(len(pixels), 1), axis=0))


def _ribbons(ends: Array, depths: Array, wide: Array) -> tuple[Array, Array]:
    """Return two triangles for each line (n, 2, 2): corners (2 n, 3, 2) and depths (2 n, 3)."""
    way = ends[:, 1] - ends[:, 0]
    across = np.column_stack([-way[:, 1], way[:, 0]])
    across /= np.maximum(np.linalg.norm(way, axis=1), 1e-9)[:, None]
    sides = 0.5 * wide[..., None] * across[:, None]
    (a, d), (b, c) = np.moveaxis(ends - sides, 1, 0), np.moveaxis(ends + sides, 1, 0)
    corners = np.stack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)], 1).reshape(-1, 3, 2)
    return corners, depths[:, [[0, 0, 1], [0, 1, 1]]].reshape(-1, 3)


def _discs(centres: Array, depths: Array, wide: Array) -> tuple[Array, Array]:
    """Return a fan of triangles for each sphere (n, 1, 2), as `_ribbons` does."""
    ring = centres + 0.5 * wide[..., None] * np.column_stack([np.cos(_CIRCLE), np.sin(_CIRCLE)])
    middle = np.broadcast_to(centres, ring[:, 1:].shape)
    corners = np.stack([middle, ring[:, :-1], ring[:, 1:]], axis=2).reshape(-1, 3, 2)
    return corners, depths.repeat(3 * (len(_CIRCLE) - 1)).reshape(-1, 3)


def _write(view: View, markers: list[Marker], image: Image) -> Image:
    """Write the texts of markers, each as large as it is from here."""
    sheet = PIL.Image.fromarray(image)
    pen = ImageDraw.Draw(sheet, 'RGBA')
    face = font_manager.findfont('DejaVu Sans')
    for marker in markers:
        p, c = marker.pose.position, marker.color
        (x, y), depth = view.project(np.array([p.x, p.y, p.z]))
        if depth < _NEAREST_M:
            continue
        size = view.focal * marker.scale.z / float(depth) / _CAPITAL
        ink = tuple(round(255 * part) for part in (c.r, c.g, c.b, c.a))
        font = ImageFont.truetype(face, max(size, 1.0))
        pen.multiline_text(
            (x, y), marker.text, ink, font, anchor='mm', align='center', spacing=0.2 * size
        )
    return np.asarray(sheet)
