"""What pictures show is what is believed: MuJoCo's own geoms lie where the shapes do."""

import mujoco
import numpy as np
import pytest

from emppi_ros.session.closed_loop import ClosedLoop
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.report import recording
from emppi_ros.viz.shapes.mujoco_overlay import Decor, add
from emppi_ros.viz.shapes.shapes import Label, Lines, Spheres, Triangles, paint

RIGHT = np.array([1.0, 0.0, 0.0])


@pytest.fixture
def scene(slider):
    return mujoco.MjvScene(slider, 40)


def geoms(scene, kind):
    return [geom for geom in scene.geoms[: scene.ngeom] if geom.type == kind.value]


def test_triangles_lines_and_spheres_lie_where_the_shapes_do(scene, rng):
    triangles = Triangles('t', rng.normal(size=(4, 3, 3)), paint((1.0, 0.0, 0.0), 0.5, 4))
    lines = Lines('l', rng.normal(size=(3, 2, 3)), paint((0.0, 1.0, 0.0), 1.0, 3), 0.02)
    spheres = Spheres('s', rng.normal(size=(2, 3)), paint((0.0, 0.0, 1.0), 1.0, 2), 0.3)
    add(scene, [triangles, lines, spheres], RIGHT)
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


def test_each_line_of_a_text_is_a_label_below_the_one_before(scene):
    add(scene, [Label('v', np.zeros(3), 'mass\n0.2 kg', 0.1)], RIGHT)
    first, second = geoms(scene, mujoco.mjtGeom.mjGEOM_LABEL)
    assert (first.label, second.label) == ('mass', '0.2 kg')
    assert first.pos[2] > 0.0 > second.pos[2]


def test_a_scene_takes_no_more_than_it_has_room_for(scene, rng):
    add(scene, [Spheres('s', rng.normal(size=(90, 3)), paint((0, 0, 1), 1.0, 90), 0.1)], RIGHT)
    assert scene.ngeom == scene.maxgeom


def test_a_recording_shows_its_belief_as_it_was_at_each_moment():
    task = load_task('panda_push')
    record = recording.of_trace(ClosedLoop(task, 3).run(0.3))
    decor = Decor(task, record)
    before, after = decor.shapes(0.0), decor.shapes(0.3)
    names = {shape.name for shape in after}
    assert {'bars', 'scales', 'objects', 'target'} <= names
    bars = [next(s for s in found if s.name == 'bars').corners for found in (before, after)]
    assert not np.array_equal(*bars)  # it has learned
    assert np.isclose(bars[0][..., 2].min(), bars[1][..., 2].min())  # and the panel stays there


def test_without_anything_to_learn_nothing_is_drawn():
    task = load_task('panda_push')
    record = recording.of_trace(ClosedLoop(task, 3, 'no-update').run(0.1))
    assert Decor(task, record).shapes(0.1) == []
