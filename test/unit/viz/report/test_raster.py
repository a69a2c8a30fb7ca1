"""Pixels blend what covers them in the order of depth, each sample exactly once a surface."""

import numpy as np
from scipy.spatial import Delaunay

from emppi_ros.viz.report import raster
from emppi_ros.viz.report.raster import Patches

WHITE = np.full((40, 60, 3), 255, np.uint8)


def test_triangles_that_share_edges_cover_every_pixel_once(rng):
    corners = np.array([[0.0, 0.0], [60.0, 0.0], [0.0, 40.0], [60.0, 40.0]])
    points = np.vstack([corners, rng.uniform([0.0, 0.0], [60.0, 40.0], (30, 2))])
    found = points[Delaunay(points).simplices]
    half = np.tile([0.0, 0.0, 0.0, 0.5], (len(found), 1))
    picture = raster.paint(Patches(found, np.ones((len(found), 3)), half), WHITE)
    # twice a half would be a quarter; not at all, white
    assert (np.abs(picture - 127.5) <= 1.0).all()


def test_the_order_of_triangles_does_not_matter(rng):
    corners, depths = rng.uniform(-10.0, 70.0, (25, 3, 2)), rng.uniform(1.0, 3.0, (25, 3))
    colors = rng.uniform(size=(25, 4))
    one = raster.paint(Patches(corners, depths, colors), WHITE)
    order = rng.permutation(25)
    two = raster.paint(Patches(corners[order], depths[order], colors[order]), WHITE)
    np.testing.assert_array_equal(one, two)
    assert one.std() > 10.0


def test_layers_blend_as_the_formula_says():
    square = np.array([[-1.0, -1.0], [200.0, -1.0], [-1.0, 200.0]])
    colors = np.array([[0.9, 0.1, 0.3, 0.3], [0.2, 0.8, 0.4, 0.6], [0.5, 0.0, 1.0, 0.1]])
    depths = np.repeat([[2.0], [1.0], [3.0]], 3, axis=1)
    picture = raster.paint(Patches(np.tile(square, (3, 1, 1)), depths, colors), WHITE)
    expected = np.ones(3)
    for row in colors[[2, 0, 1]]:  # the farthest first
        expected = (1.0 - row[3]) * expected + row[3] * row[:3]
    np.testing.assert_array_equal(picture, np.broadcast_to(np.round(255 * expected), (40, 60, 3)))


def test_depth_between_corners_is_that_of_the_plane_in_space():
    # a wall from 1 m on the left to 3 m on the right is 1.5 m off in the middle of the picture
    corners = np.array([[[0.0, -100.0], [60.0, 20.0], [0.0, 140.0]]])
    wall = Patches(corners, np.array([[1.0, 3.0, 1.0]]), np.array([[1.0, 0.0, 0.0, 1.0]]))
    for depth, seen in ((1.45, [0, 0, 255]), (1.55, [255, 0, 0])):
        both = Patches(
            np.concatenate([wall.corners, corners]),
            np.concatenate([wall.depths, np.full((1, 3), depth)]),
            np.concatenate([wall.colors, [[0.0, 0.0, 1.0, 1.0]]]),
        )
        np.testing.assert_array_equal(raster.paint(both, WHITE)[20, 30], seen)


def test_what_has_no_area_or_is_outside_paints_nothing():
    line = np.array([[0.0, 0.0], [5.0, 5.0], [10.0, 10.0]])
    outside = np.array([[-9.0, 0.0], [-5.0, 5.0], [-9.0, 10.0]])
    colors = np.tile([0.0, 0.0, 0.0, 1.0], (2, 1))
    picture = raster.paint(Patches(np.array([line, outside]), np.ones((2, 3)), colors), WHITE)
    np.testing.assert_array_equal(picture, WHITE)
