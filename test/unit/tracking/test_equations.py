"""Derivatives of depths and outlines are those of rendered images."""

import numpy as np
import pytest
from scipy import ndimage

from emppi_ros.tracking import equations, outlines
from emppi_ros.tracking.outlines import View

from .conftest import moved

STEP = 1e-6  # m, rad


def render(stage, poses):
    stage.tracked.renderer.place(poses)
    return stage.tracked.renderer.render()


def test_slopes_of_depth_are_differences_of_rendered_images(tilted):
    stage, poses = tilted
    middle = render(stage, poses)
    shown = middle.part == 0
    rays = stage.camera.rays()[shown]
    points = np.array(stage.camera.position) + rays * middle.depth[shown][:, None]
    slopes = equations.depth_slopes(points, middle.normal[shown], rays, poses.position[0])
    compared = 0
    for i, direction in enumerate(np.eye(6)):
        sides = [
            render(stage, moved(poses, side * direction[:3], side * direction[3:]))
            for side in (STEP, -STEP)
        ]
        # pixels that stay on the same face, and are not at its edges
        smooth = np.all(
            [np.sum(one.normal * middle.normal, axis=-1)[shown] > 0.999 for one in sides], axis=0
        ) & np.any(slopes, axis=1)
        ahead, behind = (one.depth[shown][smooth] for one in sides)
        difference = (ahead - behind) / (2.0 * STEP)
        # second order of the step, and rounding of depths divided by it
        np.testing.assert_allclose(slopes[smooth, i], difference, atol=1e-4)
        compared += smooth.sum()
    assert compared > 6 * 300


def test_outlines_are_found_where_a_part_was_moved_to(stage):
    ball = stage('ball')
    camera, start = ball.camera, ball.initial
    right = camera.matrix[:, 0]
    depth = camera.project(start.position)[0, 2]
    pixels = 2.0
    target = moved(start, pixels * depth / camera.fx * right, np.zeros(3))
    found = render(ball, start)
    view = View(
        ball.image(target),
        np.minimum(found.depth, ball.background),
        found.part,
        found.normal,
        camera.rays(),
    )
    outline = outlines.find_outlines(view, camera, start.position, 6, np.full((120, 160), 0.05))
    step = np.concatenate([target.position[0] - start.position[0], np.zeros(3)])
    predicted = outline.slopes @ step
    assert len(predicted) > 40 and np.ptp(predicted) > 2.0  # all around the ball
    # both outlines are rounded to pixels, so a difference is off by 0.41 px rms and at most 1;
    # the direction of an outline is that at a pixel inside
    error = outline.offset - predicted
    assert np.sqrt(np.mean(error**2)) < 0.6
    assert abs(error.mean()) < 0.15


def test_what_is_beside_a_slit_at_the_depth_of_the_part_moves_no_outline(stage):
    camera, shape = stage('box').camera, (120, 160)
    column = np.arange(shape[1])
    part = np.broadcast_to(np.where(column < 80, 0, -1), shape)
    # a door, a slit of 2 pixels, and the frame beside it
    slit = (column >= 80) & (column < 82)
    depth = np.broadcast_to(np.where(slit, 2.0, np.where(column < 80, 1.0, 1.02)), shape)
    seen = depth + 0.01 * np.random.default_rng(2).normal(size=shape)
    normal = np.broadcast_to(-camera.matrix[:, 2], (*shape, 3))
    view = View(seen, depth, part, normal, camera.rays())
    outline = outlines.find_outlines(view, camera, np.zeros((1, 3)), 6, np.full(shape, 0.05))
    # noise of 1 cm, and 1 m behind: each line of pixels shows exactly where the door ends
    assert len(outline.offset) > 100
    np.testing.assert_array_equal(outline.offset, 0.0)


def test_the_step_solves_what_is_seen_and_leaves_the_rest():
    rng = np.random.default_rng(3)
    slopes = rng.normal(size=(200, 6))
    slopes[:, 4] = 0.0  # nothing shows a rotation about y
    truth = 1e-3 * rng.normal(size=6)
    made = equations.make_equations(slopes, slopes @ truth, np.full(200, 1e6))
    found = equations.solve(made, np.zeros(3), 0.1)
    truth[4] = 0.0
    np.testing.assert_allclose(found.step, truth, atol=1e-12)  # rounding
    sd = np.sqrt(np.diag(found.covariance))
    np.testing.assert_allclose(sd[4], equations.UNSEEN_RAD, rtol=1e-9)
    assert np.all(np.delete(sd, 4) < 1e-3)
    # a projection
    np.testing.assert_allclose(found.seen @ found.seen, found.seen, atol=1e-9)
    assert np.linalg.matrix_rank(found.seen, tol=1e-6) == 5


@pytest.mark.parametrize('smooth', [0.7, 1.5, 2.5])
def test_pixels_count_as_one_as_far_as_a_filter_makes_their_errors_alike(smooth):
    rng, found = np.random.default_rng(3), []
    kernel = np.zeros((41, 41))
    kernel[20, 20] = 1.0
    kernel = ndimage.gaussian_filter(kernel, smooth)
    for _ in range(20):
        errors = ndimage.gaussian_filter(rng.normal(size=(90, 90)), smooth, mode='wrap')
        errors *= 2.0 / np.linalg.norm(kernel)
        found.append(equations.count_alike(errors, np.ones((90, 90), bool), 0))
    # the variance of a sum of correlated errors, relative to independent ones; correlations below
    # 0.1 are left out, and lags are coarse: 20 %
    exact = kernel.sum() ** 2 / np.sum(kernel**2)
    np.testing.assert_allclose(np.median(found), exact, rtol=0.2)


def test_independent_errors_and_those_below_the_noise_count_each():
    rng = np.random.default_rng(4)
    valid = rng.uniform(size=(60, 60)) < 0.7
    assert equations.count_alike(rng.normal(size=(60, 60)), valid, 0) == 1.0
    assert equations.count_alike(np.full((60, 60), 0.01), valid, 0) == 1.0
    assert equations.count_alike(np.ones((60, 60)), np.zeros((60, 60), bool), 6) >= 1.0
