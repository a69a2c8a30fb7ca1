"""
Which pixels of an image show which part: by the hues of parts, or by labels of a segmenter.

Light scales the colour of a matt surface, and adds grey where it shines. Both leave its hue, which
is the direction of its chroma: of the colour without its grey.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emppi_ros.core.arrays import Array, Ints
from emppi_ros.core.errors import ConfigError, PoseError
from emppi_ros.tracking.renderer import NOTHING

_CHROMA = np.array([2.0, -1.0 + 1j * np.sqrt(3.0), -1.0 - 1j * np.sqrt(3.0)]) / np.sqrt(6.0)
_LEAST_SATURATION = 0.15  # of a part: chroma over the mean of red, green and blue
_HALF = 0.5  # of the saturation of a part: pixels that show more of it than of grey
_LEAST_CHROMA = 12.0  # of 255, of a pixel: less is noise in the dark


class PartMark(NamedTuple):
    """How images show a part: its red, green and blue, or its label."""

    color: tuple[float, ...] | None = None
    label: int | None = None


def check_marks(names: Sequence[str], marks: Sequence[PartMark], tolerance_deg: float) -> None:
    """Raise ConfigError if marks of parts do not tell these apart."""
    for i, (name, (color, label)) in enumerate(zip(names, marks, strict=True)):
        if (color is None) == (label is None) or (color is None) != (marks[0].color is None):
            raise ConfigError(
                f'parts: {name}: expected `color` for all parts, in images of colours, or `label` '
                'for all, in images of labels'
            )
        if color is not None and _saturation(color) < _LEAST_SATURATION:
            raise ConfigError(
                f'parts: {name}: color: found {list(color)}, which is nearly grey, and a part '
                'is recognized by its hue: paint it, or give images of labels'
            )
        for other, second in zip(names[:i], marks[:i], strict=True):
            apart = np.inf if label != second.label else 0.0
            if color is not None and second.color is not None:
                apart = np.degrees(abs(np.angle((color @ _CHROMA) / (second.color @ _CHROMA))))
            if apart < tolerance_deg:
                what = 'the same label' if color is None else f'hues {apart:.0f} degrees apart'
                raise ConfigError(
                    f'parts: {name} and {other} have {what}: paint one, give images of labels, '
                    'or lessen hue_tolerance_deg'
                )


def segment(image: npt.NDArray[Any], marks: Sequence[PartMark], tolerance_deg: float) -> Ints:
    """
    Return the part (h, w) of each pixel of colours (h, w, 3) or labels (h, w), else NOTHING.

    PoseError if the image is of another kind than the marks.
    """
    colors = [mark.color for mark in marks if mark.color is not None]
    kind = 'colours' if image.ndim > 2 else 'labels' if image.dtype.kind in 'iub' else 'depths'
    expected = 'colours' if colors else 'labels'
    if kind != expected:
        raise PoseError(f'image of {kind}: expected {expected}, as `parts` in --parts have them')
    if not colors:
        parts = np.full(image.shape, NOTHING)
        for part, mark in enumerate(marks):
            parts[image == mark.label] = part
        return parts
    chroma = image @ _CHROMA
    angles = np.array([np.abs(np.angle(chroma * np.conj(color @ _CHROMA))) for color in colors])
    part = np.argmin(angles, axis=0)
    least = _HALF * np.array([_saturation(color) for color in colors])[part]
    shown = (np.abs(chroma) > _LEAST_CHROMA) & (_saturation(image) > least)
    return np.where(shown & (angles.min(axis=0) < np.radians(tolerance_deg)), part, NOTHING)


def _saturation(color: Any) -> Array:
    """Return the chroma (...) of colours (..., 3) relative to their brightness."""
    return np.asarray(np.abs(color @ _CHROMA) / np.maximum(np.mean(color, axis=-1), 1e-9))
