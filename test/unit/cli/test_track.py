"""`emppi track` writes poses with covariances, and says what is wrong with its input."""

import json

from cameras import looking_at
import mujoco
import numpy as np
import pytest

from emppi_ros.cli import main
from emppi_ros.model import scene
from emppi_ros.recordings import tables
from emppi_ros.recordings.signals import covariance_matrices
from emppi_ros.sim.depth_camera import add_noise
from emppi_ros.tasks.schema import DepthCameraConfig
from emppi_ros.tracking import camera_video, renderer
from emppi_ros.tracking.camera_video import CameraVideo

SCENE = """
<mujoco>
  <worldbody>
    <geom type="plane" size="2 2 0.1"/>
    <body name="block" pos="0 0 0.06"><freejoint/><geom type="box" size="0.1 0.07 0.06"/></body>
    <body name="ghost"/>
  </worldbody>
</mujoco>"""
COUNT, SPEED, GONE = 8, 0.2, 6  # images, m/s, image from which on the block is gone


@pytest.fixture
def video(tmp_path):
    """Return a video of a block that slides, and vanishes."""
    (tmp_path / 'scene.xml').write_text(SCENE)
    (tmp_path / 'parts.yaml').write_text('scene: scene.xml\nparts:\n  box: {body: block}\n')
    model = mujoco.MjModel.from_xml_string(SCENE)
    view = looking_at(160, 120, 40.0, [0.7, -1.0, 0.8])
    settings, rng, images = DepthCameraConfig(), np.random.default_rng(0), []
    for i in range(COUNT):
        data = mujoco.MjData(model)
        data.qpos[0] = SPEED * i / 15.0 if i < GONE else 50.0
        mujoco.mj_forward(model, data)
        images.append(add_noise(settings, renderer.render_scene(model, data, view), rng))
    path = tmp_path / 'video.npz'
    camera_video.write(path, CameraVideo(view, np.arange(COUNT) / 15.0, lambda i: images[i]))
    return path


def arguments(video, *more):
    folder = video.parent
    words = ['track', str(video), '--parts', str(folder / 'parts.yaml'), *more]
    return [*words, '--out', str(folder / 'tracks.csv')]


def test_a_table_of_poses_with_covariances_is_written(video, capsys):
    pictures = [str(video.parent / name) for name in ('strip.png', 'film.gif')]
    more = ['--json', '--picture', pictures[0], '--overlay', pictures[1]]
    assert main(arguments(video, *more)) == 0
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    found = {one.kind: one for one in tables.read(video.parent / 'tracks.csv')}
    pose, covariance = found['pose'], found['covariance']
    assert pose.of == 'box' and len(pose.time) == GONE
    sd = np.sqrt(np.diagonal(covariance_matrices(covariance.values), axis1=1, axis2=2))
    expected = np.column_stack([SPEED * pose.time, 0.0 * pose.time, 0.06 + 0.0 * pose.time])
    # six images with three errors each: 4.5 standard deviations
    assert np.all(np.abs(pose.values[:, :3] - expected) < 4.5 * sd[:, :3])
    assert np.all(sd[:, :3] < 0.01)
    parts = summary['parts']['box']
    assert (parts['tracked'], parts['lost'], parts['rotations_seen']) == (GONE, COUNT - GONE, 3)
    assert 'box: lost at 0.40 s, and not found again' in printed.err
    assert all((video.parent / name).stat().st_size > 1000 for name in ('strip.png', 'film.gif'))


def test_joints_of_a_model_are_tracked_in_place_of_free_parts(video, capsys):
    model = video.parent / 'model.xml'
    body = '<body name="box" pos="0 0 0.06"><joint name="rail" type="slide" axis="1 0 0"/>'
    text = f'<mujoco><worldbody>{body}<geom size="0.01"/></body></worldbody></mujoco>'
    model.write_text(text)
    assert main(arguments(video, '--model', str(model))) == 0
    found = {one.kind: one for one in tables.read(video.parent / 'tracks.csv')}
    rail, pose = found['position'], found['pose']
    assert (rail.of, rail.unit, len(rail.time)) == ('rail', 'm', GONE)
    # half of a pixel of 11 mm, seen by many
    np.testing.assert_allclose(rail.values, SPEED * rail.time, atol=0.003)
    exact = np.column_stack([rail.values, 0.0 * rail.time, 0.06 + 0.0 * rail.time])
    np.testing.assert_allclose(pose.values[:, :3], exact, atol=1e-9)  # rounding
    model.write_text(text.replace('"box"', '"lid"'))
    assert main(arguments(video, '--model', str(model))) == 2
    assert f"--model {model}: unknown body 'box'" in capsys.readouterr().err


