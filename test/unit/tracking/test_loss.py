"""What is said of parts that are not found names the cause, with numbers."""

import dataclasses

import numpy as np

from emppi_ros.tracking import renderer
from emppi_ros.tracking.fitting import TrackedParts
from emppi_ros.tracking.loss import explain_losses

from .conftest import moved


def explain(stage, poses, image, **camera):
    """Return what is said if the parts are searched at poses, by a camera with other values."""
    view = dataclasses.replace(stage.camera, **camera)
    behind = renderer.render_background(stage.model, stage.bodies, view)
    tracked = TrackedParts(stage.tracked.settings, stage.model, stage.bodies, view, behind)
    return explain_losses(tracked, ['box'], poses, tracked.prepare(-np.inf, 0.0, image, None))[0]


def test_depths_in_another_unit_are_named(tilted):
    stage, poses = tilted
    text = explain(stage, poses, 1000.0 * stage.image(poses))
    median = np.median(stage.image(poses))
    assert f'depths are {1000.0 * median:.4g} m (median)' in text
    assert f'scene say {median:.4g} m: check their unit' in text
    assert explain(stage, poses, np.zeros((120, 160))) == 'the image has no depths'


def test_a_camera_elsewhere_is_named_by_what_is_behind_the_parts(tilted):
    stage, poses = tilted
    x, y, z = stage.camera.position
    text = explain(stage, poses, stage.image(poses), position=(x, y - 0.4, z))
    # the wall is 0.4 m farther along its normal, and about as much along rays
    assert text.startswith('0.0 % of the background are within 5 mm') and text.endswith(
        'check the camera pose'
    )
    distance = float(text.split('half of it is ')[1].split(' mm')[0])
    assert 380.0 < distance < 500.0


def test_a_part_that_starts_elsewhere_is_named_with_what_is_there(tilted):
    stage, poses = tilted
    text = explain(stage, moved(poses, [0.7, 0.0, 0.0], np.zeros(3)), stage.image(poses))
    assert text.startswith('box is searched from [0.')
    distance = float(text.split('background is ')[1].split(' m')[0])
    # its surface is nearer than its centre by up to 0.15 m
    assert abs(distance - 0.7) < 0.15 and text.endswith('or give a larger reach_m')
    assert 'nothing is in front' in explain(stage, poses, stage.background)


def test_another_shape_is_named_with_its_errors(tilted):
    stage, poses = tilted
    image = stage.image(poses)
    image[stage.image(poses) < stage.background] -= 0.05
    text = explain(stage, poses, image)
    assert 'depths there are 50.0 mm from those of its shape' in text
    assert 'check its shape and its first pose' in text
