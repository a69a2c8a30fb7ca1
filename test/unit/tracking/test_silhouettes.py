"""Parts are told apart by hues in any light, and marks that cannot do that are refused."""

import numpy as np
import pytest

from emppi_ros.core.errors import ConfigError, PoseError
from emppi_ros.tracking.silhouettes import PartMark, check_marks, segment

RED, BLUE = np.array([[200.0, 60.0, 50.0], [50.0, 80.0, 210.0]])
MARKS = PartMark(tuple(RED)), PartMark(tuple(BLUE))


def test_hues_are_recognized_in_shade_light_and_noise():
    rng = np.random.default_rng(0)
    wall = np.array([150.0, 145.0, 140.0])
    for light in (0.35, 0.7, 1.2):
        for shine in (0.0, 15.0):  # white that is reflected
            colors = np.array([light * RED + shine, light * BLUE + shine, light * wall])
            image = np.repeat(colors[None], 400, axis=0) + 5.0 * rng.normal(size=(400, 3, 3))
            image = np.clip(np.round(image), 0, 255).astype(np.uint8)
            parts = segment(image, MARKS, 25.0)
            # a hue with a chroma of 50 is off by 25 degrees at 3.5 standard deviations
            assert np.mean(parts == [0, 1, -1]) > 0.99
    dark = np.clip(6.0 * rng.normal(size=(400, 1, 3)), 0, 255).astype(np.uint8)
    assert np.mean(segment(dark, MARKS, 25.0) == -1) > 0.95


def test_labels_are_parts():
    labels = np.array([[0, 7, 3], [3, 9, 7]], np.uint8)
    parts = segment(labels, (PartMark(label=3), PartMark(label=7)), 25.0)
    np.testing.assert_array_equal(parts, [[-1, 1, 0], [0, -1, 1]])


@pytest.mark.parametrize(
    ('marks', 'words'),
    [
        ((PartMark(), PartMark()), 'arm: expected `color` .* or `label`'),
        ((PartMark(tuple(RED), 1), PartMark(tuple(BLUE))), 'arm: expected `color` .* or `label`'),
        ((PartMark(tuple(RED)), PartMark(label=2)), 'bob: expected `color` .* or `label`'),
        ((PartMark(tuple(RED)), PartMark((90.0,) * 3)), 'bob: color: found .* nearly grey'),
        (
            (PartMark(tuple(RED)), PartMark(tuple(0.5 * RED))),
            'bob and arm have hues 0 degrees apart: paint',
        ),
        ((PartMark(label=2), PartMark(label=2)), 'bob and arm have the same label'),
    ],
)
def test_marks_that_do_not_tell_parts_apart_are_refused(marks, words):
    with pytest.raises(ConfigError, match=words):
        check_marks(('arm', 'bob'), marks, 25.0)


def test_images_of_another_kind_are_refused():
    with pytest.raises(PoseError, match='image of labels: expected colours'):
        segment(np.zeros((4, 4), np.uint8), MARKS, 25.0)
    with pytest.raises(PoseError, match='image of colours: expected labels'):
        segment(np.zeros((4, 4, 3), np.uint8), (PartMark(label=1),), 25.0)