def test_smoothed_poses_are_those_of_the_same_images_and_known_better(video, capsys):
    table = video.parent / 'tracks.csv'
    deviations = []
    for more in ([], ['--smooth']):
        assert main(arguments(video, *more)) == 0
        found = {one.kind: one for one in tables.read(table)}
        assert len(found['pose'].time) == GONE
        covariance = covariance_matrices(found['covariance'].values)
        deviations.append(np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)).mean(axis=0))
    assert np.all(deviations[1] < deviations[0])
    model = video.parent / 'model.xml'
    assert main(arguments(video, '--smooth', '--model', str(model))) == 2
    assert '--smooth: not with --model' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('scene: scene.xml\nparts:\n  box: {body: blok}\n', "box: unknown body 'blok' (did you"),
        ('scene: scene.xml\nparts:\n  ghost: {}\n', "body 'ghost' has no visible geom"),
        ('scene: scene.xml\nparts: {}\n', 'parts: expected at least one part'),
        ('scene: other.xml\nparts:\n  box: {}\n', "scene: unknown scene 'other.xml'"),
        (
            'scene: scene.xml\nparts:\n  block: {quaternion: [1, 1, 0, 0]}\n',
            'quaternion: found [1, 1, 0, 0], expected a unit quaternion w, x, y, z',
        ),
        (
            'scene: scene.xml\nparts:\n  block: {position: [5, 5, 5]}\n',
            'no part is seen in any image: block is searched from [5.0, 5.0, 5.0] m',
        ),
    ],
)
def test_parts_that_do_not_fit_are_named(video, capsys, text, words):
    (video.parent / 'parts.yaml').write_text(text)
    assert main(arguments(video)) == 2
    assert words in capsys.readouterr().err


def test_a_picture_needs_a_name_of_one(video, capsys):
    assert main(arguments(video, '--picture', 'strip.jpg')) == 2
    assert 'expected a name that ends in .png' in capsys.readouterr().err


def test_joints_of_a_robot_must_be_in_the_table_and_in_the_scene(video, capsys):
    table = video.parent / 'joints.csv'
    for column, words in (
        ('position/elbow [rad]', "joints.csv: unknown joint 'elbow'"),
        ('velocity/elbow [rad/s]', "joints.csv: no column such as 'position/elbow [rad]'"),
    ):
        table.write_text(f'time_s,{column}\n0,0\n1,0\n')
        assert main(arguments(video, '--joints', str(table))) == 2
        assert words in capsys.readouterr().err


def test_a_run_makes_a_video_that_can_be_tracked(tmp_path, capsys):
    video = tmp_path / 'run.npz'
    words = ['run', 'cartpole_swingup', '--duration', '0.2', '--depth', str(video), '--json']
    assert main(words) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary['depth'] == str(video)
    (tmp_path / 'parts.yaml').write_text('scene: cartpole.xml\nparts: {cart: {}}\n')
    assert main(arguments(video)) == 0
    (pose, _) = tables.read(tmp_path / 'tracks.csv')
    true = {one.of: one for one in tables.read(tmp_path / 'run.truth.csv')}
    assert set(true) == {'cart', 'pole'}
    rows = np.searchsorted(true['cart'].time, pose.time)
    # 4 m away a pixel has 15 mm, and depths a noise of 58 mm
    apart = pose.values[:, :3] - true['cart'].values[rows, :3]
    assert np.all(np.linalg.norm(apart, axis=1) < 0.06)


PENDULUM = """
<mujoco>
  <worldbody>
    <geom type="plane" pos="0 0.3 0" zaxis="0 -1 0" size="2 2 0.1"/>
    <body name="arm"><joint name="swing" type="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02"/>
      <geom type="capsule" fromto="0 0 0 0 0 0.1" size="0.02"/>
    </body>
  </worldbody>
</mujoco>"""
ANGLES = 0.3 + 0.08 * np.arange(12)


