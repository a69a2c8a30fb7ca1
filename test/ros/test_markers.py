"""Markers have the geometry of their shapes, and are always the same few."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from builtin_interfaces.msg import Duration, Time
from visualization_msgs.msg import Marker

from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.markers import conversion
from emppi_ros.nodes.topics import belief_cloud, candidates
from emppi_ros.planning.plan_preview import Candidates
from emppi_ros.priors.particles import uniform
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.shapes.shapes import Label, Lines, Spheres, Triangles, rgba
from emppi_ros.viz.shapes.task_shapes import DisplayState, TaskShapes

RED, BLUE = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)


def square(name, side, depth, color, alpha=1.0):
    """Return a square of `side` upright at y = `depth`."""
    a, b, c, d = (
        np.array([x, depth, z]) * [side / 2, 1.0, side / 2]
        for x, z in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    )
    return Triangles(name, np.array([[a, b, c], [a, c, d]]), rgba(color, alpha, 2))


def test_markers_have_the_geometry_and_the_colours_of_their_shapes(rng):
    lines = Lines('line', rng.normal(size=(3, 2, 3)), rgba(RED, 1.0, 3), 0.1)
    triangles = Triangles('sheet', rng.normal(size=(2, 3, 3)), rgba(BLUE, 0.5, 2))
    spheres = Spheres('dot', rng.normal(size=(4, 3)), rgba(RED, 0.25, 4), 0.2)
    label = Label('text', rng.normal(size=3), 'mass', 0.4, BLUE)
    shapes = [lines, triangles, spheres, label]
    line, sheet, dot, text = conversion.write_shapes(shapes, 'base', Time()).markers
    for marker, corners in (
        (line, lines.ends),
        (sheet, triangles.corners),
        (dot, spheres.centres),
    ):
        np.testing.assert_array_equal(points(marker), corners.reshape(-1, 3))
    for marker, color in ((line, (*RED, 1.0)), (sheet, (*BLUE, 0.5)), (dot, (*RED, 0.25))):
        found = [(c.r, c.g, c.b, c.a) for c in marker.colors]
        np.testing.assert_array_equal(found, np.tile(color, (len(marker.points), 1)))
    assert (line.scale.x, dot.scale.x, dot.scale.y, dot.scale.z) == (0.1, 0.2, 0.2, 0.2)
    assert (line.type, sheet.type) == (Marker.LINE_LIST, Marker.TRIANGLE_LIST)
    assert (dot.type, text.type) == (Marker.SPHERE_LIST, Marker.TEXT_VIEW_FACING)
    p, c = text.pose.position, text.color
    np.testing.assert_array_equal([p.x, p.y, p.z], label.position)
    # rviz's capitals are lower than its lines
    assert (text.text, text.scale.z, (c.r, c.g, c.b, c.a)) == ('mass', 1.25 * 0.4, (*BLUE, 1.0))


def points(marker):
    """Return the points (n, 3) of a marker."""
    return np.array([[p.x, p.y, p.z] for p in marker.points])


def test_a_layer_has_one_namespace_and_ids_that_count():
    shapes = [
        Label('text', np.zeros(3), 'a', 0.1),
        square('a', 1.0, 0.0, RED),
        Label('text', np.zeros(3), 'b', 0.1),
    ]
    message = conversion.write_shapes(shapes, 'base', Time(sec=3))
    assert [(m.ns, m.id) for m in message.markers] == [('text', 0), ('a', 0), ('text', 1)]
    assert {m.header.frame_id for m in message.markers} == {'base'}
    assert {m.header.stamp.sec for m in message.markers} == {3}


def test_the_faintest_line_is_last_because_rviz_blends_by_it():
    ends, alpha = np.arange(18.0).reshape(3, 2, 3), np.array([0.4, 0.1, 1.0])
    (marker,) = conversion.write_shapes(
        [Lines('line', ends, rgba(RED, alpha), 0.1)], 'base', Time(), Duration(sec=2)
    ).markers
    np.testing.assert_allclose([c.a for c in marker.colors[::2]], [1.0, 0.4, 0.1], rtol=1e-6)
    np.testing.assert_array_equal(points(marker), ends[[2, 0, 1]].reshape(-1, 3))
    assert marker.lifetime.sec == 2


def test_an_empty_shape_deletes_its_marker():
    full = Lines('line', np.ones((1, 2, 3)), rgba(RED, 1.0, 1), 0.1)
    empty = Lines('line', np.empty((0, 2, 3)), np.empty((0, 4)), 0.1)
    messages = [conversion.write_shapes([shape], 'base', Time()) for shape in (full, empty)]
    assert messages[1].markers[0].action == Marker.DELETE
    before, after = (message.markers[0] for message in messages)
    assert (before.ns, before.id, before.action) == (after.ns, after.id, Marker.ADD)


def test_markers_are_valid_for_rviz():
    shapes = [
        square('a', 1.0, 0.0, RED),
        Lines('line', np.ones((2, 2, 3)), rgba(RED, 0.5, 2), 0.1),
        Spheres('dot', np.zeros((3, 3)), rgba(RED, 0.5, 3), 0.1),
        Label('text', np.zeros(3), 'a', 0.1),
    ]
    corners = {Marker.TRIANGLE_LIST: 3, Marker.LINE_LIST: 2, Marker.SPHERE_LIST: 1}
    for marker in conversion.write_shapes(shapes, 'base', Time()).markers:
        assert marker.pose.orientation.w == 1.0 and marker.color.a > 0.0
        if marker.type == Marker.TEXT_VIEW_FACING:
            assert marker.scale.z > 0.0 and marker.text and not marker.points
            # rviz takes it for the width of a space, and 0 for that of letters of 1 m
            assert 0.3 * marker.scale.z < marker.scale.x < marker.scale.z
        else:
            assert marker.scale.x > 0.0 and len(marker.points) % corners[marker.type] == 0
            assert len(marker.colors) == len(marker.points) > 0


def test_candidates_arrive_as_they_were_sent():
    rng = np.random.default_rng(2)
    sent = Candidates(rng.normal(size=(3, 4, 6, 3)), rng.normal(size=(3, 4)))
    sent.traces[1, 2, 3:], sent.costs[1, 2] = 1e300, np.inf
    task = load_task('panda_push')
    message = candidates.write_candidates(task, 2.5, sent)
    assert message.header.frame_id == task.robot.frame and (message.height, message.width) == (
        12,
        6,
    )
    heard = candidates.read_candidates(message)
    with np.errstate(over='ignore'):
        expected = sent.traces.astype(np.float32)
    np.testing.assert_array_equal(heard.traces[0], expected.reshape(12, 6, 3))
    np.testing.assert_array_equal(heard.costs[0], sent.costs.astype(np.float32).ravel())


def test_an_invalid_candidates_message_is_an_error():
    task = load_task('panda_push')
    message = candidates.write_candidates(
        task, 0.0, Candidates(np.ones((1, 1, 2, 3)), np.ones((1, 1)))
    )
    message.width = 3
    with pytest.raises(EmppiError, match='3 points'):
        candidates.read_candidates(message)
    message.fields = message.fields[:3]
    with pytest.raises(EmppiError, match='expected x, y, z, cost'):
        candidates.read_candidates(message)


def test_points_of_a_belief_lie_in_the_box_of_the_prior():
    task = load_task('panda_push')
    low, high = task.prior.range
    belief = uniform(np.array([low, high, 0.5 * (low + high)]))
    display = DisplayState(0.0, task.start(), {}, belief)
    places = TaskShapes(task).points(display)
    np.testing.assert_allclose(places[2], 0.5 * (places[0] + places[1]), atol=1e-12)
    message = belief_cloud.write_points(task, 0.0, belief, places)
    names = ['x', 'y', 'z', 'weight', 'block_mass', 'block_friction']
    assert [field.name for field in message.fields] == names
    rows = np.frombuffer(message.data, np.float32).reshape(3, 6)
    np.testing.assert_array_equal(rows[:, :3], places.astype(np.float32))
    np.testing.assert_array_equal(rows[:, 3], np.float32(1.0 / 3.0))
