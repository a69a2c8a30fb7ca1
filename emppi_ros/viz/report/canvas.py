"""Figures that are drawn in memory, as images."""

from typing import Protocol

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import BboxBase
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]


class Canvas(Protocol):
    """The part of Matplotlib's FigureCanvasAgg that is used here; the library has no types."""

    def draw(self) -> None:
        """Draw the whole figure."""

    def copy_from_bbox(self, bbox: BboxBase) -> object:
        """Return a copy of what was drawn in a box."""
        ...

    def restore_region(self, region: object) -> None:
        """Draw a copy again, in its place."""

    def buffer_rgba(self) -> memoryview:
        """Return what was drawn (height, width, 4); drawing changes it."""
        ...


def make_canvas(figure: Figure) -> Canvas:
    """Return a new canvas of a figure."""
    return FigureCanvasAgg(figure)


def pixels(canvas: Canvas) -> Image:
    """Return what was drawn as an image (height, width, 3)."""
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