@pytest.fixture
def film(tmp_path):
    """Return a film of a red pendulum in front of a grey wall, with noise."""
    (tmp_path / 'scene.xml').write_text(PENDULUM)
    text = 'scene: scene.xml\nplane: [0, 1, 0]\nparts:\n  arm: {color: [200, 50, 40]}\n'
    (tmp_path / 'parts.yaml').write_text(text)
    model, rng, images = mujoco.MjModel.from_xml_string(PENDULUM), np.random.default_rng(0), []
    view = looking_at(160, 120, 40.0, [0.2, -1.0, 0.3])
    bodies = [model.body('arm').id]
    drawn = renderer.PartRenderer(model, bodies, view)
    for angle in ANGLES:
        drawn.place(renderer.body_poses(scene.kinematics(model, np.array([angle])), bodies))
        seen = drawn.render()
        shade = 0.5 + 0.5 * np.abs(seen.normal[..., 2:])  # light from above
        image = np.where(seen.part[..., None] == 0, shade * [200.0, 50.0, 40.0], 140.0)
        image += 6.0 * rng.normal(size=image.shape)
        images.append(np.clip(np.round(image), 0, 255).astype(np.uint8))
    path = tmp_path / 'film.npz'
    camera_video.write(path, CameraVideo(view, np.arange(12) / 15.0, lambda i: images[i]))
    return path


def test_parts_in_a_plane_are_tracked_in_colours_and_their_joint_is_inferred(film, capsys):
    # the scene has the arm at another angle: it is searched
    picture = film.parent / 'strip.png'
    assert main(arguments(film, '--json', '--picture', str(picture))) == 0
    assert json.loads(capsys.readouterr().out)['parts']['arm']['tracked'] == len(ANGLES)
    assert picture.stat().st_size > 1000
    found = {one.kind: one for one in tables.read(film.parent / 'tracks.csv')}
    w, _, y, _ = found['pose'].values[:, 3:].T
    sd = np.sqrt(covariance_matrices(found['covariance'].values)[:, 4, 4])
    # twelve images: three standard deviations with a probability of 97 %, if they are right
    assert np.all(np.abs(2.0 * np.arctan2(y, w) - ANGLES) < 3.0 * sd) and np.all(sd < 0.03)
    words = ['articulate', str(film.parent / 'tracks.csv'), '--out', str(film.parent / 'arm.xml')]
    assert main(words) == 0
    inferred = mujoco.MjModel.from_xml_path(str(film.parent / 'arm.xml'))
    assert inferred.jnt_type.tolist() == [mujoco.mjtJoint.mjJNT_HINGE]
    # a pixel has 6 mm
    assert np.linalg.norm(inferred.jnt_pos[0]) < 0.003 and abs(inferred.jnt_axis[0, 1]) > 0.999


@pytest.mark.parametrize(
    ('old', 'new', 'words'),
    [
        (
            'plane: [0, 1, 0]\n',
            '',
            'image of colours: silhouettes do not show all six coordinates',
        ),
        (
            'plane: [0, 1, 0]',
            'plane: [0, 0, 0]',
            'plane: found [0.0, 0.0, 0.0], expected the normal',
        ),
        ('200, 50, 40', '50, 40, 200', 'arm: 0 px have its color [50.0, 40.0, 200.0] at 0 s'),
        (
            '200, 50, 40',
            '90, 90, 90',
            'arm: color: found [90.0, 90.0, 90.0], which is nearly grey',
        ),
    ],
)
def test_colours_that_do_not_show_parts_are_explained(film, capsys, old, new, words):
    parts = film.parent / 'parts.yaml'
    parts.write_text(parts.read_text().replace(old, new))
    assert main(arguments(film)) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize('more', [['--model', 'arm.xml'], ['--smooth']])
def test_what_needs_depths_is_refused_for_colours(film, capsys, more):
    assert main(arguments(film, *more)) == 2
    assert '--model, --smooth: not with `plane` in --parts' in capsys.readouterr().err
