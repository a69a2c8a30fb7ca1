"""Draw shapes with MuJoCo: as geoms of a scene, or as an overlay over a finished picture."""

from matplotlib import font_manager
import mujoco
import numpy as np
from PIL import ImageDraw, ImageFont
import PIL.Image

from emppi_ros.core.arrays import Array
from emppi_ros.viz.renderer import CameraPose, Image, Renderer, camera_pose
from emppi_ros.viz.shapes.shapes import Label, Lines, Shapes, Spheres, Triangles

GEOM = mujoco.mjtGeom
_EMISSION = 0.3  # in a lit scene
_UNLIT = 0.7  # without lights: MuJoCo's ambient light adds the other 0.3 of a colour
_OPAQUE = 0.8  # opacity from which a shape hides what is behind: else MuJoCo's order would matter
_NEAREST_M = 0.01
_SMALLEST = 13.0  # px: a font that is smaller cannot be read
_CAPITAL = 0.72  # height of a capital letter over the font size, in DejaVu Sans


def add_shapes(scene: mujoco.MjvScene, shapes: Shapes) -> None:
    """Add shapes except labels to a scene before it is rendered, as many as it has room for."""
    for shape in (shape for shape in shapes if not isinstance(shape, Label)):
        places = shape[1]  # ends, corners or centres
        for place, color in zip(places, shape.colors, strict=True):
            if scene.ngeom >= scene.maxgeom:
                return
            rgba = np.array(color, np.float32)
            rgba[3] = 1.0 if rgba[3] > _OPAQUE else rgba[3]
            kind, size, position, axes = GEOM.mjGEOM_CAPSULE, np.ones(3), place[0], np.eye(3)
            if isinstance(shape, Triangles):
                kind, (a, b, c) = GEOM.mjGEOM_TRIANGLE, place
                # stretches MuJoCo's unit triangle to these edges
                axes = np.column_stack([b - a, c - a, np.cross(b - a, c - a)])
            elif isinstance(shape, Spheres):
                kind, size, position = GEOM.mjGEOM_SPHERE, np.full(3, 0.5 * shape.diameter), place
            geom = scene.geoms[scene.ngeom]
            mujoco.mjv_initGeom(geom, kind.value, size, position, axes.ravel(), rgba)
            if isinstance(shape, Lines):
                mujoco.mjv_connector(geom, kind.value, 0.5 * shape.width, *place)
            geom.emission = _EMISSION
            geom.category = mujoco.mjtCatBit.mjCAT_DECOR.value
            scene.ngeom += 1


def draw_in(renderer: Renderer, qpos: Array, shapes: Shapes) -> Image:
    """Return a picture of the scene with shapes in it, lit and hidden like its geoms."""
    picture = renderer.render(qpos, lambda scene: add_shapes(scene, shapes))
    return _write_labels(picture, shapes, camera_pose(renderer.model, qpos, renderer.camera))


def draw_over(
    renderer: Renderer, qpos: Array, shapes: Shapes, background: Image | None = None
) -> Image:
    """Return a picture with shapes over a background (white), unlit and never hidden."""
    # what shines through them is the difference between pictures before white and before black
    black, white = (_render_alone(renderer, qpos, shapes, shade) for shade in (0.0, 1.0))
    behind = np.full_like(white, 255) if background is None else background
    through = (white.astype(float) - black) / 255.0
    picture = np.round(black + through * behind).clip(0, 255).astype(np.uint8)
    return _write_labels(picture, shapes, camera_pose(renderer.model, qpos, renderer.camera))


def _render_alone(renderer: Renderer, qpos: Array, shapes: Shapes, shade: float) -> Image:
    """Return a picture of shapes in their own colours before a wall of one grey."""
    pose = camera_pose(renderer.model, qpos, renderer.camera)
    far = 0.9 * renderer.model.vis.map.zfar * renderer.model.stat.extent

    def replace(scene: mujoco.MjvScene) -> None:
        scene.ngeom, scene.nlight = 1, 0
        scene.flags[:] = 0  # no shadows, reflections, haze or skybox
        scene.flags[mujoco.mjtRndFlag.mjRND_CULL_FACE.value] = 1
        wall = np.array([shade] * 3 + [1.0], np.float32)
        size, position = np.array([far, far, 0.001 * far]), pose.position - far * pose.axes[2]
        mujoco.mjv_initGeom(
            scene.geoms[0], GEOM.mjGEOM_BOX.value, size, position, pose.axes.T.ravel(), wall
        )
        add_shapes(scene, shapes)
        for geom in scene.geoms[: scene.ngeom]:
            geom.emission = _UNLIT
            if geom.type == GEOM.mjGEOM_TRIANGLE.value:  # MuJoCo draws both of its faces
                geom.rgba[3] = 1.0 - np.sqrt(1.0 - geom.rgba[3])

    return renderer.render(qpos, replace)


def _write_labels(picture: Image, shapes: Shapes, pose: CameraPose) -> Image:
    """Write the labels among shapes into a picture, as large as they appear from the camera."""
    height, width = picture.shape[:2]
    sheet = PIL.Image.fromarray(picture)
    pen = ImageDraw.Draw(sheet, 'RGBA')
    face = font_manager.findfont('DejaVu Sans')
    for label in (shape for shape in shapes if isinstance(shape, Label)):
        (x, y), depth = pose.project(label.position, width, height)
        if depth < _NEAREST_M:
            continue
        size = 0.5 * height / np.tan(0.5 * pose.fovy) * label.height / float(depth) / _CAPITAL
        ink = tuple(round(255 * part) for part in label.color)
        font = ImageFont.truetype(face, max(size, _SMALLEST))
        pen.multiline_text(
            (x, y), label.text, ink, font, anchor='mm', align='center', spacing=0.2 * size
        )
    return np.asarray(sheet)
