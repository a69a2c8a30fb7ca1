"""Images and cameras are read from messages as ROS means them, or refused by name."""

import io
from types import SimpleNamespace

import numpy as np
from PIL import Image
import pytest

from emppi_ros.core.errors import PoseError
from emppi_ros.core.pose import IDENTITY, Pose
from emppi_ros.tracking.camera_messages import read_camera, read_colors

POINTS = np.random.default_rng(0).uniform([-0.3, -0.2, 0.8], [0.3, 0.2, 2.0], (9, 3))
RAW = [300.0, 0, 160, 0, 310.0, 120, 0, 0, 1]
PINHOLE = [280.0, 0, 155, 0, 0, 290.0, 125, 0, 0, 0, 1, 0]


def info(**changed):
    """Return a CameraInfo of 320 x 240 px whose K and P differ."""
    roi = SimpleNamespace(x_offset=0, y_offset=0, width=0, height=0)
    fields = {'width': 320, 'height': 240, 'd': [-0.05, 0.06, 0.0, 0.0, 0.0], 'k': RAW}
    fields |= {'p': PINHOLE, 'binning_x': 0, 'binning_y': 0, 'roi': roi}
    return SimpleNamespace(**fields | changed)


def part(x, y, width, height):
    return SimpleNamespace(x_offset=x, y_offset=y, width=width, height=height)


def columns_and_rows(camera):
    return camera.project(POINTS)[:, :2]


def expected(matrix):
    seen = POINTS @ np.reshape(matrix, (3, -1))[:, :3].T
    return seen[:, :2] / seen[:, 2:]


@pytest.mark.parametrize('topic', ['depth/image', '/camera/depth/image_rect_raw', '/image_rect'])
def test_rectified_images_have_the_projection_p_and_no_distortion(topic):
    notes = []
    camera = read_camera(info(), IDENTITY, topic, note=notes.append)
    np.testing.assert_allclose(columns_and_rows(camera), expected(PINHOLE), atol=1e-9)  # rounding
    # only the name of a topic says that images are rectified
    assert [('has distortion' in one) for one in notes] == [True] * ('rect' not in topic)


def test_raw_images_with_distortion_are_refused_unless_they_are_called_rectified():
    with pytest.raises(PoseError, match='image_raw: raw images with distortion .*image_proc.*--r'):
        read_camera(info(), IDENTITY, '/camera/depth/image_raw')
    camera = read_camera(info(), IDENTITY, '/camera/depth/image_raw', is_rectified=True)
    assert camera.fx == PINHOLE[0]
    plain = read_camera(info(d=[0.0] * 5), IDENTITY, '/camera/depth/image_raw')
    np.testing.assert_allclose(columns_and_rows(plain), expected(RAW), atol=1e-9)
    with pytest.raises(PoseError, match='CameraInfo without p, but with distortion'):
        read_camera(info(p=[0.0] * 12), IDENTITY, 'image_rect')


def test_cut_and_binned_images_see_points_where_the_full_one_does():
    full = columns_and_rows(read_camera(info(), IDENTITY))
    cut = read_camera(info(roi=part(40, 30, 200, 100)), IDENTITY, size=(200, 100))
    np.testing.assert_allclose(columns_and_rows(cut), full - [40, 30], atol=1e-9)
    both = info(roi=part(40, 30, 200, 100), binning_x=2, binning_y=4)
    binned = read_camera(both, IDENTITY, size=(100, 25))
    assert (binned.width, binned.height) == (100, 25)
    np.testing.assert_allclose(columns_and_rows(binned), (full - [40, 30]) / [2, 4], atol=1e-9)
    # the size of the images says whether they are cut
    whole = read_camera(both, IDENTITY, size=(320, 240))
    np.testing.assert_allclose(columns_and_rows(whole), full, atol=1e-9)


def test_decimated_images_are_scaled_and_other_sizes_are_refused():
    notes = []
    half = read_camera(info(), IDENTITY, 'rect', (160, 120), note=notes.append)
    full = columns_and_rows(read_camera(info(), IDENTITY))
    np.testing.assert_allclose(columns_and_rows(half), full / 2.0, atol=1e-9)
    assert len(notes) == 1 and '1/2 of what CameraInfo says' in notes[0]
    for size in ((320, 200), (640, 480), (160, 100), (0, 0)):
        with pytest.raises(PoseError, match=f'images of {size[0]} x {size[1]} px, but CameraInfo'):
            read_camera(info(), IDENTITY, size=size)


def test_the_right_camera_of_a_pair_has_its_own_centre():
    moved = PINHOLE.copy()
    moved[3] = -280.0 * 0.05  # -fx times the baseline [m]
    turn = np.array([0.5, 0.5, 0.5, 0.5])  # x becomes y
    camera = read_camera(info(p=moved), Pose(np.array([1.0, 2.0, 3.0]), turn), 'image_rect')
    np.testing.assert_allclose(camera.position, [1.0, 2.05, 3.0], atol=1e-12)  # rounding


def message(values, encoding, padding=0):
    """Return an image of bytes (h, w * channels), with padding at the end of each row."""
    rows = np.pad(values, ((0, 0), (0, padding)))
    return SimpleNamespace(
        encoding=encoding, width=4, height=3, step=rows.shape[1], is_bigendian=0,
        data=rows.astype(np.uint8).tobytes(),
    )  # fmt: skip


def test_colours_and_labels_are_read_in_their_order():
    colors = np.arange(36).reshape(3, 4, 3)
    read = read_colors(message(colors.reshape(3, 12), 'rgb8', padding=4))
    np.testing.assert_array_equal(read, colors)
    read = read_colors(message(colors[..., ::-1].reshape(3, 12), 'bgr8'))
    np.testing.assert_array_equal(read, colors)
    for encoding in ('mono8', '8UC1'):
        np.testing.assert_array_equal(
            read_colors(message(colors[..., 0], encoding)), colors[..., 0]
        )
    with pytest.raises(
        PoseError, match="'16UC1'; expected one of rgb8, .*Only depth images need no"
    ):
        read_colors(message(np.zeros((3, 8)), '16UC1'))
    with pytest.raises(PoseError, match="'yuv422'; expected one of rgb8, bgr8, mono8, 8UC1"):
        read_colors(message(np.zeros((3, 8)), 'yuv422'))
    with pytest.raises(PoseError, match='with 36 bytes, 12 a row; expected at least 18 a row'):
        read_colors(SimpleNamespace(**vars(message(colors.reshape(3, 12), 'rgb8')) | {'width': 6}))


def test_compressed_colours_and_labels_are_read():
    colors = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
    for values in (colors, colors[..., 0]):
        file = io.BytesIO()
        Image.fromarray(values).save(file, 'PNG')
        compressed = SimpleNamespace(format='rgb8; png compressed bgr8', data=file.getvalue())
        np.testing.assert_array_equal(read_colors(compressed), values)
    with pytest.raises(PoseError, match='image .jpeg. cannot be read'):
        read_colors(SimpleNamespace(format='jpeg', data=b'abc'))
