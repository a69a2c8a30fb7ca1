"""The browser receives the shapes of rviz, and only their changes."""

import numpy as np
import pytest

from emppi_ros.viz.shapes.shapes import Label, Lines, Spheres, Triangles, rgba
from emppi_ros.viz.web import shape_nodes
from emppi_ros.viz.web.shape_nodes import ShapeNodes


def lines(rng, count=4):
    return Lines('plan', rng.normal(size=(count, 2, 3)), rgba((0.2, 0.4, 0.6), 1.0, count), 0.01)


def test_lines_keep_their_ends_and_opaque_colours(rng, server):
    shape = lines(rng)
    ShapeNodes(server, '/known').show([shape])
    (node,) = server.scene.added
    np.testing.assert_array_equal(node.points, shape.ends.astype(np.float32))
    assert node.thickness == shape.width
    light = node.colors[:, 0] / 255.0
    back = np.where(light > 0.0031308, 1.055 * light ** (1 / 2.4) - 0.055, 12.92 * light)
    # a light of a 255th is up to 0.02 of a colour where it is dark
    np.testing.assert_allclose(back, shape.colors[:, :3], atol=0.02)


def test_a_translucent_colour_is_between_its_colour_and_white(rng):
    colors = np.column_stack([rng.uniform(size=(20, 3)), rng.uniform(size=20)])
    found = shape_nodes.over_white(colors)
    assert np.all(found >= colors[:, :3]) and np.all(found <= 1.0)
    np.testing.assert_array_equal(
        shape_nodes.over_white(rgba((0.1, 0.2, 0.3), 0.0, 1)), np.ones((1, 3))
    )


def test_triangles_are_a_mesh_for_each_colour_and_none_is_lost(rng, server):
    colors = np.vstack([rgba((1.0, 0.0, 0.0), 0.5, 3), rgba((0.0, 1.0, 0.0), 1.0, 2)])
    shape = Triangles('bars', rng.normal(size=(5, 3, 3)), colors)
    ShapeNodes(server, '/known').show([shape])
    green, red = sorted(server.scene.added, key=lambda n: n.color)
    np.testing.assert_array_equal(red.vertices, shape.corners[:3].reshape(-1, 3).astype('f4'))
    np.testing.assert_array_equal(green.vertices, shape.corners[3:].reshape(-1, 3).astype('f4'))
    assert (red.opacity, green.opacity) == (0.5, 1.0)


def test_text_is_as_large_from_everywhere(server):
    ShapeNodes(server, '/known').show([Label('values', np.zeros(3), 'mass', 1e-4)])
    (node,) = server.scene.added
    assert node.font_size_mode == 'screen' and not node.depth_test
    assert 12.0 * node.font_screen_scale >= 12.0  # px, of the font


def test_only_changes_are_sent_to_existing_nodes(rng, server):
    over, shape = ShapeNodes(server, '/known'), lines(rng)
    label = Label('values', np.zeros(3), 'mass', 0.02)
    over.show([shape, label])
    over.show([shape, label])
    assert [node.sets for node in server.scene.added] == [[], []]
    over.show([shape._replace(ends=shape.ends + 1.0), label._replace(text='friction')])
    assert [node.sets for node in server.scene.added] == [['points'], ['text']]


def test_nodes_of_missing_shapes_are_removed(rng, server):
    over = ShapeNodes(server, '/known')
    spheres = Spheres('spread', rng.normal(size=(3, 3)), rgba((1.0, 0.0, 0.0), 1.0, 3), 0.02)
    over.show([lines(rng), spheres])
    over.show([lines(rng, 0), spheres])  # an empty layer has no node
    assert [node.removed for node in server.scene.added] == [True, False]
    over.show([])
    assert all(node.removed for node in server.scene.added)


def test_a_new_number_of_spheres_makes_a_new_node(rng, server):
    over = ShapeNodes(server, '/known')
    for count in (3, 5):
        over.show(
            [Spheres('s', rng.normal(size=(count, 3)), rgba((1.0, 0.0, 0.0), 1.0, count), 0.02)]
        )
    assert [len(node.batched_positions) for node in server.scene.added] == [3, 5]


@pytest.mark.parametrize('light', [0.0, 1.0])
def test_black_and_white_stay_what_they_are(light):
    np.testing.assert_allclose(shape_nodes.linear(np.array([light])), light, atol=1e-12)
