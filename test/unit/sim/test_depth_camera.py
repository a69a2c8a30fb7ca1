"""The simulated depth camera has the noise that it says."""

import dataclasses

import numpy as np
import pytest

from emppi_ros.sim.depth_camera import add_noise
from emppi_ros.tasks.schema import DepthCameraConfig

PLAIN = DepthCameraConfig(edge_dropout=0.0, dropout=0.0, holes=0.0)


@pytest.mark.parametrize('depth', [0.8, 1.6, 3.2])
def test_noise_grows_with_the_square_of_depth(depth):
    image = add_noise(PLAIN, np.full((240, 320), depth), np.random.default_rng(0))
    expected = PLAIN.noise_sd_per_m * depth**2
    # 76800 pixels: 0.3 %; depth is not quite linear in disparity: about 2 % at 3.2 m
    assert np.std(image) == pytest.approx(expected, rel=0.04)
    assert PLAIN.noise_sd_per_m * 1.6**2 == pytest.approx(0.009, abs=2e-4)


def test_depths_are_those_of_whole_steps_of_disparity():
    image = add_noise(PLAIN, np.full((60, 80), 1.6), np.random.default_rng(0))
    steps = PLAIN.baseline_m * PLAIN.focal_px / image / PLAIN.disparity_step_px
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)  # rounding


def test_pixels_beside_a_jump_are_lost_as_often_as_said():
    depth = np.full((200, 200), 2.0)
    depth[:, 100:] = 1.0
    settings = dataclasses.replace(PLAIN, edge_dropout=0.5)
    lost = np.isnan(add_noise(settings, depth, np.random.default_rng(0)))
    assert not lost[:, :99].any() and not lost[:, 101:].any()
    # 400 pixels: a standard deviation of 2.5 %
    assert lost[:, 99:101].mean() == pytest.approx(0.5, abs=0.1)


def test_holes_and_distant_surfaces_have_no_depth():
    settings = dataclasses.replace(PLAIN, holes=5.0)
    depth = np.full((100, 100), 2.0)
    assert 0.0 < np.isnan(add_noise(settings, depth, np.random.default_rng(1))).mean() < 0.5
    for far in (20.0, np.inf):
        assert np.isnan(add_noise(PLAIN, np.full((5, 5), far), np.random.default_rng(1))).all()
