"""Markers are few and always the same ones; a picture of them shows what they say."""

import numpy as np
import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')

from builtin_interfaces.msg import Duration, Time
from visualization_msgs.msg import Marker, MarkerArray

from emppi_ros.belief.particles import uniform
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.markers import conversion
from emppi_ros.nodes.tools import marker_image
from emppi_ros.nodes.tools.marker_image import MarkerError
from emppi_ros.nodes.topics import belief_cloud, candidates
from emppi_ros.session.candidates import Candidates
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.shapes.camera import View
from emppi_ros.viz.shapes.layers import Layers, Seen
from emppi_ros.viz.shapes.shapes import Label, Lines, Spheres, Triangles, paint

# looks along y from 4 m; a metre at y = 0 is 100 px
VIEW = View(
    np.array([0.0, -4.0, 0.0]),
    np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
    2.0 * np.arctan(0.375),
    400,
    300,
)
RED, BLUE = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)


def square(name, side, depth, color, alpha=1.0):
    """Return a square of `side` upright at y = `depth`."""
    a, b, c, d = (
        np.array([x, depth, z]) * [side / 2, 1.0, side / 2]
        for x, z in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    )
    return Triangles(name, np.array([[a, b, c], [a, c, d]]), paint(color, alpha, 2))


def drawn(*shapes, **keys):
    return marker_image.draw(VIEW, [conversion.write_shapes(shapes, 'base', Time())], **keys)


def spread(image, color):
    """Return the first and last column and row in which a picture has a colour, and how often."""
    rows, columns = np.nonzero(np.abs(image.astype(int) - color).max(axis=2) <= 1)
    return (columns.min(), columns.max()), (rows.min(), rows.max()), len(rows)


def test_a_square_is_as_large_as_it_is():
    (left, right), (top, bottom), count = spread(drawn(square('a', 1.0, 0.0, RED)), [255, 0, 0])
    assert (left, right, top, bottom) == (150, 249, 100, 199)
    assert count == 100 * 100  # no gap where its triangles meet
    (left, right), _, _ = spread(drawn(square('a', 1.0, 4.0, RED)), [255, 0, 0])
    assert right - left + 1 == 50  # twice as far


def test_opacity_mixes_with_what_is_behind():
    image = drawn(square('a', 1.0, 0.0, BLUE, 0.25))
    expected = np.round(255 * np.array([0.75, 0.75, 1.0]))
    np.testing.assert_array_equal(image[150, 200], expected)
    np.testing.assert_array_equal(image[10, 10], [255, 255, 255])


@pytest.mark.parametrize('turned', [False, True])
def test_what_is_nearer_is_painted_later_whoever_comes_first(turned):
    both = [square('far', 1.0, 1.0, RED), square('near', 0.4, -1.0, BLUE)]
    image = drawn(*both[:: -1 if turned else 1])
    np.testing.assert_array_equal(image[150, 200], [0, 0, 255])
    np.testing.assert_array_equal(image[150, 200 - 35], [255, 0, 0])


def test_squares_that_cross_hide_one_another_by_halves():
    flat = square('flat', 2.0, 0.0, RED)
    tilted = flat.corners.copy()
    tilted[..., 1] = tilted[..., 0]  # its left half is nearer
    image = drawn(flat, Triangles('tilted', tilted, paint(BLUE, 1.0, 2)))
    np.testing.assert_array_equal(image[150, 150], [0, 0, 255])
    np.testing.assert_array_equal(image[150, 250], [255, 0, 0])


