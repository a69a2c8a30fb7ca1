"""Shapes drawn by MuJoCo: geoms lie where the shapes do, overlays have their exact colours."""

import mujoco
import numpy as np
import pytest

from emppi_ros.viz.mujoco_overlay import add_shapes, draw_in, draw_over
from emppi_ros.viz.renderer import Renderer
from emppi_ros.viz.shapes.shapes import Label, Lines, Spheres, Triangles, rgba


@pytest.fixture
def scene(slider):
    return mujoco.MjvScene(slider, 40)


def geoms(scene, kind):
    return [geom for geom in scene.geoms[: scene.ngeom] if geom.type == kind.value]


def test_triangles_lines_and_spheres_lie_where_the_shapes_do(scene, rng):
    triangles = Triangles('t', rng.normal(size=(4, 3, 3)), rgba((1.0, 0.0, 0.0), 0.5, 4))
    lines = Lines('l', rng.normal(size=(3, 2, 3)), rgba((0.0, 1.0, 0.0), 1.0, 3), 0.02)
    spheres = Spheres('s', rng.normal(size=(2, 3)), rgba((0.0, 0.0, 1.0), 1.0, 2), 0.3)
    add_shapes(scene, [triangles, lines, spheres])
    exact = 1e-6  # MjvGeom holds float32
    for geom, corners in zip(
        geoms(scene, mujoco.mjtGeom.mjGEOM_TRIANGLE), triangles.corners, strict=True
    ):
        first, second = geom.mat[:, 0] * geom.size[0], geom.mat[:, 1] * geom.size[1]
        found = np.stack([geom.pos, geom.pos + first, geom.pos + second])
        np.testing.assert_allclose(found, corners, atol=5 * exact)
    for geom, ends in zip(geoms(scene, mujoco.mjtGeom.mjGEOM_CAPSULE), lines.ends, strict=True):
        half = geom.mat[:, 2] * geom.size[2]
        np.testing.assert_allclose([geom.pos - half, geom.pos + half], ends, atol=5 * exact)
        assert geom.size[0] == pytest.approx(0.01)
    for geom, centre in zip(
        geoms(scene, mujoco.mjtGeom.mjGEOM_SPHERE), spheres.centres, strict=True
    ):
        np.testing.assert_allclose(geom.pos, centre, atol=exact)
        np.testing.assert_allclose(geom.size, 0.15, atol=exact)


def test_shapes_beyond_the_capacity_of_a_scene_are_dropped(scene, rng):
    many = Spheres('s', rng.normal(size=(90, 3)), rgba((0, 0, 1), 1.0, 90), 0.1)
    add_shapes(scene, [many])
    assert scene.ngeom == scene.maxgeom


RED, BLUE = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)


@pytest.fixture
def view():
    """Return a renderer that looks along y from 4 m, where a metre at y = 0 is 100 px."""
    xml = f"""<mujoco><visual><global fovy="{np.degrees(2.0 * np.arctan(0.375))}"/></visual>
    <worldbody><geom type="sphere" size="0.2" pos="0 -1 0" rgba="0 1 0 1"/></worldbody></mujoco>"""
    camera = mujoco.MjvCamera()
    camera.azimuth, camera.elevation, camera.distance = 90.0, 0.0, 4.0
    found = Renderer(mujoco.MjModel.from_xml_string(xml), 400, 300, camera)
    yield found
    found.close()


def square(name, side, depth, color, alpha=1.0):
    """Return an upright square of a side at y = `depth`."""
    a, b, c, d = (
        np.array([x, depth, z]) * [side / 2, 1.0, side / 2]
        for x, z in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    )
    return Triangles(name, np.array([[a, b, c], [a, c, d]]), rgba(color, alpha, 2))


def spread(image, color):
    """Return the first and last column and row in which a picture has a colour, and how often."""
    rows, columns = np.nonzero(np.abs(image.astype(int) - color).max(axis=2) <= 2)
    return (columns.min(), columns.max()), (rows.min(), rows.max()), len(rows)


@pytest.mark.usefixtures('renderer')
def test_an_overlay_has_exact_sizes_and_colours(view):
    picture = draw_over(view, np.empty(0), [square('a', 1.0, 0.0, RED)])
    (left, right), (top, bottom), count = spread(picture, [255, 0, 0])
    assert (left, right, top, bottom) == pytest.approx((150, 249, 100, 199), abs=1)
    assert count == pytest.approx(100 * 100, rel=0.03)  # its rim may be mixed
    picture = draw_over(view, np.empty(0), [square('a', 1.0, 4.0, RED)])
    (left, right), _, _ = spread(picture, [255, 0, 0])
    assert right - left + 1 == pytest.approx(50, abs=2)  # twice as far
    np.testing.assert_array_equal(picture[10, 10], [255, 255, 255])


