"""Smoothed poses are more accurate, as their covariances say, and impacts stay sharp."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.tracking import smoothing
from emppi_ros.tracking.equations import Shape
from emppi_ros.tracking.smoothing import PoseSeries
from emppi_ros.tracking.tracker import PartEstimate

SHAPE = Shape(np.array([0.02, 0.0, 0.01]), 0.05)
COVARIANCE = np.diag([3e-4, 4e-4, 5e-4, 6e-3, 7e-3, 8e-3]) ** 2
TIME = np.arange(48) / 30.0


def series(position, turn, seed, covariance=COVARIANCE):
    """Return true positions and rotations, and poses with noise."""
    rng = np.random.default_rng(seed)
    rotation = Rotation.from_rotvec(turn).as_matrix()
    error = rng.multivariate_normal(np.zeros(6), COVARIANCE, len(position))
    noisy = Rotation.from_rotvec(error[:, 3:]).as_matrix() @ rotation
    tiled = np.tile(covariance, (len(position), 1, 1))
    return rotation, PoseSeries(position + error[:, :3], noisy, tiled)


def errors(found, position, rotation):
    turned = found.rotation @ np.swapaxes(rotation, 1, 2)
    return np.column_stack([found.position - position, Rotation.from_matrix(turned).as_rotvec()])


def squares(found, error):
    return np.einsum('ti,tij,tj->t', error, np.linalg.inv(found.covariance), error)


def still():
    return np.zeros((len(TIME), 3)), np.zeros((len(TIME), 3))


def struck():
    """Return a part at rest that is struck at 0.7 s, and held at 1.2 s."""
    moving = np.clip(TIME - 0.7, 0.0, 0.5)[:, None]
    return moving * [1.0, 0.0, 0.0], moving * [0.0, 0.0, 3.0]


def swung():
    shift, turn = 0.1 * np.sin(9.0 * TIME), 0.5 * np.cos(7.0 * TIME)
    return shift[:, None] * [1.0, 0.5, 0.0], turn[:, None] * [0.0, 0.6, 0.8]


def test_a_part_at_rest_is_known_about_as_well_as_from_the_mean_of_all_images():
    position, turn = still()
    rotation, given = series(position, turn, 0)
    found = smoothing.smooth(TIME, given, SHAPE)
    middle = np.sqrt(np.diag(found.covariance[24]))
    # a mean over 48 has a standard deviation of 0.14; accelerations of 0 are never certain
    assert np.all(middle < 0.3 * np.sqrt(np.diag(COVARIANCE)))
    assert np.all(np.abs(errors(found, position, rotation)[24]) < 4.0 * middle)


@pytest.fixture(scope='module')
def smoothed():
    """Return, for each motion, its true poses, two series with noise, and these smoothed."""
    made = {}
    for motion in (still, struck, swung):
        position, turn = motion()
        pairs = [series(position, turn, seed) for seed in range(2)]
        found = [smoothing.smooth(TIME, given, SHAPE) for _, given in pairs]
        made[motion] = position, pairs[0][0], [given for _, given in pairs], found
    return made


@pytest.mark.slow
@pytest.mark.parametrize('motion', [still, struck, swung])
def test_errors_are_smaller_and_as_covariances_say(smoothed, motion):
    position, rotation, given, found = smoothed[motion]
    before = np.array([errors(one, position, rotation) for one in given])
    after = np.array([errors(one, position, rotation) for one in found])
    ratio = np.sqrt(np.mean(after**2, axis=(0, 1)) / np.mean(before**2, axis=(0, 1)))
    # swings leave little to smooth along x, and hardly anything moves along z
    assert np.all(ratio < 1.02) and np.mean(ratio) < 0.8
    square = np.mean([squares(*one) for one in zip(found, after, strict=True)]) / 6.0
    # errors of neighbouring images are alike: of a part at rest, these are about two samples of
    # six directions, of which the mean square varies by 0.4
    assert 0.4 < square < 2.0


def test_an_impact_is_not_smoothed_away(smoothed):
    position, rotation, given, found = smoothed[struck]
    near = (np.abs(TIME - 0.7) < 0.05) | (np.abs(TIME - 1.2) < 0.05)
    before, after = (
        np.array([errors(one, position, rotation)[near] for one in each])
        for each in (given, found)
    )
    # of 12 errors each: 1.6 is the 99 % quantile of what such a mean varies by
    assert np.all(np.mean(after**2, axis=(0, 1)) < 1.6 * np.mean(before**2, axis=(0, 1)))
    assert np.mean(after**2 / np.diag(COVARIANCE)) < 0.5


def test_covariances_that_are_twice_too_large_make_no_difference():
    position, turn = swung()
    _, given = series(position, turn, 1)
    _, wide = series(position, turn, 1, 2.0 * COVARIANCE)
    one, other = (smoothing.smooth(TIME, each, SHAPE) for each in (given, wide))
    # the search for densities ends within a relative 1e-3 of the noise
    np.testing.assert_allclose(other.position, one.position, atol=2e-6)
    np.testing.assert_allclose(other.covariance, one.covariance, atol=1e-2 * COVARIANCE.max())


def test_poses_in_another_frame_and_clock_are_smoothed_to_the_same():
    position, turn = swung()
    _, given = series(position, turn, 2)
    quarter = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    both = np.kron(np.eye(2), quarter)
    moved = PoseSeries(
        given.position @ quarter.T + [3.0, -2.0, 1.0],
        quarter @ given.rotation,
        both @ given.covariance @ both.T,
    )
    one = smoothing.smooth(TIME, given, SHAPE)
    other = smoothing.smooth(TIME + 100.0, moved, SHAPE)
    # the search for densities ends within a relative 1e-3 of the noise
    np.testing.assert_allclose(
        other.position, one.position @ quarter.T + [3.0, -2.0, 1.0], atol=2e-6
    )
    np.testing.assert_allclose(other.rotation, quarter @ one.rotation, atol=5e-5)


def test_rotations_that_are_not_shown_stay_as_they_are():
    position, turn = swung()
    axis = np.array([0.0, 0.0, 1.0])  # a roll about the vertical through the centre
    _, given = series(position, 0.0 * turn, 3)
    shape = Shape(np.zeros(3), SHAPE.radius)
    blind = given.covariance.copy()
    blind[:, 5, 5] = 1.8**2
    found = smoothing.smooth(TIME, given._replace(covariance=blind), shape)
    turned = found.rotation @ np.swapaxes(given.rotation, 1, 2)
    # rounding
    np.testing.assert_allclose(Rotation.from_matrix(turned).as_rotvec() @ axis, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.covariance[:, 5, 5], 1.8**2, rtol=1e-3)
    assert np.all(found.covariance[:, 3, 3] < blind[:, 3, 3])


def test_estimates_of_images_without_the_part_stay_as_they_are():
    _, given = series(*still(), 4)
    status = np.full(len(TIME), 'tracked', dtype=object)
    status[10:14], status[30] = 'hidden', 'lost'
    pair = [
        [PartEstimate(*pose, word, 1.0) for word in (one, 'tracked' if i < 3 else 'lost')]
        for i, (*pose, one) in enumerate(zip(*given, status, strict=True))
    ]
    found = smoothing.smooth_estimates(TIME, pair, [SHAPE, SHAPE])
    seen = status == 'tracked'
    assert [one[0] is other[0] for one, other in zip(found, pair, strict=True)] == (~seen).tolist()
    # three images say nothing about accelerations
    assert all(one[1] is other[1] for one, other in zip(found, pair, strict=True))
    expected = smoothing.smooth(TIME[seen], PoseSeries(*(one[seen] for one in given)), SHAPE)
    np.testing.assert_array_equal(
        [one[0].position for one, is_seen in zip(found, seen, strict=True) if is_seen],
        expected.position,
    )