def test_lines_and_spheres_are_as_thick_as_they_say():
    ends = np.array([[[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]])
    image = drawn(Lines('line', ends, paint(RED, 1.0, 1), 0.1))
    assert spread(image, [255, 0, 0]) == ((100, 299), (145, 154), 200 * 10)
    image = drawn(Spheres('dot', np.zeros((1, 3)), paint(RED, 1.0, 1), 1.0))
    (left, right), _, count = spread(image, [255, 0, 0])
    # a circle of 50 px in 16 sides, whose area is 2.6 % less; its rim is mixed
    assert (left, right) == pytest.approx((150, 249), abs=1)
    assert count == pytest.approx(np.pi * 50**2, rel=0.06)


def test_text_is_centred_where_it_is_and_as_high_as_it_says():
    image = drawn(Label('text', np.zeros(3), 'H', 0.4, (0.0, 0.0, 0.0)))
    (left, right), (top, bottom), _ = spread(image, [0, 0, 0])
    assert bottom - top + 1 == pytest.approx(40, abs=2)  # px, of a capital; hinting
    assert 0.5 * (left + right) == pytest.approx(200, abs=2)
    assert 0.5 * (top + bottom) == pytest.approx(150, abs=10)  # room for letters such as g


def test_what_is_behind_who_looks_is_not_drawn():
    nothing = [square('a', 1.0, -9.0, RED), Label('text', np.array([0.0, -9.0, 0.0]), 'H', 1.0)]
    assert (drawn(*nothing) == 255).all()


def test_a_picture_of_the_scene_shines_through():
    behind = np.full((300, 400, 3), [10, 200, 30], np.uint8)
    image = drawn(square('a', 1.0, 0.0, RED), behind=behind)
    np.testing.assert_array_equal(image[5, 5], [10, 200, 30])
    np.testing.assert_array_equal(image[150, 200], [255, 0, 0])


def test_a_marker_is_where_its_pose_puts_it():
    message = conversion.write_shapes([square('a', 0.2, 0.0, RED)], 'base', Time())
    pose = message.markers[0].pose
    pose.position.x, pose.position.z = 1.0, 0.5
    pose.orientation.w, pose.orientation.y = np.cos(np.pi / 8), np.sin(np.pi / 8)  # 45 degrees
    (left, right), (top, bottom), _ = spread(marker_image.draw(VIEW, [message]), [255, 0, 0])
    wide = 20 * np.sqrt(2)  # a square on its corner
    assert (left + right + 1) / 2 == pytest.approx(300, abs=1)
    assert (top + bottom + 1) / 2 == pytest.approx(100, abs=1)
    assert right - left + 1 == pytest.approx(wide, abs=3)  # its corners are mixed


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


def test_the_faintest_line_comes_last_for_rviz_blends_by_it():
    ends, alpha = np.arange(18.0).reshape(3, 2, 3), np.array([0.4, 0.1, 1.0])
    (marker,) = conversion.write_shapes(
        [Lines('line', ends, paint(RED, alpha), 0.1)], 'base', Time(), Duration(sec=2)
    ).markers
    np.testing.assert_allclose([c.a for c in marker.colors[::2]], [1.0, 0.4, 0.1], rtol=1e-6)
    np.testing.assert_array_equal(marker_image.points(marker), ends[[2, 0, 1]].reshape(-1, 3))
    assert marker.lifetime.sec == 2


def test_a_layer_of_nothing_takes_its_marker_away():
    full = Lines('line', np.ones((1, 2, 3)), paint(RED, 1.0, 1), 0.1)
    empty = Lines('line', np.empty((0, 2, 3)), np.empty((0, 4)), 0.1)
    messages = [conversion.write_shapes([shape], 'base', Time()) for shape in (full, empty)]
    assert messages[1].markers[0].action == Marker.DELETE
    assert len(marker_image.collect(messages[:1])) == 1 and marker_image.collect(messages) == []
    assert (marker_image.draw(VIEW, messages) == 255).all()


def test_later_messages_replace_and_delete_all():
    one, two = (
        conversion.write_shapes([square('a', side, 0.0, RED)], 'base', Time())
        for side in (1.0, 0.5)
    )
    (kept,) = marker_image.collect([one, two])
    assert kept == two.markers[0]
    assert (
        marker_image.collect([one, MarkerArray(markers=[Marker(action=Marker.DELETEALL)])]) == []
    )


def test_rviz_has_nothing_to_complain_about():
    shapes = [
        square('a', 1.0, 0.0, RED),
        Lines('line', np.ones((2, 2, 3)), paint(RED, 0.5, 2), 0.1),
        Spheres('dot', np.zeros((3, 3)), paint(RED, 0.5, 3), 0.1),
        Label('text', np.zeros(3), 'a', 0.1),
    ]
    corners = {Marker.TRIANGLE_LIST: 3, Marker.LINE_LIST: 2, Marker.SPHERE_LIST: 1}
    for marker in conversion.write_shapes(shapes, 'base', Time()).markers:
        assert marker.pose.orientation.w == 1.0 and marker.color.a > 0.0
        if marker.type == Marker.TEXT_VIEW_FACING:
            assert marker.scale.z > 0.0 and marker.text and not marker.points
        else:
            assert marker.scale.x > 0.0 and len(marker.points) % corners[marker.type] == 0
            assert len(marker.colors) == len(marker.points) > 0


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ({'type': Marker.ARROW}, 'LINE_LIST'),
        ({'colors': 'less'}, '5 colours for 6 points'),
        ({'points': 'less'}, '5 points'),
    ],
)
def test_a_marker_that_cannot_be_drawn_is_named(change, words):
    message = conversion.write_shapes([square('a', 1.0, 0.0, RED)], 'base', Time())
    for name, value in change.items():
        less = getattr(message.markers[0], name)[:-1] if value == 'less' else value
        setattr(message.markers[0], name, less)
    with pytest.raises(MarkerError, match=words):
        marker_image.draw(VIEW, [message])


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


def test_what_are_no_candidates_is_said():
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
    seen = Seen(0.0, task.start(), {}, belief)
    places = Layers(task).points(seen)
    np.testing.assert_allclose(places[2], 0.5 * (places[0] + places[1]), atol=1e-12)
    message = belief_cloud.write_points(task, 0.0, belief, places)
    names = ['x', 'y', 'z', 'weight', 'block_mass', 'block_friction']
    assert [field.name for field in message.fields] == names
    rows = np.frombuffer(message.data, np.float32).reshape(3, 6)
    np.testing.assert_array_equal(rows[:, :3], places.astype(np.float32))
    np.testing.assert_array_equal(rows[:, 3], np.float32(1.0 / 3.0))
