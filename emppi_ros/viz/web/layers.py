"""The shapes that rviz shows, in the browser: a node a layer, of which only changes are sent."""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import trimesh

from emppi_ros.viz.shapes.shapes import Array, Label, Lines, Shape, Shapes, Spheres, Triangles

_WHITE, _KNEE = 1.0, 0.04045
_BALL = trimesh.creation.icosphere(1, radius=0.5)  # of diameter 1


class Node(NamedTuple):
    """What is in the browser, and what it was told."""

    handle: Any
    kind: tuple[Any, ...]  # nodes of one kind can become one another
    told: dict[str, Any]


class Layers:
    """What is drawn over a scene; the nodes of one call are gone with the next."""

    def __init__(self, server: Any, root: str) -> None:
        """Draw below the node `root`."""
        self._server, self._root = server, root
        self._nodes: dict[str, Node] = {}

    def show(self, shapes: Shapes) -> None:
        """Draw these shapes, and no others."""
        kept: dict[str, Node] = {}
        counts: dict[str, int] = defaultdict(int)
        with self._server.atomic():
            for part in (part for shape in shapes for part in parts(shape)):
                name = f'{self._root}/{part.name}/{counts[part.name]}'
                counts[part.name] += 1
                kept[name] = self._put(name, part)
            for name in self._nodes.keys() - kept.keys():
                self._nodes[name].handle.remove()
        self._nodes = kept

    def _put(self, name: str, shape: Shape) -> Node:
        """Return the node of a shape: the one that was there, told what changed, or a new one."""
        told, fixed = describe(shape)
        kind = (type(shape), *(getattr(v, 'shape', None) for v in told.values()))
        before = self._nodes.get(name)
        if before is not None and before.kind == kind:
            for key, value in told.items():
                if not np.array_equal(value, before.told[key]):
                    setattr(before.handle, key, value)
            return Node(before.handle, kind, told)
        scene = self._server.scene
        add = {
            Lines: scene.add_line_segments,
            Triangles: scene.add_mesh_simple,
            Spheres: scene.add_batched_meshes_simple,
            Label: scene.add_label,
        }[type(shape)]
        return Node(add(name, **told, **fixed), kind, told)


def describe(shape: Shape) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what viser is told of a shape: what may change, and what stays."""
    if isinstance(shape, Lines):
        colors = np.round(255.0 * linear(faded(shape.colors))).astype(np.uint8)
        points = shape.ends.astype(np.float32)
        return {'points': points, 'colors': colors[:, None].repeat(2, axis=1)}, {
            'thickness': shape.width
        }
    if isinstance(shape, Triangles):
        corners = shape.corners.reshape(-1, 3).astype(np.float32)
        return {'vertices': corners}, {
            'faces': np.arange(len(corners)).reshape(-1, 3),
            'color': tuple(shape.colors[0, :3].tolist()),
            'opacity': float(shape.colors[0, 3]),
            'side': 'double',
            'cast_shadow': False,
            'receive_shadow': False,
        }
    if isinstance(shape, Spheres):
        count = len(shape.centres)
        return {
            'batched_positions': shape.centres.astype(np.float32),
            'batched_colors': np.round(255.0 * shape.colors[:, :3]).astype(np.uint8),
            'batched_opacities': shape.colors[:, 3].astype(np.float32),
        }, {
            'vertices': np.asarray(_BALL.vertices),
            'faces': np.asarray(_BALL.faces),
            'batched_wxyzs': np.tile([1.0, 0.0, 0.0, 0.0], (count, 1)),
            'batched_scales': np.full(count, shape.diameter),
            'lod': 'off',
            'cast_shadow': False,
        }
    return {'text': shape.text, 'position': shape.place}, {
        'font_size_mode': 'scene',
        'font_scene_height': shape.height,
        'anchor': 'center-center',
    }


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


def linear(colors: Array) -> Array:
    """Return sRGB colours as light (IEC 61966-2-1): what the browser takes lines' colours for."""
    return np.where(colors <= _KNEE, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
