"""The shapes that rviz shows, as scene nodes in the browser; only changes are sent."""

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import trimesh

from emppi_ros.core.arrays import Array
from emppi_ros.viz.shapes.shapes import Label, Lines, Shape, Shapes, Spheres, Triangles

_WHITE, _SRGB_KNEE = 1.0, 0.04045
_FONT_SCALE = 1.1  # of viser's 12 px
_BALL = trimesh.creation.icosphere(1, radius=0.5)  # of diameter 1
_METHODS: dict[type, str] = {
    Lines: 'add_line_segments',
    Triangles: 'add_mesh_simple',
    Spheres: 'add_batched_meshes_simple',
    Label: 'add_label',
}


class SceneNode(NamedTuple):
    """A node in the browser and the properties that were sent to it."""

    handle: Any
    kind: tuple[Any, ...]  # nodes of the same kind can be updated in place
    sent: dict[str, Any]


class ShapeNodes:
    """Shapes drawn over the scene: each call of `show` replaces those of the last."""

    def __init__(self, server: Any, root: str) -> None:
        """Draw under the node `root`."""
        self._server, self._root = server, root
        self._nodes: dict[str, SceneNode] = {}

    def show(self, shapes: Shapes) -> None:
        """Draw these shapes and remove all others."""
        kept: dict[str, SceneNode] = {}
        counts: dict[str, int] = defaultdict(int)
        with self._server.atomic():
            for part in (part for shape in shapes for part in split(shape)):
                name = f'{self._root}/{part.name}/{counts[part.name]}'
                counts[part.name] += 1
                kept[name] = self._put(name, part)
            for name in self._nodes.keys() - kept.keys():
                self._nodes[name].handle.remove()
        self._nodes = kept

    def _put(self, name: str, shape: Shape) -> SceneNode:
        """Return the node of a shape: the existing one, updated, or a new one."""
        sent, fixed = properties(shape)
        kind = (type(shape), *(getattr(v, 'shape', None) for v in sent.values()))
        before = self._nodes.get(name)
        if before is not None and before.kind == kind:
            for key, value in sent.items():
                if not np.array_equal(value, before.sent[key]):
                    setattr(before.handle, key, value)
            return SceneNode(before.handle, kind, sent)
        add = getattr(self._server.scene, _METHODS[type(shape)])
        return SceneNode(add(name, **sent, **fixed), kind, sent)


def properties(shape: Shape) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the viser properties of a shape: those that may change, and the fixed ones."""
    if isinstance(shape, Lines):
        colors = np.round(255.0 * linear(over_white(shape.colors))).astype(np.uint8)
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
    return {'text': shape.text, 'position': shape.position}, {
        'font_size_mode': 'screen',  # else it is illegible from afar
        'font_screen_scale': _FONT_SCALE,
        'depth_test': False,
        'anchor': 'center-center',
    }


def split(shape: Shape) -> list[Shape]:
    """Return the nodes of a shape: none if it is empty, one mesh a colour for triangles."""
    if isinstance(shape, Label):
        return [shape] if shape.text else []
    if len(shape.colors) == 0:
        return []
    if not isinstance(shape, Triangles):
        return [shape]
    colors, kinds = np.unique(shape.colors, axis=0, return_inverse=True)
    return [
        Triangles(shape.name, shape.corners[kinds.ravel() == i], colors[i : i + 1])
        for i in range(len(colors))
    ]


def over_white(colors: Array) -> Array:
    """Return colours (n, 4) blended over white (n, 3): lines have no opacity in the browser."""
    alpha = colors[:, 3:]
    return alpha * colors[:, :3] + (1.0 - alpha) * _WHITE


def linear(colors: Array) -> Array:
    """Return sRGB colours as linear light (IEC 61966-2-1), which viser expects of lines."""
    return np.where(colors <= _SRGB_KNEE, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
