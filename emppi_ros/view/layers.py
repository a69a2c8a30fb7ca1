"""The shapes that rviz shows, in the browser: a node a layer, sent anew when it changes."""

from collections import defaultdict
from typing import Any

import numpy as np
import trimesh

from emppi_ros.display.shapes import Array, Label, Lines, Shape, Shapes, Spheres, Triangles

_WHITE = 1.0
_BALL = trimesh.creation.icosphere(1, radius=0.5)  # of diameter 1


class Layers:
    """What is drawn over a scene; the nodes of one call are gone with the next."""

    def __init__(self, server: Any, root: str) -> None:
        """Draw below the node `root`."""
        self._server, self._root = server, root
        self._nodes: dict[str, Any] = {}

    def show(self, shapes: Shapes) -> None:
        """Draw these shapes, and no others."""
        kept: dict[str, Any] = {}
        counts: dict[str, int] = defaultdict(int)
        with self._server.atomic():
            for shape in shapes:
                for part in parts(shape):
                    name = f'{self._root}/{shape.name}/{counts[shape.name]}'
                    counts[shape.name] += 1
                    kept[name] = self._add(name, part)
            for name in self._nodes.keys() - kept.keys():
                self._nodes[name].remove()
        self._nodes = kept

    def _add(self, name: str, shape: Shape) -> Any:
        scene = self._server.scene
        if isinstance(shape, Lines):
            return scene.add_line_segments(
                name, shape.ends, faded(shape.colors)[:, None].repeat(2, 1), thickness=shape.width
            )
        if isinstance(shape, Triangles):
            corners = shape.corners.reshape(-1, 3)
            return scene.add_mesh_simple(
                name,
                corners,
                np.arange(len(corners)).reshape(-1, 3),
                color=tuple(shape.colors[0, :3]),
                opacity=float(shape.colors[0, 3]),
                side='double',
                cast_shadow=False,
                receive_shadow=False,
            )
        if isinstance(shape, Spheres):
            count = len(shape.centres)
            return scene.add_batched_meshes_simple(
                name,
                _BALL.vertices,
                _BALL.faces,
                np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
                shape.centres,
                batched_scales=np.full(count, shape.diameter),
                batched_colors=shape.colors[:, :3],
                batched_opacities=shape.colors[:, 3],
                lod='off',
                cast_shadow=False,
            )
        return scene.add_label(
            name,
            shape.text,
            position=shape.place,
            font_size_mode='scene',
            font_scene_height=shape.height,
            anchor='center-center',
        )


def parts(shape: Shape) -> list[Shape]:
    """Return a shape as nodes of a browser can show it: nothing if empty, a colour a mesh."""
    if isinstance(shape, Label):
        return [shape]
    if len(shape.colors) == 0:
        return []
    if not isinstance(shape, Triangles):
        return [shape]
    colors, kinds = np.unique(shape.colors, axis=0, return_inverse=True)
    return [
        Triangles(shape.name, shape.corners[kinds.ravel() == i], colors[i : i + 1])
        for i in range(len(colors))
    ]


def faded(colors: Array) -> Array:
    """Return colours (n, 3) of what lets light through (n, 4), as seen before white."""
    alpha = colors[:, 3:]
    return alpha * colors[:, :3] + (1.0 - alpha) * _WHITE
