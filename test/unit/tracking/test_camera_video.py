"""Depth videos are read as they were written, and errors name what is wrong with them."""

from cameras import looking_at
import numpy as np
from PIL import Image
import pytest

from emppi_ros.core.errors import ConfigError
from emppi_ros.tracking import camera_video
from emppi_ros.tracking.camera_video import CameraVideo

VIEW = looking_at(16, 12, 50.0, [0.5, -1.0, 0.4])
TIMES = np.array([0.0, 0.04, 0.1])
DEPTH = np.random.default_rng(0).uniform(0.5, 2.0, (3, 12, 16)).astype(np.float32)
MASK = DEPTH > 1.0


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / 'video.npz'
    video = CameraVideo(VIEW, TIMES, lambda i: DEPTH[i], lambda i: MASK[i])
    camera_video.write(path, video)
    return path


def test_a_video_is_read_as_it_was_written(archive):
    found = camera_video.read(archive)
    np.testing.assert_array_equal(found.time, TIMES)
    assert found.mask is not None
    for i in range(3):
        np.testing.assert_array_equal(found.image(i), DEPTH[i].astype(float))
        np.testing.assert_array_equal(found.mask(i), MASK[i])
    # the rotation is written as a quaternion
    np.testing.assert_allclose(found.camera.matrix, VIEW.matrix, atol=1e-12)
    assert (found.camera.fx, found.camera.cy) == (VIEW.fx, VIEW.cy)


def change(path, **changes):
    with np.load(path) as old:
        content = {**old, **changes}
    np.savez(path, **{name: value for name, value in content.items() if value is not None})


@pytest.mark.parametrize(
    ('changes', 'words'),
    [
        ({'intrinsics': None}, "video.npz: no array 'intrinsics'; found depth, time_s"),
        ({'depth': (1000 * DEPTH).astype(np.uint16)}, 'depth: found uint16, expected a float'),
        ({'time_s': TIMES[::-1]}, 'times of images: expected finite numbers that increase'),
        ({'time_s': TIMES[:2]}, r'depth: found the shape \(3, 12, 16\), expected \(2, any, any\)'),
        ({'mask': MASK[:2]}, r'mask: found the shape \(2, 12, 16\)'),
        ({'camera_quaternion': np.array([1.0, 1.0, 0.0, 0.0])}, 'one of length 1.414'),
        ({'intrinsics': np.array([-1.0, 1.0, 0.0, 0.0])}, 'fx: found -1.0, expected a positive'),
    ],
)
def test_arrays_that_do_not_fit_are_named(archive, changes, words):
    change(archive, **changes)
    with pytest.raises(ConfigError, match=words):
        camera_video.read(archive)


def test_other_files_are_refused(tmp_path):
    (tmp_path / 'video.npz').write_bytes(b'PK\x03\x04')
    with pytest.raises(ConfigError, match='video.npz: cannot be read'):
        camera_video.read(tmp_path / 'video.npz')
    with pytest.raises(ConfigError, match=r'video.mp4: expected an .npz file, or a folder'):
        camera_video.read(tmp_path / 'video.mp4')


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'camera.yaml').write_text(
        'fx: 20\nfy: 21\ncx: 7.5\ncy: 5.5\nposition: [0, 0, 1]\nrate_hz: 25\n'
    )
    (tmp_path / 'mask').mkdir()
    for i in range(3):
        values = np.round(1000 * DEPTH[i]).astype(np.uint16)
        Image.fromarray(values).save(tmp_path / f'{i:03d}.png')
        Image.fromarray(MASK[i].astype(np.uint8) * 255).save(tmp_path / 'mask' / f'{i:03d}.png')
    return tmp_path


def test_a_folder_of_pictures_in_millimetres_is_a_video(folder):
    found = camera_video.read(folder)
    np.testing.assert_allclose(found.time, [0.0, 0.04, 0.08])
    assert found.mask is not None
    for i in range(3):
        # rounded to millimetres
        np.testing.assert_allclose(found.image(i), DEPTH[i], atol=0.00051)
        np.testing.assert_array_equal(found.mask(i), MASK[i])
    assert found.camera.fy == 21.0 and found.camera.position == (0.0, 0.0, 1.0)


def test_names_of_pictures_are_times_without_a_rate(folder):
    text = (folder / 'camera.yaml').read_text().replace('rate_hz: 25\n', '')
    (folder / 'camera.yaml').write_text(text)
    np.testing.assert_array_equal(camera_video.read(folder).time, [0.0, 1.0, 2.0])
    (folder / '000.png').rename(folder / 'first.png')
    with pytest.raises(ConfigError, match='no key rate_hz, and first.png is no time in seconds'):
        camera_video.read(folder)


def test_a_picture_with_colours_is_refused(folder):
    Image.fromarray(np.zeros((12, 16, 3), np.uint8)).save(folder / '001.png')
    with pytest.raises(ConfigError, match='001.png: found 3 channels, expected one'):
        camera_video.read(folder).image(1)


COLORS = np.random.default_rng(1).integers(0, 256, (3, 12, 16, 3)).astype(np.uint8)


@pytest.mark.parametrize(('images', 'kind'), [(COLORS, 'color'), (COLORS[..., 0], 'label')])
def test_colours_and_labels_are_read_as_they_were_written(tmp_path, images, kind):
    path = tmp_path / 'video.npz'
    camera_video.write(path, CameraVideo(VIEW, TIMES, lambda i: images[i], lambda i: MASK[i]))
    with np.load(path) as archive:
        assert kind in archive and 'depth' not in archive
    found = camera_video.read(path)
    np.testing.assert_array_equal(found.image(1), images[1])
    change(path, **{kind: images.astype(float)})
    with pytest.raises(ConfigError, match=f'{kind}: found float64, expected integers'):
        camera_video.read(path)


@pytest.mark.parametrize('images', [COLORS, COLORS[..., 0]])
def test_a_folder_has_colours_or_labels_where_parts_move_in_a_plane(folder, images):
    for i in range(3):
        Image.fromarray(images[i]).save(folder / f'{i:03d}.png')
    found = camera_video.read(folder, is_depth=False)
    assert found.mask is not None
    np.testing.assert_array_equal(found.image(2), images[2])
    np.testing.assert_array_equal(found.mask(2), MASK[2])
    transparent = np.concatenate([COLORS[0], COLORS[0][..., :1]], axis=-1)
    Image.fromarray(transparent).save(folder / '000.png')
    np.testing.assert_array_equal(camera_video.read(folder, is_depth=False).image(0), COLORS[0])
