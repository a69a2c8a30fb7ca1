"""Bags with depth images are read whatever the clocks, and wherever the camera's pose is."""

from types import SimpleNamespace

import numpy as np
import pytest

from emppi_ros.core.errors import PoseError
from emppi_ros.recordings import camera_bag
from emppi_ros.recordings.camera_bag import CameraTopics

NANO = 10**9


def stamped(seconds, frame='lens', **fields):
    ns = round(seconds * NANO)
    stamp = SimpleNamespace(sec=ns // NANO, nanosec=ns % NANO)
    header = SimpleNamespace(stamp=stamp, frame_id=frame)
    return SimpleNamespace(header=header, **fields)


def image(seconds):
    shape = {'width': 4, 'height': 3, 'step': 8, 'encoding': '16UC1', 'is_bigendian': 0}
    return stamped(seconds, **shape, data=bytes(24))


def camera():
    roi = SimpleNamespace(x_offset=0, y_offset=0, width=0, height=0)
    lens = {'k': [5.0, 0, 2, 0, 5, 1, 0, 0, 1], 'p': [0.0] * 12, 'd': []}
    return stamped(0.0, width=4, height=3, roi=roi, binning_x=0, binning_y=0, **lens)


def transform(parent, child, x):
    place = SimpleNamespace(x=x, y=0.0, z=1.0)
    turn = SimpleNamespace(x=0.0, y=0.0, z=0.0, w=1.0)
    moved = SimpleNamespace(translation=place, rotation=turn)
    one = stamped(0.0, parent, child_frame_id=child, transform=moved)
    return SimpleNamespace(transforms=[one])


def bag(stamps, recorded=None, **others):
    """Return a bag of images and one CameraInfo; `recorded` are times of recording [s]."""
    recorded = stamps if recorded is None else recorded
    rows = [('depth/camera_info', 0, camera())]
    rows += [
        ('depth/image', round(r * NANO), image(s)) for s, r in zip(stamps, recorded, strict=True)
    ]
    rows += [(topic, 0, message) for topic, messages in others.items() for message in messages]
    return SimpleNamespace(messages=lambda _: rows, path='bag', cut='', counts={})


STILL = {'tf_static': [transform('world', 'lens', 0.5)]}


def test_an_image_of_another_clock_is_left_out_and_named():
    stamps = [100.0, 100.1, 3700.2, 100.3, 100.4]
    found = camera_bag.read(
        bag(stamps, [100.0, 100.1, 100.2, 100.3, 100.4], **STILL), CameraTopics()
    )
    np.testing.assert_allclose(found.video.time, [0.0, 0.1, 0.3, 0.4], atol=1e-6)
    assert found.notes == [
        'depth/image: 1 of 5 images left out, whose stamps are off by up to +3600 s'
    ]


def test_images_of_a_bag_that_was_recorded_in_an_instant_are_all_kept():
    stamps = np.arange(50) * 0.5
    found = camera_bag.read(bag(stamps, stamps * 0.01, **STILL), CameraTopics())
    np.testing.assert_allclose(found.video.time, stamps, atol=1e-6)
    assert not found.notes


def test_the_pose_of_a_camera_may_be_on_tf():
    moving = [transform('hand', 'lens', 0.2), transform('world', 'hand', 0.3)] * 3
    found = camera_bag.read(bag([1.0, 2.0], tf=moving), CameraTopics())
    np.testing.assert_allclose(found.video.camera.position, [0.5, 0.0, 2.0], atol=1e-12)


def test_a_camera_that_moves_is_refused():
    moving = [transform('world', 'lens', 0.3), transform('world', 'lens', 0.31)]
    with pytest.raises(PoseError, match=r"'lens' moves in 'world' on /tf, by 10\.0 mm"):
        camera_bag.read(bag([1.0, 2.0], tf=moving), CameraTopics())


def test_a_bag_of_colours_is_a_video_of_them():
    given = bag([1.0, 2.0], **STILL)
    rows = given.messages(())
    for i in (1, 2):
        message = rows[i][2]
        message.encoding, message.step, message.data = 'rgb8', 12, bytes(range(36))
    found = camera_bag.read(given, CameraTopics(), is_depth=False).video
    np.testing.assert_array_equal(found.image(1), np.arange(36).reshape(3, 4, 3))
    assert (found.camera.width, found.camera.height) == (4, 3)
    with pytest.raises(PoseError, match="'rgb8'; expected one of 16UC1.*`plane` in emppi track"):
        camera_bag.read(given, CameraTopics())
