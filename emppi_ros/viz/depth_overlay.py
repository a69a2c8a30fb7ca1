"""Pictures of depth images with the outlines of tracked parts."""

from collections.abc import Sequence

from matplotlib.colors import to_rgb
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw
from scipy import ndimage

from emppi_ros.core.arrays import Array
from emppi_ros.core.pose import Poses
from emppi_ros.tracking.fitting import TrackedParts
from emppi_ros.tracking.tracker import PartEstimate
from emppi_ros.viz.palette import SERIES

Picture = npt.NDArray[np.uint8]
SCALE = 2  # pixels of the picture for one of the image
_NEAR, _FAR = 230, 40  # grey values
_NO_DEPTH = 0
_COLORS = SERIES[1], SERIES[0], SERIES[2], *SERIES[3:5]  # readable on grey


def draw(
    tracked: TrackedParts,
    names: Sequence[str],
    time: float,
    image: Array,
    estimates: Sequence[PartEstimate],
    nearest: float,
    farthest: float,
) -> Picture:
    """
    Return an image with outlines of parts.

    Depths (h, w) [m], or labels, are grey, from nearest to farthest; colours (h, w, 3) stay.
    """
    with np.errstate(invalid='ignore'):
        share = np.clip((image - nearest) / max(farthest - nearest, 1e-6), 0.0, 1.0)
        grey = np.where(image > 0.0, _NEAR + share * (_FAR - _NEAR), _NO_DEPTH)
    whole = image if image.ndim > 2 else np.nan_to_num(grey)[..., None]
    picture = (np.kron(whole, np.ones((SCALE, SCALE, 1))) * np.ones(3)).astype(np.uint8)
    poses = Poses(
        np.array([estimate.position for estimate in estimates]),
        np.array([estimate.rotation for estimate in estimates]),
    )
    tracked.renderer.place(poses)
    part = np.kron(tracked.renderer.render().part, np.ones((SCALE, SCALE), int))
    colors = [tuple(round(255 * x) for x in to_rgb(color)) for color in _COLORS]
    labels = []
    for i, (name, estimate) in enumerate(zip(names, estimates, strict=True)):
        is_tracked, color = estimate.status == 'tracked', colors[i % len(colors)]
        labels.append((name if is_tracked else f'{name}: {estimate.status}', color))
        if is_tracked:
            mask = part == i
            picture[mask & ~ndimage.binary_erosion(mask, iterations=SCALE)] = color
    canvas = Image.fromarray(picture)
    text = ImageDraw.Draw(canvas)
    text.text((6, 4), f'{time:.2f} s', fill=(255, 255, 255))
    for i, (label, color) in enumerate(labels):
        text.text((6, 18 + 14 * i), label, fill=color)
    return np.asarray(canvas)


def strip(pictures: Sequence[Picture], columns: int = 3) -> Picture:
    """Return pictures of equal size side by side, in rows."""
    rows = [pictures[i : i + columns] for i in range(0, len(pictures), columns)]
    blank = np.full_like(pictures[0], 255)
    return np.vstack([np.hstack([*row, *[blank] * (columns - len(row))]) for row in rows])


def depth_range(image: Array) -> tuple[float, float]:
    """Return the depths [m] between which nearly all of an image lies."""
    depths = image[np.isfinite(image) & (image > 0.0)]
    if not len(depths):
        return 0.0, 1.0
    low, high = np.quantile(depths, [0.01, 0.99])
    return float(low), float(high)