@pytest.mark.usefixtures('renderer')
def test_opacity_mixes_with_the_background(view):
    behind = np.full((300, 400, 3), [10, 200, 30], np.uint8)
    picture = draw_over(view, np.empty(0), [square('a', 1.0, 0.0, BLUE, 0.25)], behind)
    np.testing.assert_array_equal(picture[5, 5], [10, 200, 30])
    expected = 0.25 * 255 * np.array(BLUE) + 0.75 * np.array([10, 200, 30])
    np.testing.assert_allclose(picture[150, 200], expected, atol=2)  # rounding of three pictures


@pytest.mark.usefixtures('renderer')
@pytest.mark.parametrize('order', [1, -1])
def test_nearer_shapes_hide_farther_ones_in_any_order(view, order):
    both = [square('far', 1.0, 1.0, RED), square('near', 0.4, -1.0, BLUE)]
    picture = draw_over(view, np.empty(0), both[::order])
    np.testing.assert_allclose(picture[150, 200], [0, 0, 255], atol=1)
    np.testing.assert_allclose(picture[150, 200 - 35], [255, 0, 0], atol=1)


@pytest.mark.usefixtures('renderer')
def test_lines_and_spheres_have_their_widths(view):
    ends = np.array([[[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]])
    picture = draw_over(view, np.empty(0), [Lines('line', ends, rgba(RED, 1.0, 1), 0.1)])
    (left, right), (top, bottom), _ = spread(picture, [255, 0, 0])
    # a capsule: half of its width beyond either end
    assert (left, right) == pytest.approx((95, 304), abs=2)
    assert (top, bottom) == pytest.approx((145, 154), abs=1)
    sphere = Spheres('dot', np.zeros((1, 3)), rgba(RED, 1.0, 1), 1.0)
    (left, right), _, count = spread(draw_over(view, np.empty(0), [sphere]), [255, 0, 0])
    assert (left, right) == pytest.approx((150, 249), abs=2)
    assert count == pytest.approx(np.pi * 50**2, rel=0.06)


@pytest.mark.usefixtures('renderer')
def test_text_is_centred_and_has_its_height(view):
    label = Label('text', np.zeros(3), 'H', 0.4, (0.0, 0.0, 0.0))
    (left, right), (top, bottom), _ = spread(draw_over(view, np.empty(0), [label]), [0, 0, 0])
    assert bottom - top + 1 == pytest.approx(40, abs=2)  # px, of a capital letter; hinting
    assert 0.5 * (left + right) == pytest.approx(200, abs=2)
    assert 0.5 * (top + bottom) == pytest.approx(150, abs=10)  # room for letters such as g


@pytest.mark.usefixtures('renderer')
def test_small_text_remains_legible(view):
    label = Label('text', np.zeros(3), 'H', 0.001, (0.0, 0.0, 0.0))
    rows = np.flatnonzero((draw_over(view, np.empty(0), [label]) < 200).any(axis=(1, 2)))
    assert len(rows) >= 8  # px, of a capital letter: that of a font of 11 px


@pytest.mark.usefixtures('renderer')
def test_shapes_behind_the_camera_are_not_drawn(view):
    behind = [square('a', 1.0, -9.0, RED), Label('text', np.array([0.0, -9.0, 0.0]), 'H', 1.0)]
    assert (draw_over(view, np.empty(0), behind) == 255).all()


@pytest.mark.usefixtures('renderer')
def test_geoms_hide_shapes_but_not_labels(view):
    back, front = square('back', 0.2, 0.0, RED), square('front', 0.2, -3.0, RED)
    for shape, hidden in ((back, True), (front, False)):  # a green sphere is at y = -1
        pixel = draw_in(view, np.empty(0), [shape])[150, 200].astype(int)
        assert (pixel[1] > pixel[0]) == hidden
    label = Label('text', np.zeros(3), 'HHH', 0.4, (0.0, 0.0, 0.0))
    pictures = [draw_in(view, np.empty(0), shapes) for shapes in ([], [label])]
    assert np.any(pictures[0] != pictures[1])
